"""What root keeps and shows of a run: run.json, metrics.csv, final.npz, figures, progress."""

import contextlib
import csv
import itertools
import os
import sys
import time
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from . import display, plots
from .audit_figure import draw_audit
from .config import RunConfig
from .errors import UserError
from .metrics import Measurement
from .status import write_json
from .summary import METRICS, mean_of, summarise, sweep_of

Array = NDArray[Any]

COLUMNS = ("algorithm", "seed", "iteration", *METRICS, "seconds", "bytes")
OWN_FILES = (
    "run.json",
    "metrics.csv",
    "final.npz",
    "loss.png",
    "gap.png",
    "summary.json",
    "comparison.png",
    "sweep.json",
    "sweep.png",
    "audit.json",
    "audit.png",
)


def reserve_directory(config: RunConfig) -> Path:
    """runs/<time>-<problem>-<algorithm>, made now: of two runs in one second, each has its own."""
    problem, *_ = config.parse_problem()
    what = config.entries()[0].label if config.algorithms is None else "compare"
    what = what if config.lr is None else "sweep"
    base = "-".join([time.strftime("%Y%m%d-%H%M%S"), problem, what])
    for number in itertools.count(1):
        path = Path("runs", base if number == 1 else f"{base}-{number}")
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise UserError(f"cannot write to {path}: {error.strerror}") from None
    raise AssertionError("unreachable")


def give_back(path: Path) -> None:
    """Remove a reserved directory that no run has written to, and `runs` if that is then empty."""
    with contextlib.suppress(OSError):
        path.rmdir()
        path.parent.rmdir()


def require_free(path: Path, overwrite: bool) -> None:
    """Refuse a path that holds something already, or that could not be written to anyway."""
    try:
        if os.path.lexists(path) and not path.is_dir():
            raise UserError(f"{path} is no directory for a run's output")
        if path.exists() and not overwrite:
            raise UserError(f"{path} exists; give another --out, or --overwrite to replace its run")
        for name in OWN_FILES:
            if (path / name).is_dir():
                raise UserError(f"{path / name} is a directory: no run was written there")
    except OSError as error:
        raise UserError(f"cannot write to {path}: {error.strerror}") from None


class RunDirectory:
    """The files of a run, in a directory of its own."""

    def __init__(self, path: Path, overwrite: bool) -> None:
        self.path = path
        require_free(path, overwrite)
        try:
            path.mkdir(parents=True, exist_ok=overwrite)
            for name in (*OWN_FILES, "final.part"):
                (path / name).unlink(missing_ok=True)
            self._metrics: TextIO = (path / "metrics.csv").open("w", newline="")
        except OSError as error:
            raise UserError(f"cannot write to {path}: {error.strerror or error}") from None
        self._rows = csv.writer(self._metrics, lineterminator="\n")
        self._rows.writerow(COLUMNS)

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            cells = (row[column] for column in COLUMNS)
            self._rows.writerow("" if cell is None else cell for cell in cells)
        self._metrics.flush()

    def save_output(self, name: str, parts: Iterable[Array], shape: tuple[int, ...]) -> None:
        """Add the array `name` of all nodes to final.npz, one node in memory at a time."""
        # under another name until the run is complete; a fixed date: the same run, the same file
        with zipfile.ZipFile(self.path / "final.part", "a") as archive:
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            with archive.open(member, "w", force_zip64=True) as stream:
                for index, part in enumerate(parts):
                    if index == 0:
                        header = {
                            "descr": np.lib.format.dtype_to_descr(part.dtype),
                            "fortran_order": False,
                            "shape": shape,
                        }
                        np.lib.format.write_array_header_1_0(stream, header)
                    stream.write(np.ascontiguousarray(part).data)

    def close(self) -> None:
        self._metrics.close()
        if (self.path / "final.part").exists():
            (self.path / "final.part").replace(self.path / "final.npz")


