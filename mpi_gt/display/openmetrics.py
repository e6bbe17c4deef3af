"""The state of runs as OpenMetrics text, for Prometheus and the exporters that feed it.

https://prometheus.io/docs/specs/om/open_metrics_spec/. Only gauges and counters are used: the
textfile collector of the node exporter reads the older text format, which has no state sets and no
infos, and takes the line `# EOF` for a comment.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..rundir.run_state import RunState

STATES = ("running", "finished", "stopped", "failed", "stale")
Sample = tuple[Mapping[str, str], float]


@dataclass(frozen=True)
class Family:
    """A metric: its name without `_total`, its type, unit and help, and its samples of a run."""

    name: str
    kind: str
    unit: str
    help: str
    samples: "Callable[[RunState], Iterable[Sample]]"


def _of_method(read: "Callable[[RunState], float | None]") -> "Callable[[RunState], list[Sample]]":
    """Return the sample of the algorithm that is running, if there is a value."""

    def samples(state: "RunState") -> list[Sample]:
        value = read(state)
        if value is None or state.algorithm is None:
            return []
        return [({"run": state.run, "algorithm": state.algorithm}, value)]

    return samples


def _of_run(read: "Callable[[RunState], float | None]") -> "Callable[[RunState], list[Sample]]":
    def samples(state: "RunState") -> list[Sample]:
        value = read(state)
        return [] if value is None else [({"run": state.run}, value)]

    return samples


def _state(state: "RunState") -> list[Sample]:
    names = (*STATES, *({state.status} - {*STATES}))
    return [({"run": state.run, "state": name}, float(name == state.status)) for name in names]


def _points(state: "RunState") -> list[Sample]:
    if state.points is None:
        return []
    counts = {"done": state.points.done, "failed": state.points.failed, "all": state.points.total}
    return [({"run": state.run, "points": name}, value) for name, value in counts.items()]


FAMILIES = (
    Family(
        "mpi_gt_state", "gauge", "", "1 for the state that the run is in, 0 for others.", _state
    ),
    Family("mpi_gt_ranks", "gauge", "", "MPI ranks.", _of_run(lambda s: s.ranks)),
    Family(
        "mpi_gt_last_write_timestamp_seconds",
        "gauge",
        "seconds",
        "Unix time of the last write to run.json or metrics.csv.",
        _of_run(lambda s: s.written),
    ),
    Family(
        "mpi_gt_left_seconds",
        "gauge",
        "seconds",
        "Time left at the mean pace so far, of a running run.",
        _of_run(lambda s: s.seconds_left),
    ),
    Family(
        "mpi_gt_iteration",
        "gauge",
        "",
        "Iterations done at the last measurement.",
        _of_method(lambda s: s.iteration),
    ),
    Family(
        "mpi_gt_iterations",
        "gauge",
        "",
        "Iterations planned.",
        _of_method(lambda s: s.iterations),
    ),
    Family(
        "mpi_gt_gap",
        "gauge",
        "",
        "Optimality gap at the last measurement, mean over seeds; missing if it is not finite.",
        _of_method(lambda s: s.gap),
    ),
    Family(
        "mpi_gt_iterations_per_second",
        "gauge",
        "",
        "Rate between the last two measurements, without the time for measuring.",
        _of_method(lambda s: s.iterations_per_second),
    ),
    Family(
        "mpi_gt_iterating_seconds",
        "counter",
        "seconds",
        "Time in iterations so far, without the time for measuring.",
        _of_method(lambda s: s.seconds),
    ),
    Family(
        "mpi_gt_sent_bytes",
        "counter",
        "bytes",
        "Size of the vectors that all nodes have sent so far, for all seeds.",
        _of_method(lambda s: s.bytes_sent),
    ),
    Family(
        "mpi_gt_sweep_points",
        "gauge",
        "",
        "Points of a sweep: done (finished or diverged), failed, and all.",
        _points,
    ),
)
"""All metrics, in the order in which they are printed."""


def openmetrics(states: "Sequence[RunState]") -> str:
    """Return the text for these runs, which ends in `# EOF`."""
    lines = []
    for family in FAMILIES:
        lines.append(f"# TYPE {family.name} {family.kind}")
        if family.unit:
            lines.append(f"# UNIT {family.name} {family.unit}")
        lines.append(f"# HELP {family.name} {escape(family.help)}")
        suffix = "_total" if family.kind == "counter" else ""
        for state in states:
            for labels, value in family.samples(state):
                shown = ",".join(f'{name}="{escape(text)}"' for name, text in labels.items())
                lines.append(f"{family.name}{suffix}{{{shown}}} {_number(value)}")
    return "\n".join([*lines, "# EOF"])


def escape(text: str) -> str:
    """Return text for a label or a help, in which backslash, quote and line end are escaped.

    What no UTF-8 can encode, in names of files, becomes a question mark.
    """
    plain = text.encode(errors="replace").decode()
    return plain.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))
