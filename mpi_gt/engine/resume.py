"""Resuming a run: its configuration, its run directory, and the checkpoint to continue from."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import RunConfig
from ..errors import StorageError, UserError
from ..files import missing
from ..rundir import run_json
from ..rundir.checkpoint import HEADER, Part, Unusable
from ..rundir.checkpoint_files import (
    Found,
    Place,
    Places,
    Position,
    find_parts,
    latest,
    newest_by_position,
    require_files,
    whole_checkpoints,
)
from ..rundir.layout import INPUTS, SLOTS, require_free, require_no_run
from ..rundir.run_json import require_facts
from ..rundir.watchdog_reports import forget_reports
from .checkpointer import Checkpointer
from .loop import NoRecorder

if TYPE_CHECKING:
    from mpi4py import MPI

    from .build import Experiment
    from .recorder import Recorder

REQUIRED = ("config.iterations",)
"""The keys of run.json without which a run cannot be resumed."""
Choice = tuple[dict[str, str | None], tuple[int, Position] | None]
"""The finished algorithms, each with its error if any; slot and position to resume from, if any."""


def config_of_run(directory: Path, given: Mapping[str, Any], ranks: int | None) -> RunConfig | None:
    """Return the configuration of the run in the directory, with the `given` options replaced.

    Returns None if the run is finished already. `ranks` is the number of MPI ranks, or None outside
    of MPI.
    """
    facts = require_facts(directory, REQUIRED)
    if not facts:
        raise UserError(f"{directory} holds no run to resume: it has no run.json")
    known = {field.name for field in fields(RunConfig)}
    try:
        config = RunConfig.of(
            {
                key: _moved(value, facts["config"], directory)
                for key, value in facts["config"].items()
                if key in known
            }
        )
    except UserError as error:
        raise UserError(f"{directory / 'run.json'}: config: {error}") from None
    n = given.get("n") or ranks or config.n
    if config.n is not None and config.n != n:
        raise UserError(
            f"the run in {directory} has {config.n} ranks, not {n}: it must be resumed with as many"
        )
    resuming = {"n": n, "out": str(directory), "resume": True, "overwrite": False}
    # a profile and an audit need the whole run
    resuming.update(profile=False, trace_iterations=None, audit=False)
    config = replace(config, **{**given, **resuming})
    config.check()
    return continued_config(config)


def _moved(value: Any, before: Mapping[str, Any], directory: Path) -> Any:
    """Return an option with the present place of files that lie in the run directory itself."""
    if not isinstance(value, str) or not isinstance(before.get("out"), str):
        return value
    return value.replace(f"{Path(before['out'], INPUTS)}/", f"{directory / INPUTS}/")


def continued_config(config: RunConfig) -> RunConfig | None:
    """Return `config` adapted to the run in its directory; None if that run is finished.

    Raises UserError if `config` asks for fewer iterations than the run has done, or for other
    iterations in a comparison.
    """
    facts = require_facts(Path(str(config.out)), REQUIRED)
    if not facts:
        return config
    before = facts["config"]
    # by default the log interval follows from T; an extended run keeps that of its beginning
    if config.log_every is None and config.algorithms is None and config.budget is None:
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
        raise UserError("a comparison can only be resumed with the iterations it began with")
    return config


def restore_checkpoint(
    experiment: "Experiment",
    recorder: "Recorder | NoRecorder",
    checkpointer: Checkpointer,
    comm: "MPI.Intracomm | None",
) -> dict[str, str | None]:
    """Choose the checkpoint to resume from, and set recorder and checkpointer to it.

    Collective: every rank calls it. Each rank reads its own parts; root compares them and decides.
    Returns the algorithms that are finished, each with its error if it diverged.
    """
    config, labels = experiment.config, [entry.label for entry in experiment.entries]
    if config.stacked:
        comm = None
    places, damaged = _own_places(experiment, comm)
    parts = [_own_part(experiment, place, 0 if comm is None else comm.rank) for place in places]
    own = [
        Found(place.slot, {}, part) if isinstance(part, str) else Found(place.slot, part.header)
        for place, part in zip(places, parts, strict=True)
    ]
    by_rank = [own] if comm is None else comm.gather(own)
    choice: Choice | None = None
    if not isinstance(recorder, NoRecorder):
        assert by_rank is not None
        by_rank[0] += [Found(slot, {}, problem) for slot, problem in damaged]
        choice = _choose(config, labels, recorder, by_rank)
    if comm is not None:
        choice = comm.bcast(choice)
    assert choice is not None
    done, chosen = choice
    if chosen is not None:
        slot, position = chosen
        part = parts[own.index(newest_by_position(own, slot)[position])]
        assert isinstance(part, Part)
        checkpointer.resume_from(slot, part)
    return done


def _own_places(
    experiment: "Experiment", comm: "MPI.Intracomm | None"
) -> tuple[list[Place], list[tuple[int, str]]]:
    """Return where parts of this rank are; on root also the slots and reasons of damaged files.

    Collective: every rank calls it. Only root looks at the indexes of all hosts.
    """
    assert experiment.directory is not None
    found = Places({}, [])
    if comm is None or comm.rank == 0:
        found = find_parts(experiment.directory)
    if comm is None:
        return found.by_node.get(0, []), found.damaged
    by_rank = [found.by_node.get(node, []) for node in range(comm.size)]
    return comm.scatter(by_rank if comm.rank == 0 else None), found.damaged


def _own_part(experiment: "Experiment", place: Place, node: int) -> Part | str:
    """Return this rank's part at that place, or why it cannot be used."""
    path = place.path
    try:
        part = place.read()
    except Unusable as error:
        return str(error)
    if wrong := missing(part.header, HEADER):
        return f"{path} is damaged: {wrong}"
    if part.header["identity"] != experiment.identity or part.header["node"] != node:
        return f"{path} belongs to another run"
    by_label = {entry.label: entry.algorithm for entry in experiment.entries}
    state = getattr(by_label.get(part.header["algorithm"]), "State", None)
    if tuple(part.arrays) != getattr(state, "_fields", tuple(part.arrays)):
        return f"{path} is damaged: its arrays are {', '.join(part.arrays)}"
    x1 = experiment.x1
    for name, array in part.arrays.items():
        # all but x may have a width of their own, as the w of push-sum has: see `restore`
        like = x1.shape if name == "x" else (*x1.shape[:-1], *array.shape[-1:])
        if (array.shape, array.dtype) != (like, x1.dtype):
            shown = f"{array.dtype} {array.shape}, not {x1.dtype} {like}"
            return f"{path} is damaged: its {name} is {shown}"
    return part


