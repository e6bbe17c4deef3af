"""`mpi_gt.run`: one run on the ranks of the caller's communicator, or stacked in this process."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import RunConfig
from ..engine.result import Result
from ..engine.run import run as run_experiment
from ..errors import Diverged, Stopped, UserError
from ..launchers.detect import is_launched
from ..user_classes import handing_over
from .failures import failure
from .objects import Inputs, Translation

if TYPE_CHECKING:
    from mpi4py import MPI


def run(comm: "MPI.Intracomm | None", options: Mapping[str, Any]) -> Result:
    """Carry out `mpi_gt.run`. Collective: every rank of `comm` calls it."""
    chosen = {"quiet": True, "watchdog": 0, **options}
    inputs: Inputs | None = None

    def make() -> tuple[RunConfig, list[str]]:
        nonlocal inputs
        inputs = Inputs(chosen, travels=False)
        with handing_over(inputs.objects):
            return RunConfig.of(inputs.options), list(inputs.objects)

    try:
        if comm is None:
            config, names = make()
        else:
            from ..comm.collective import on_root

            _warn_of_one_node(comm, chosen)
            config, names = comm.bcast(on_root(comm, make))
        # the files are root's alone to read, but each rank has objects of its own
        objects = (inputs or Translation(chosen, Path(), travels=False)).objects
        with handing_over(dict(zip(names, objects.values(), strict=True))):
            try:
                return run_experiment(config, comm)
            except (UserError, Diverged, Stopped):
                raise
            except BaseException as error:
                raise failure(error, comm, config.out)  # noqa: B904 (mostly the same error)
    except UserError as error:
        if inputs is None:
            raise
        inputs.undo()
        raise inputs.named(error) from None
    finally:
        if inputs is not None:
            inputs.close()


def _warn_of_one_node(comm: "MPI.Intracomm", options: Mapping[str, Any]) -> None:
    """Warn of a script that was meant for mpirun and was started without it."""
    if comm.size == 1 and options.get("n") is None and not is_launched():
        warnings.warn(
            "this is one MPI process, so the run has one node and no neighbours; for 16 nodes "
            "start the script by `mpirun -n 16 python ...`, or call mpi_gt.launch(n=16, ...); "
            "n=1 says that one is meant",
            stacklevel=4,
        )
