"""The commands that need no ranks, by name; those that only look, and those that hand on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..spec import convert
from .actions import (
    describe_graph,
    manage_data,
    show_status,
    watch_run,
    write_hostfile,
    write_report,
)
from .configure import convert_flags, make_config, make_studies, parse

SUBMITTED = ("run", "profile", "compare", "sweep", "reproduce", "resume")


def _submit(words: list[str], **options: Any) -> int:
    """The command `submit`: what is wrong with the command inside is told before it is queued."""
    from ..launch.slurm import count_ranks, submit

    if not words:
        raise UserError("submit what? Add the command behind two dashes: -- run --seeds 5")
    command, given = parse(words)
    if command not in SUBMITTED or given.pop("hostfile", None) is not None:
        what = "--hostfile" if command in SUBMITTED else command
        raise UserError(f"submit is for {', '.join(SUBMITTED)}, not for {what}")
    n = count_ranks(options["nodes"], options["ntasks_per_node"])
    if convert("-n", int, given.get("n", str(n))) != n:
        raise UserError(f"-n {given['n']} does not fit: nodes times tasks are {n} ranks")
    return submit(words, _check_submitted(command, {"n": str(n), **given}), **options)


def _check_submitted(command: str, given: dict[str, Any]) -> bool:
    """Find what is wrong with a command; whether it leaves open where to write."""
    from ..config import read_toml

    chosen = "chosen in the job"
    if command == "reproduce":
        make_studies({**given, "out": chosen})
        return False
    if command == "resume":
        make_config(command, given)
        return False
    file = given.get("file")
    named = "out" in given or (file is not None and "out" in read_toml(Path(file)))
    make_config(command, {"out": chosen, **given})
    return not named


def _describe_theory(
    file: str | None = None, suggest: bool = False, json: bool = False, **flags: Any
) -> int:
    """The command `theory`."""
    from ..config import read_toml
    from .advise import advise

    options: dict[str, Any] = {} if file is None else read_toml(Path(file))
    return advise({**options, **convert_flags(flags)}, suggest, json)


def _predict(**given: Any) -> int:
    from .laboratory import predict

    return predict(**given)


ALONE: dict[str, Callable[..., int]] = {
    "graph": describe_graph,
    "data": manage_data,
    "predict": _predict,
    "hostfile": write_hostfile,
    "submit": _submit,
    "status": show_status,
    "theory": _describe_theory,
    "report": write_report,
    "watch": watch_run,
}
