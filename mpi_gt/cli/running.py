"""A run from the command line, in the parent as on ranks: do it, show it, tell how it ended."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..engine.stop import StopRequest
from ..errors import Diverged, Stopped
from ..rundir.run_json import resume_hint

if TYPE_CHECKING:
    from mpi4py import MPI

    from ..config import RunConfig


def run_and_show(config: "RunConfig", comm: "MPI.Intracomm | None", stop: StopRequest) -> None:
    from ..display.results import show
    from ..engine.run import run

    try:
        result = run(config, comm, stop)
    except Diverged as error:
        if config.algorithms is not None and error.facts and not config.quiet:
            show(error.facts)  # the others have run to their end
        raise
    if result.facts and not config.quiet:
        show(result.facts)
        if result.profile:
            from ..display.performance import show_profile

            show_profile(result.profile)


def tell_of_stop(stopped: Stopped, out: str | None) -> int:
    print(f"mpi-gt: {stopped}; {resume_hint(Path(str(out)))}", file=sys.stderr, flush=True)
    return stopped.exit_code


def release_reserved_directory(config: "RunConfig") -> None:
    from ..rundir.layout import release_reserved

    if config.reserved and config.out:
        release_reserved(Path(config.out))
