"""What root keeps and shows of a run: run.json, metrics.csv, final.npz, figures, progress."""

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import plots
from ..config import RunConfig
from ..display.progress import choose_progress
from ..plots.audit import draw_audit
from ..plots.metrics import draw_comparison, draw_run, draw_sweep
from ..rundir.atomic import write_json
from ..rundir.layout import clear
from ..rundir.metrics_csv import METRICS, MetricsBlock, MetricsRow
from ..rundir.run_directory import RunDirectory
from ..rundir.run_json import process_facts, read_facts
from ..rundir.summary import mean_of, summarise, sweep_of
from .metrics import Measurement

Array = NDArray[Any]


class Recorder:
    """Root's: keeps every row, writes the run directory if there is one, shows progress."""

    def __init__(self, config: RunConfig, facts: Mapping[str, Any]) -> None:
        self._rows: list[MetricsRow] = []
        self._blocks: list[MetricsBlock] = []  # whose rows are made when somebody asks for them
        self.facts: dict[str, Any] = {"status": "running", "config": asdict(config), **facts}
        self.facts.update(results={}, progress={}, resumes=[], process=process_facts())
        self.profile: dict[str, Any] = {}
        self.directory: RunDirectory | None = None
        if config.out is not None:
            if config.resume:
                before = read_facts(Path(config.out))
                kept = ("started", "results", "progress", "resumes")
                self.facts.update({name: before[name] for name in kept if name in before})
            self.directory = RunDirectory(Path(config.out))
        self._config = config
        self._seeds = config.seed_list
        self._before_last: dict[str, Any] | None = None
        self._progress = choose_progress(config.iterations, config.quiet)
        self._save()
        for warning in self.facts["warnings"]:
            self._progress.note(f"warning: {warning}")
        if dropped := self.facts["problem"].get("rows_dropped"):
            each = self.facts["problem"]["rows_per_node"]
            self._progress.note(
                f"{each} rows on each node; {dropped} that do not divide are dropped"
            )

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row._asdict() for row in self._all_rows()]

    def _all_rows(self) -> list[MetricsRow]:
        for block in self._blocks:
            self._rows += block.rows()
        self._blocks.clear()
        return self._rows

    def start(self) -> None:
        """From the beginning, in a directory without anything of an earlier run."""
        self.facts.update(results={}, progress={})
        if self.directory:
            # a host that does not see the checkpoints is no reason to remove them
            clear(self.directory.path, state=not self._config.resume)
            self.directory.begin()
        self._save()

    def finished(self, labels: Iterable[str]) -> list[str]:
        """The first algorithms that a run before has finished, all of them as they were."""
        assert self.directory is not None
        done = []
        for label in labels:
            mark = self.facts["progress"].get(label)
            if mark is None or self.directory.rows_until(mark["metrics"]) is None:
                break
            if mark["output"] and not self.directory.has_output(self._name(label), mark["output"]):
                break
            done.append(label)
        return done

    def resume(
        self, done: list[str], mark: Mapping[str, Any] | None, where: Mapping[str, Any]
    ) -> None:
        """Take up a run: those algorithms are finished, metrics.csv is cut back to that mark."""
        assert self.directory is not None
        mark = mark or self.facts["progress"][done[-1]]["metrics"]
        self._rows = [MetricsRow(**row) for row in self.directory.rows_until(mark) or []]
        self.directory.truncate_metrics(mark)
        clear(self.directory.path, state=False)
        for name in ("results", "progress"):
            self.facts[name] = {label: self.facts[name][label] for label in done}
        self.facts["resumes"].append({"at": _now(), **where})
        self._save()

    def metrics_mark(self) -> dict[str, Any] | None:
        """Where metrics.csv ends, which is on the disk for good.

        Before a measurement that is made only because it is the last one: a run that goes on
        from there may have more iterations, and would not make it.
        """
        if self.directory is None:
            return None
        self.directory.sync()
        return self._before_last or self.directory.mark()

    def warn(self, warning: str) -> None:
        """Said at once, also to those who want to hear nothing, and kept."""
        self.facts["warnings"].append(warning)
        if self._config.quiet:
            print(f"mpi-gt: warning: {warning}", file=sys.stderr, flush=True)
        else:
            self._progress.note(f"warning: {warning}")
        self._save()

    def begin(self, label: str) -> None:
        self._before_last = None
        self._progress.begin(label)

    def write(self, label: str, iteration: int, seconds: float, measured: Measurement) -> None:
        """One row for each seed."""
        columns = [getattr(measured, metric) for metric in METRICS]
        block = MetricsBlock(
            label,
            self._seeds,
            iteration,
            [None if values is None else values.tolist() for values in columns],
            round(seconds, 6),
            int(measured.bytes),
        )
        self._blocks.append(block)
        if self.directory:
            if iteration % self._config.log_interval:
                self._before_last = self.directory.mark()
            self.directory.append(block)
        if measured.lost is not None and measured.lost.any():
            self._warn_of_lost_message(list(block.rows())[int(np.argmax(measured.lost))])
        self._progress.update(iteration, lambda: f"{measured}  {seconds:.1f} s")

    def _warn_of_lost_message(self, row: MetricsRow) -> None:
        """Said at once, but once: an error that is there stays there."""
        if "tracking_error" not in self.facts:
            where = ("algorithm", "seed", "iteration", "tracking")
            self.facts["tracking_error"] = {name: getattr(row, name) for name in where}
            warning = (
                f"{row.algorithm}: tracking error {row.tracking:.3e} at iteration "
                f"{row.iteration}, seed {row.seed}: a message was lost or corrupted, "
                "or the values are too large for rounding to stay small"
            )
            self.warn(warning)

    def end(self, label: str, seconds: float | None, error: str | None) -> None:
        """One algorithm is done: its final metrics, or why there are none."""
        if error is not None or seconds is None:
            self.facts["results"][label] = {"error": error}
            mark = self.directory.mark() if self.directory else None
            self.facts["progress"][label] = {"metrics": mark, "output": None}
        else:
            last = self._all_rows()[-self._config.seeds :]
            self.facts["results"][label] = {
                "final": {
                    metric: mean_of([getattr(row, metric) for row in last]) for metric in METRICS
                },
                "seconds_per_iteration": seconds / self._config.iterations,
                "bytes_sent": last[0].bytes * self._config.seeds,
            }
        self._progress.end()
        self._save()

    def add_result(self, label: str, name: str, value: float | None) -> None:
        """One more number of a finished algorithm, where there is one."""
        if value is not None:
            self.facts["results"][label][name] = value

    def audit(self, report: Any) -> None:
        """What the theory says of the run, and both sides of each statement, to be drawn."""
        told, self._curves = report
        self.facts["audit"] = told
        if self.directory:
            write_json(self.directory.path / "audit.json", told)

    def save_output(
        self, label: str, parts: Iterable[Array] | None, shape: tuple[int, ...]
    ) -> None:
        """The output of all nodes: `x` in final.npz; in a comparison, under the label."""
        assert self.directory is not None
        assert parts is not None
        digest = self.directory.save_output(self._name(label), parts, shape)
        self.facts["progress"][label] = {"metrics": self.directory.mark(), "output": digest}
        self._save()

    def _name(self, label: str) -> str:
        return "x" if self._config.algorithms is None else label

    def stop(self, label: str, exit_code: int, iteration: int) -> None:
        """The run was asked to stop, and can go on."""
        self._progress.end()
        del self.facts["process"]
        self.facts.update(status="stopped", exit_code=exit_code, finished=_now())
        self.facts["stopped"] = {"algorithm": label, "iteration": iteration}
        self._save()
        if self.directory:
            self.directory.unlock()

    def keep_profile(self, profile: dict[str, Any]) -> None:
        """What is said of it in run.json; the whole is in profile.json."""
        self.profile = profile
        told = ("exposed_communication", "hidden_share", "ratio_to_stacked", "straggler")
        self.facts["profile"] = {name: profile[name] for name in told}

    def close(self, exit_code: int) -> None:
        """The run is over: figures, and in run.json how it ended."""
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
            outputs = [label for label, it in self.facts["progress"].items() if it["output"]]
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
        if not plots.available():
            self._progress.note("no figures: matplotlib is missing (pip install 'mpi-gt[plot]')")
            return
        if "sweep" in self.facts:
            drawn = draw_sweep(directory, self.facts["sweep"])
        elif self._config.algorithms is not None:
            drawn = draw_comparison(directory)
        else:
            drawn = draw_run(directory)
        if "audit" in self.facts:
            drawn.append(draw_audit(directory, self._curves))
        self.facts["figures"] = [path.name for path in drawn]

    def _save(self) -> None:
        if self.directory:
            write_json(self.directory.path / "run.json", self.facts)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
