"""`python -m mpi_gt`, the same as the command `mpi-gt`."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