def _choose(
    config: RunConfig, labels: Sequence[str], recorder: "Recorder", by_rank: list[list[Found]]
) -> Choice:
    """Choose the checkpoint to resume from, and set root's recorder to it. Called on root only.

    `by_rank` holds what each rank has found.
    """
    done = recorder.finished(labels)
    usable: list[Found] = []
    problems: list[str] = []
    for slot in range(len(SLOTS)):
        checkpoints, problem = whole_checkpoints(labels, by_rank, slot)
        problems += [problem] if problem else []
        for (label, iteration), header in checkpoints.items():
            if recorder.directory and recorder.directory.rows_until(header["metrics"]) is None:
                problems.append(f"metrics.csv is not as it was at iteration {iteration}")
            elif label in labels and labels.index(label) == len(done):
                usable.append(Found(slot, header))
    chosen = max(usable, key=lambda each: each.newness, default=None)
    header = {} if chosen is None else chosen.header
    where = {
        "algorithm": labels[len(done)] if len(done) < len(labels) else None,
        "iteration": header.get("iteration", 0),
        "exchange": config.exchange,
        **{key: recorder.facts.get(key) for key in ("hosts", "mpi", "versions", "blas")},
        **{key: recorder.facts[key] for key in ("placement",) if key in recorder.facts},
    }
    if chosen is None and not done:
        recorder.start()
        recorder.facts["resumes"].append({"at": recorder.facts["started"], **where})
    else:
        recorder.resume(done, header.get("metrics"), where)
        if not config.reproducible:
            _warn_of_other_blas(recorder)
    for problem in problems:
        recorder.warn(f"a checkpoint cannot be used: {problem}")
    if chosen is None and len(done) < len(labels):
        text = "no checkpoint can be used" if problems else "there is no checkpoint"
        recorder.warn(f"{text}: {where['algorithm']} starts over from iteration 1")
    errors = {label: recorder.facts["results"][label].get("error") for label in done}
    return errors, None if chosen is None else (chosen.slot, chosen.position)


