"""Start of a rank: a script that mpirun runs by its path.

`python -m mpi_gt` would search the current folder first: for another mpi_gt, and for every module
that a rank imports (a file numpy.py there would be taken for numpy). This script loads the very
package that it lies in, and removes its own folder from the search path.
"""

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location

HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (pathlib is not needed yet)


def load_package() -> None:
    """Import mpi_gt from the folder above this one, wherever another one may be installed."""
    if sys.path and sys.path[0] == HERE:
        del sys.path[0]
    folder = os.path.dirname(HERE)  # noqa: PTH120
    spec = spec_from_file_location(
        "mpi_gt",
        f"{folder}/__init__.py",
        submodule_search_locations=[folder],
    )
    assert spec is not None
    assert spec.loader is not None
    package = module_from_spec(spec)
    sys.modules["mpi_gt"] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    load_package()
    from mpi_gt.cli.main import main

    sys.exit(main())
