"""Going on with a run: which run it was, whether this is the same one, and from where."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import RunConfig
from ..errors import UserError
from ..rundir import run_json
from ..rundir.checkpoint import SLOTS, Part, Unusable, latest, part_path, read_part
from ..rundir.layout import require_free
from ..rundir.run_directory import require_unused
from ..rundir.run_json import read_facts
from ..rundir.watchdog_reports import forget_reports
from .checkpointer import Checkpointer
from .loop import NoRecorder
from .recorder import Recorder

if TYPE_CHECKING:
    from mpi4py import MPI

Choice = tuple[dict[str, str | None], int | None]
"""The finished algorithms, each with its error if any, and the slot to go on from, if any."""


def config_of_run(directory: Path, given: Mapping[str, Any], ranks: int | None) -> RunConfig | None:
    """The configuration of the run in that directory, with what is given in place of its own.

    None where it is finished already. `ranks` is the number of MPI ranks, if there are any.
    """
    facts = read_facts(directory)
    if "config" not in facts:
        raise UserError(f"{directory} holds no run to go on with: there is no run.json to read")
    known = {field.name for field in fields(RunConfig)}
    config = RunConfig.of({key: value for key, value in facts["config"].items() if key in known})
    n = given.get("n") or ranks or config.n
    if config.n is not None and config.n != n:
        raise UserError(f"the run in {directory} has {config.n} ranks, not {n}: it needs as many")
    going_on = {"n": n, "out": str(directory), "resume": True, "overwrite": False}
    # profile and audit are of a whole run
    going_on.update(profile=False, trace_iterations=None, audit=False)
    config = replace(config, **{**given, **going_on})
    config.check()
    return continued_config(config)


def continued_config(config: RunConfig) -> RunConfig | None:
    """How `config` goes on with the run that is in its directory; None: it is finished."""
    facts = read_facts(Path(str(config.out)))
    if "config" not in facts:
        return config
    before = facts["config"]
    if config.log_every is None:  # by default it follows from T: an extended run keeps its own
        own = {key: before.get(key) for key in ("iterations", "log_every", "profile")}
        old = replace(config, **{**own, "profile": bool(own["profile"]), "trace_iterations": None})
        config = replace(config, log_every=old.log_interval)
    reached = latest(Path(str(config.out))).get("iteration", 0)
    if config.iterations < reached:
        raise UserError(f"{config.out} is at iteration {reached} already, past {config.iterations}")
    longer = config.iterations > before["iterations"]
    if facts.get("status") == "finished" and not longer:
        return None
    if config.iterations != before["iterations"] and config.algorithms is not None:
        raise UserError("a comparison goes on with the iterations it began with")
    return config


def restore_checkpoint(
    config: RunConfig,
    directory: Path,
    labels: Sequence[str],
    identity: str,
    recorder: Recorder | NoRecorder,
    checkpointer: Checkpointer,
    comm: "MPI.Intracomm | None",
) -> dict[str, str | None]:
    """Find where to go on and have recorder and checkpointer do so.

    Each rank reads its own parts; root compares what they hold. Returned are the algorithms that
    are finished, each with its error if it diverged.
    """
    if config.stacked:
        comm = None
    node = 0 if comm is None else comm.rank
    parts = [_own_part(directory, slot, node, identity) for slot in range(len(SLOTS))]
    told = [part if isinstance(part, str) else (*part.position, part.header) for part in parts]
    reports = [told] if comm is None else comm.gather(told)
    choice: Choice | None = None
    if isinstance(recorder, Recorder):
        assert reports is not None
        choice = _choose(config, labels, recorder, reports)
    if comm is not None:
        choice = comm.bcast(choice)
    assert choice is not None
    done, slot = choice
    if slot is not None:
        chosen = parts[slot]
        assert isinstance(chosen, Part)
        checkpointer.resume_from(slot, chosen)
    return done


def _own_part(directory: Path, slot: int, node: int, identity: str) -> Part | str:
    """This rank's part of a checkpoint, or why there is none (empty: nobody has written any)."""
    path = part_path(directory, slot, node)
    if not path.exists():
        return ""
    try:
        part = read_part(path)
    except (Unusable, ValueError, KeyError) as error:
        return str(error)
    if part.header["identity"] != identity or part.header["node"] != node:
        return f"{path} is of another run"
    return part