def _warn_of_other_blas(recorder: "Recorder") -> None:
    """Warn if the run continues with another BLAS kernel, which rounds differently."""
    before, now = ((facts.get("blas") or {}) for facts in (recorder.before, recorder.facts))
    if before and before != now:
        then, here = (" ".join(map(str, each.values())) or "unknown" for each in (before, now))
        recorder.warn(
            f"the run began with the BLAS {then}, here it is {here}: the last digits may differ "
            "from those of an uninterrupted run"
        )


def describe(config: RunConfig) -> dict[str, Any]:
    """Return the content of run.json for a run whose ranks are not up yet."""
    before = require_facts(Path(str(config.out))) if config.resume else {}
    before.pop("graph", None)  # root writes it again once the ranks are up
    return {**before, "config": asdict(config)}


class ClaimedRun:
    """A run whose directory is claimed: its adapted config, and the ways to give that back."""

    def __init__(self, config: RunConfig, release: Callable[[], None], token: str = "") -> None:
        self.config = config
        self.release = release
        self.token = token  # for ranks of this run, in the environment
        self.undo = release  # for a run that never began: leave the directory as it was


def claim_directory(config: RunConfig, comm: "MPI.Intracomm | None") -> ClaimedRun:
    """Claim the run directory and mark it as running; return the run with its adapted config.

    Collective: every rank calls it. Only root writes; on the other ranks giving back does nothing.
    """
    if config.stacked or comm is None:
        return _claim_on_root(config, None)
    from ..comm.collective import on_root

    claimed = on_root(comm, lambda: _claim_on_root(config, comm.size))
    adapted = comm.bcast(claimed and claimed.config)
    return claimed or ClaimedRun(adapted, _do_nothing)


def _claim_on_root(config: RunConfig, ranks: int | None) -> ClaimedRun:
    if config.out is None:
        if config.resume or config.checkpoint_every or config.checkpoint_minutes:
            raise UserError("a checkpoint needs a run directory: give out as well")
        return ClaimedRun(config, _do_nothing)
    from ..rundir.lock import claim, require_unclaimed  # here: only root needs it
    from ..rundir.run_directory import require_unused

    out = Path(config.out)
    may_exist = config.overwrite or config.reserved or config.resume
    require_unclaimed(out)  # says more than that the directory exists
    require_free(out, may_exist)
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    held = claim(out)

    def release() -> None:
        held.release()
        for folder in made:
            with contextlib.suppress(OSError):  # the run has written to it
                folder.rmdir()

    try:
        require_no_run(out, may_exist)
        require_unused(out)
        require_files(out)
        adapted = continued_config(config) if config.resume else config
        if adapted is None:
            raise UserError(f"{config.out} is finished; more iterations would extend it")
        forget_reports(out)
        facts = describe(replace(adapted, n=config.n or ranks))
        undo_mark = run_json.mark_running(out, facts)
    except (OSError, StorageError) as error:
        release()
        raise UserError(f"cannot write to {config.out}: {error}") from None
    except UserError:
        release()
        raise
    claimed = ClaimedRun(adapted, release, held.token)

    def undo() -> None:
        undo_mark()
        release()

    claimed.undo = undo
    return claimed


def _do_nothing() -> None:
    pass
