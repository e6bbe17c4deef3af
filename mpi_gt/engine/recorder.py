"""The recorder: root's files of a run (run.json, metrics.csv, final.npz, figures) and progress."""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import plots
from ..config import RunConfig
from ..display.graphs import placement_sentence
from ..display.progress import choose_progress
from ..display.results import names_of
from ..graphs import IN_RANK_ORDER
from ..plots.audit import draw_audit
from ..plots.metrics import draw_comparison, draw_own_metrics, draw_run, draw_sweep
from ..results.options import spelled_options
from ..results.source import source_facts
from ..rundir.atomic import write_json
from ..rundir.layout import clear, clear_inputs
from ..rundir.metrics_csv import METRICS, MetricsBlock, MetricsRow, row_type
from ..rundir.run_directory import RunDirectory
from ..rundir.run_json import process_facts, require_facts
from ..rundir.summary import mean_of, summarise, sweep_of
from .metrics import Measurement

Array = NDArray[Any]

FLAT = 1e-28
"""The largest ||grad f||² at the start that may be rounding: of a gradient that is zero."""


class Recorder:
    """The recorder of root: keeps all rows, writes the run directory if any, shows progress."""

    def __init__(
        self, config: RunConfig, facts: Mapping[str, Any], extra: Sequence[str] = ()
    ) -> None:
        self._extra = tuple(extra)  # the columns of metrics.csv after the known ones
        self._rows: list[Any] = []
        self._blocks: list[MetricsBlock] = []  # not yet turned into rows: that is done on demand
        self.facts: dict[str, Any] = {"status": "running", "config": asdict(config), **facts}
        self.facts["options"] = spelled_options(config, facts["problem"])
        self.facts["source"] = source_facts()
        self.facts.update(results={}, progress={}, resumes=[], process=process_facts())
        self.before: dict[str, Any] = {}  # the facts of the run that is resumed
        self.profile: dict[str, Any] = {}
        self.directory: RunDirectory | None = None
        if config.out is not None:
            if config.resume:
                before = self.before = require_facts(Path(config.out))
                kept = ("started", "results", "progress", "resumes")
                self.facts.update({name: before[name] for name in kept if name in before})
            self.directory = RunDirectory(Path(config.out))
        self._config = config
        self._seeds = config.seed_list
        self._before_last: dict[str, Any] | None = None
        self._warned_of_flat_start = False
        self._progress = choose_progress(config.quiet)
        self._save()
        for warning in self.facts["warnings"]:
            self._progress.note(f"warning: {warning}")
        if "placement" in self.facts and config.place != IN_RANK_ORDER:
            self._progress.note(placement_sentence(self.facts["placement"]))
        if dropped := self.facts["problem"].get("rows_dropped"):
            each = self.facts["problem"]["rows_per_node"]
            self._progress.note(f"{each} rows on each node; {dropped} left over and not used")

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row._asdict() for row in self._all_rows()]

    def _all_rows(self) -> list[Any]:
        for block in self._blocks:
            self._rows += block.rows()
        self._blocks.clear()
        return self._rows

    def start(self) -> None:
        """Start from the first iteration: remove the files of an earlier run in the directory."""
        self.facts.update(results={}, progress={})
        if self.directory:
            # on --resume the checkpoints stay: perhaps just this host does not see them
            clear(self.directory.path, state=not self._config.resume)
            clear_inputs(self.directory.path, asdict(self._config).values())
            self.directory.begin(self._extra)
        self._save()

    def finished(self, labels: Iterable[str]) -> list[str]:
        """Return the first algorithms that the run has finished and whose files are unchanged."""
        assert self.directory is not None
        done = []
        for label in labels:
            mark = self.facts["progress"].get(label) if label in self.facts["results"] else None
            if mark is None or self.directory.rows_until(mark["metrics"]) is None:
                break
            if mark["output"] and not self.directory.has_output(self._name(label), mark["output"]):
                break
            done.append(label)
        return done

    def resume(
        self, done: list[str], mark: Mapping[str, Any] | None, where: Mapping[str, Any]
    ) -> None:
        """Resume a run: the algorithms in `done` are finished, metrics.csv is cut at `mark`.

        Without a mark, metrics.csv is cut after the last finished algorithm. `where` goes into the
        list `resumes` of run.json.
        """
        assert self.directory is not None
        mark = mark or self.facts["progress"][done[-1]]["metrics"]
        # a run that an older version began may lack a column: it goes on without
        self._extra = self.directory.extra_columns()
        row_class = row_type(self._extra)
        self._rows = [row_class(**row) for row in self.directory.rows_until(mark) or []]
        self.directory.truncate_metrics(mark)
        clear(self.directory.path, state=False)
        for name in ("results", "progress"):
            self.facts[name] = {label: self.facts[name][label] for label in done}
        self.facts["resumes"].append({"at": _now(), **where})
        self._save()

    def metrics_mark(self) -> dict[str, Any] | None:
        """Flush metrics.csv to the disk and return its end, as a mark for a checkpoint.

        The mark leaves out a measurement that was made only because it is the last one: a run that
        is extended from the checkpoint would not make it.
        """
        if self.directory is None:
            return None
        self.directory.sync()
        return self._before_last or self.directory.mark()

    def warn(self, warning: str) -> None:
        """Show a warning at once, with --quiet as well, and add it to run.json."""
        self.facts["warnings"].append(warning)
        self._save()  # before the text is shown: on a full disk, that is the message
        if self._config.quiet:
            print(f"mpi-gt: warning: {warning}", file=sys.stderr, flush=True)
        else:
            self._progress.note(f"warning: {warning}")

    def begin(self, label: str, iterations: int, log_interval: int) -> None:
        self._before_last = None
        self._iterations, self._log_interval = iterations, log_interval
        self._progress.begin(label, iterations)

    def write(self, label: str, iteration: int, seconds: float, measured: Measurement) -> None:
        """Record one measurement: one row per seed."""
        columns = [getattr(measured, metric) for metric in METRICS]
        block = MetricsBlock(
            label,
            self._seeds,
            iteration,
            [_listed(values) for values in columns],
            round(seconds, 6),
            int(measured.bytes),
            measured.gradients,
            [(name, _listed(measured.extra.get(name))) for name in self._extra],
        )
        self._blocks.append(block)
        if self.directory:
            if iteration % self._log_interval:
                self._before_last = self.directory.mark()
            self.directory.append(block)
        if measured.lost is not None and measured.lost.any():
            self._warn_of_lost_message(list(block.rows())[int(np.argmax(measured.lost))])
        if iteration == 0:
            self._warn_of_flat_start(measured)
        self._progress.update(iteration, lambda: f"{measured}  {seconds:.1f} s")

    def _warn_of_flat_start(self, measured: Measurement) -> None:
        """Warn once if the gradient at the start is zero: a saddle point looks like a solution."""
        flat = np.flatnonzero(measured.grad_norm2 <= FLAT)
        if len(flat) and not self._warned_of_flat_start:
            self._warned_of_flat_start = True
            seed = self._seeds[flat[0]]
            self.warn(
                f"the gradient of f is zero at the start x_1 of seed {seed}: the start is a "
                "minimiser, or a saddle point, which a gap of zero does not tell apart; --x1 and "
                "the problem's start() choose another"
            )

    def _warn_of_lost_message(self, row: MetricsRow) -> None:
        """Warn of the first tracking error only: once there, such an error stays."""
        if "tracking_error" not in self.facts:
            where = ("algorithm", "seed", "iteration", "tracking")
            self.facts["tracking_error"] = {name: getattr(row, name) for name in where}
            error = (
                f"tracking error {row.tracking:.3e} at iteration {row.iteration}, seed {row.seed}"
            )
            if "channel" in self.facts:
                self.warn(f"{row.algorithm}: the channel breaks mean s = mean g: {error}")
                return
            self.warn(
                f"{row.algorithm}: {error}: a message was lost or corrupted, "
                "or the values are too large for rounding to stay small"
            )

    def end(self, label: str, seconds: float | None, error: str | None) -> None:
        """Record the end of one algorithm: its final metrics, or the error that ended it."""
        if error is not None or seconds is None:
            self.facts["results"][label] = {"error": error}
            mark = self.directory.mark() if self.directory else None
            self.facts["progress"][label] = {"metrics": mark, "output": None}
        else:
            last = self._all_rows()[-self._config.seeds :]
            self.facts["results"][label] = {
                "final": {
                    metric: mean_of([getattr(row, metric) for row in last])
                    for metric in (*METRICS, *self._extra)
                },
                "seconds_per_iteration": seconds / self._iterations,
                "bytes_sent": last[0].bytes * self._config.seeds,
                "gradients": last[0].gradients,
            }
        self._progress.end()
        self._save()

    def add_result(self, label: str, name: str, value: float | None) -> None:
        """Add a number to the results of a finished algorithm, unless it is None."""
        if value is not None:
            self.facts["results"][label][name] = value

    def audit(self, report: Any) -> None:
        """Record an audit: its facts in run.json and audit.json, its curves for the figure."""
        facts, self._curves = report
        self.facts["audit"] = facts
        if self.directory:
            write_json(self.directory.path / "audit.json", facts)

    def save_output(
        self, label: str, parts: Iterable[Array] | None, shape: tuple[int, ...]
    ) -> None:
        """Save the output of all nodes for final.npz: as `x`, or by label in a comparison."""
        assert self.directory is not None
        assert parts is not None
        digest = self.directory.save_output(self._name(label), parts, shape)
        self.facts["progress"][label] = {"metrics": self.directory.mark(), "output": digest}
        self._save()

    def _name(self, label: str) -> str:
        return "x" if self._config.algorithms is None else label

    def stop(self, label: str, exit_code: int, iteration: int) -> None:
        """Record that the run was stopped at a checkpoint and can be resumed."""
        self._progress.end()
        del self.facts["process"]
        self.facts.update(status="stopped", exit_code=exit_code, finished=_now())
        self.facts["stopped"] = {"algorithm": label, "iteration": iteration}
        self._save()
        if self.directory:
            self.directory.unlock()

    def keep_profile(self, profile: dict[str, Any]) -> None:
        """Keep the profile, and add its main numbers to run.json; profile.json has all of it."""
        self.profile = profile
        if warning := profile.pop("warning", None):
            self.warn(warning)
        names = ("exposed_communication", "hidden_share", "ratio_to_stacked", "straggler")
        self.facts["profile"] = {name: profile[name] for name in names}

    def close(self, exit_code: int) -> None:
        """Finish the run: write final.npz, summaries and figures, and how it ended to run.json."""
        if self._config.algorithms is None:
            (result,) = self.facts["results"].values()
            self.facts.update(result)
        else:
            self.facts["summary"] = summarise(self.rows, self.facts["results"])
        if self.directory:
            if "summary" in self.facts:
                write_json(self.directory.path / "summary.json", self.facts["summary"])
            if self._config.lr is not None:
                self.facts["sweep"] = sweep_of(self.facts["summary"], self._config.entries())
                write_json(self.directory.path / "sweep.json", self.facts["sweep"])
            progress = self.facts["progress"]
            outputs = [label for label, mark in progress.items() if mark["output"]]
            self.directory.write_final(map(self._name, outputs))
            if self._all_rows():
                self._draw(self.directory.path)
        del self.facts["progress"], self.facts["process"]
        status = "failed" if exit_code else "finished"
        self.facts.update(status=status, exit_code=exit_code, finished=_now())
        self._save()
        if self.directory:
            self.directory.unlock()

    def _draw(self, directory: Path) -> None:
        if self._config.no_figures:
            return
        if not plots.available():
            self._progress.note("no figures: matplotlib is missing (pip install 'mpi-gt[plot]')")
            return
        drawn, warning = plots.try_to_draw(lambda: self._figures(directory))
        if warning:
            self.warn(warning)
        self.facts["figures"] = [path.name for path in drawn]

    def _figures(self, directory: Path) -> list[Path]:
        names = names_of(self.facts)
        if "sweep" in self.facts:
            drawn = draw_sweep(directory, self.facts["sweep"])
        elif self._config.algorithms is not None:
            drawn = draw_comparison(directory, names)
        else:
            drawn = draw_run(directory, names)
        if "sweep" not in self.facts:
            drawn += draw_own_metrics(directory, names)
        if "audit" in self.facts:
            drawn.append(draw_audit(directory, self._curves))
        return drawn

    def _save(self) -> None:
        if self.directory:
            write_json(self.directory.path / "run.json", self.facts)


def _listed(values: Array | None) -> list[float] | None:
    numbers: list[float] | None = None if values is None else values.tolist()
    return numbers


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