def _choose(
    config: RunConfig, labels: Sequence[str], recorder: Recorder, reports: list[Any]
) -> Choice:
    """Root's: what the ranks have found, made into one decision."""
    done = recorder.finished(labels)
    found: list[tuple[int, int]] = []
    troubles: list[str] = []
    for slot in range(len(SLOTS)):
        column = [report[slot] for report in reports]
        bad = [each for each in column if isinstance(each, str)]
        positions = {each[:2] for each in column if not isinstance(each, str)}
        if not positions and not any(bad):
            continue
        if bad or len(positions) > 1:
            troubles.append(next(filter(None, bad), "not all of its parts were written"))
            continue
        ((label, iteration),) = positions
        if recorder.directory and recorder.directory.rows_until(column[0][2]["metrics"]) is None:
            troubles.append(f"metrics.csv is not as it was at iteration {iteration}")
            continue
        if label in labels and labels.index(label) == len(done):
            found.append((iteration, slot))
    chosen = max(found)[1] if found else None
    header = {} if chosen is None else reports[0][chosen][2]
    where = {
        "algorithm": labels[len(done)] if len(done) < len(labels) else None,
        "iteration": header.get("iteration", 0),
        "exchange": config.exchange,
        **{key: recorder.facts.get(key) for key in ("hosts", "mpi", "versions")},
    }
    if chosen is None and not done:
        recorder.start()
        recorder.facts["resumes"].append({"at": recorder.facts["started"], **where})
    else:
        recorder.resume(done, header.get("metrics"), where)
    for trouble in troubles:
        recorder.warn(f"a checkpoint cannot be used: {trouble}")
    if chosen is None and len(done) < len(labels):
        text = "no checkpoint can be used" if troubles else "there is no checkpoint"
        recorder.warn(f"{text}: {where['algorithm']} starts over from iteration 1")
    return {label: recorder.facts["results"][label].get("error") for label in done}, chosen


def describe(config: RunConfig) -> dict[str, Any]:
    """What run.json says of a run before its ranks are there."""
    before = read_facts(Path(str(config.out))) if config.resume else {}
    before.pop("graph", None)  # comes with the ranks
    return {**before, "config": asdict(config)}


def claim_directory(
    config: RunConfig, comm: "MPI.Intracomm | None"
) -> tuple[RunConfig, Callable[[], None]]:
    """From here on run.json says `running`; the run as it goes on, and what takes that back."""

    def make() -> tuple[RunConfig, Callable[[], None]]:
        if config.out is None:
            if config.resume or config.checkpoint_every or config.checkpoint_minutes:
                raise UserError("a checkpoint needs a run directory: give out as well")
            return config, _do_nothing
        require_free(Path(config.out), config.overwrite or config.reserved or config.resume)
        require_unused(Path(config.out))
        going = continued_config(config) if config.resume else config
        if going is None:
            raise UserError(f"{config.out} is finished; more iterations would extend it")
        try:
            forget_reports(Path(config.out))
            nodes = config.n or (None if comm is None else comm.size)
            return going, run_json.mark_running(Path(config.out), describe(replace(going, n=nodes)))
        except (OSError, run_json.StorageError) as error:
            raise UserError(f"cannot write to {config.out}: {error}") from None

    if config.stacked or comm is None:
        return make()
    from ..comm.collective import on_root

    made = on_root(comm, make)
    return comm.bcast(made and made[0]), made[1] if made else _do_nothing


def _do_nothing() -> None:
    pass