class Recorder:
    """Root's: keeps every row, writes the run directory if there is one, shows progress."""

    def __init__(self, config: RunConfig, facts: Mapping[str, Any]) -> None:
        self.rows: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {"status": "running", "config": asdict(config), **facts}
        self.facts["results"] = {}
        self.directory: RunDirectory | None = None
        if config.out is not None:
            overwrite = config.overwrite or config.reserved
            self.directory = RunDirectory(Path(config.out), overwrite)
        self._config = config
        self._progress = display.choose_progress(config.iterations, config.quiet)
        self._save()
        for warning in self.facts["warnings"]:
            self._progress.note(f"warning: {warning}")
        if dropped := self.facts["problem"].get("rows_dropped"):
            each = self.facts["problem"]["rows_per_node"]
            self._progress.note(
                f"{each} rows on each node; {dropped} that do not divide are dropped"
            )

    def begin(self, label: str) -> None:
        self._progress.begin(label)

    def write(
        self, label: str, iteration: int, seconds: float, measured: Measurement | None
    ) -> None:
        """One row for each seed."""
        assert measured is not None
        columns = {metric: getattr(measured, metric) for metric in METRICS}
        rows = [
            {
                "algorithm": label,
                "seed": seed,
                "iteration": iteration,
                **{
                    metric: None if values is None else float(values[index])
                    for metric, values in columns.items()
                },
                "seconds": round(seconds, 6),
                "bytes": int(measured.bytes),
            }
            for index, seed in enumerate(self._config.seed_list)
        ]
        self.rows += rows
        if self.directory:
            self.directory.append(rows)
        if measured.lost is not None and measured.lost.any():
            self._warn_of_lost_message(rows[int(np.argmax(measured.lost))])
        loss, gap = float(measured.loss.mean()), float(measured.gap.mean())
        self._progress.update(iteration, f"loss {loss:.6g}  gap {gap:.3e}  {seconds:.1f} s")

    def _warn_of_lost_message(self, row: Mapping[str, Any]) -> None:
        """Said at once, but once: an error that is there stays there."""
        if "tracking_error" not in self.facts:
            where = ("algorithm", "seed", "iteration", "tracking")
            self.facts["tracking_error"] = {key: row[key] for key in where}
            warning = (
                f"{row['algorithm']}: tracking error {row['tracking']:.3e} at iteration "
                f"{row['iteration']}, seed {row['seed']}: a message was lost or corrupted, "
                "or the values are too large for rounding to stay small"
            )
            self.facts["warnings"].append(warning)
            if self._config.quiet:
                print(f"mpi-gt: warning: {warning}", file=sys.stderr, flush=True)
            else:
                self._progress.note(f"warning: {warning}")
            self._save()

    def end(self, label: str, seconds: float | None, error: str | None) -> None:
        """One algorithm is done: its final metrics, or why there are none."""
        rows = [row for row in self.rows if row["algorithm"] == label]
        if error is not None or seconds is None:
            self.facts["results"][label] = {"error": error}
        else:
            last = rows[-self._config.seeds :]
            self.facts["results"][label] = {
                "final": {metric: mean_of([row[metric] for row in last]) for metric in METRICS},
                "seconds_per_iteration": seconds / self._config.iterations,
                "bytes_sent": last[0]["bytes"] * self._config.seeds,
            }
        self._progress.end()
        self._save()

    def add(self, label: str, name: str, value: float | None) -> None:
        """One more number of a finished algorithm, where there is one."""
        if value is not None:
            self.facts["results"][label][name] = value

    def audit(self, report: Any) -> None:
        """What the theory says of the run, and both sides of each statement, to be drawn."""
        told, self._curves = report
        self.facts["audit"] = told
        if self.directory:
            write_json(self.directory.path / "audit.json", told)

    def save(self, label: str, parts: Iterable[Array] | None, shape: tuple[int, ...]) -> None:
        """The output of all nodes: `x` in final.npz; in a comparison, under the label."""
        assert self.directory is not None
        assert parts is not None
        name = "x" if self._config.algorithms is None else label
        self.directory.save_output(name, parts, shape)

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
            self.directory.close()
            if self.rows:
                self._draw(self.directory.path)
        status = "failed" if exit_code else "finished"
        self.facts.update(status=status, exit_code=exit_code, finished=_now())
        self._save()

    def _draw(self, directory: Path) -> None:
        if not plots.available():
            self._progress.note("no figures: matplotlib is missing (pip install 'mpi-gt[plot]')")
            return
        if "sweep" in self.facts:
            drawn = plots.draw_sweep(directory, self.facts["sweep"])
        elif self._config.algorithms is not None:
            drawn = plots.draw_comparison(directory)
        else:
            drawn = plots.draw_run(directory)
        if "audit" in self.facts:
            drawn.append(draw_audit(directory, self._curves))
        self.facts["figures"] = [path.name for path in drawn]

    def _save(self) -> None:
        if self.directory:
            write_json(self.directory.path / "run.json", self.facts)


class NoRecorder:
    """Every other rank's."""

    rows: list[dict[str, Any]] = []  # noqa: RUF012 (never filled)
    facts: dict[str, Any] = {}  # noqa: RUF012

    def _nothing(self, *arguments: Any) -> None:
        pass

    begin = write = end = add = audit = save = close = _nothing


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
