"""What root keeps and shows of a run: run.json, metrics.csv, final.npz, figures, progress."""

import csv
import json
import math
import os
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from . import display, plots
from .config import RunConfig
from .errors import UserError
from .metrics import Measurement

Array = NDArray[Any]

COLUMNS = (
    "algorithm",
    "seed",
    "iteration",
    "loss",
    "grad_norm2",
    "consensus",
    "gap",
    "tracking",
    "accuracy",
    "seconds",
    "bytes",
)
METRICS = COLUMNS[3:9]
OWN_FILES = ("run.json", "metrics.csv", "final.npz", "loss.png", "gap.png")


def default_directory(config: RunConfig) -> Path:
    """runs/<time>-<problem>-<algorithm>, one that is not there yet."""
    names = (config.problem.partition(":")[0], config.algorithm.partition(":")[0])
    base = "-".join([time.strftime("%Y%m%d-%H%M%S"), *names])
    candidates = (Path("runs", base + suffix) for suffix in _suffixes())
    return next(path for path in candidates if not path.exists())


def _suffixes() -> Iterator[str]:
    yield ""
    number = 2
    while True:
        yield f"-{number}"
        number += 1


def require_free(path: Path, overwrite: bool) -> None:
    """Refuse a path that holds something already."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file, not a directory for a run's output")
    if path.exists() and not overwrite:
        raise UserError(f"{path} exists; give another --out, or --overwrite to replace its run")


class RunDirectory:
    """The files of a run, in a directory of its own."""

    def __init__(self, path: Path, overwrite: bool) -> None:
        self.path = path
        require_free(path, overwrite)
        try:
            path.mkdir(parents=True, exist_ok=True)
            for name in OWN_FILES:
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

    def save_output(self, parts: Iterable[Array], shape: tuple[int, ...]) -> None:
        """final.npz with x of all nodes, one node in memory at a time."""
        target = self.path / "final.npz"
        temporary = target.with_suffix(".part")
        with zipfile.ZipFile(temporary, "w") as archive:
            # a fixed date: the same run gives the same file
            member = zipfile.ZipInfo("x.npy", date_time=(1980, 1, 1, 0, 0, 0))
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
        temporary.replace(target)

    def close(self) -> None:
        self._metrics.close()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """All of it or, where something breaks, what was there before."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)


def mark_failed(path: Path, error: str, exit_code: int) -> None:
    """Make the run.json of a run that cannot say so itself tell how it ended."""
    try:
        facts = json.loads((path / "run.json").read_text(encoding="utf-8"))
        if facts.get("status") == "running":
            facts.update(status="failed", error=error, exit_code=exit_code)
            write_json(path / "run.json", facts)
    except (OSError, ValueError):
        pass  # there is no run to speak of


def table_rows(
    config: RunConfig, iteration: int, seconds: float, measured: Measurement
) -> list[dict[str, Any]]:
    """One row of metrics.csv for each seed."""
    name = config.algorithm.partition(":")[0]
    columns = {metric: getattr(measured, metric) for metric in METRICS}
    return [
        {
            "algorithm": name,
            "seed": seed,
            "iteration": iteration,
            **{
                metric: None if values is None else float(values[index])
                for metric, values in columns.items()
            },
            "seconds": round(seconds, 6),
            "bytes": int(measured.bytes),
        }
        for index, seed in enumerate(config.seed_list)
    ]


class Recorder:
    """Root's: keeps every row, writes the run directory if there is one, shows progress."""

    def __init__(self, config: RunConfig, facts: Mapping[str, Any]) -> None:
        self.rows: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {"status": "running", "config": asdict(config), **facts}
        self.directory: RunDirectory | None = None
        if config.out is not None:
            self.directory = RunDirectory(Path(config.out), config.overwrite)
        self._config = config
        self._progress = display.choose_progress(config.iterations, config.quiet)
        self._save()
        for warning in self.facts["warnings"]:
            self._progress.note(f"warning: {warning}")

    def write(self, iteration: int, seconds: float, measured: Measurement | None) -> None:
        assert measured is not None
        rows = table_rows(self._config, iteration, seconds, measured)
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
            self.facts["tracking_error"] = {
                key: row[key] for key in ("seed", "iteration", "tracking")
            }
            warning = (
                f"tracking error {row['tracking']:.3e} at iteration {row['iteration']}, seed "
                f"{row['seed']}: a message was lost or corrupted, or the values are too large"
            )
            self.facts["warnings"].append(warning)
            self._progress.note(f"warning: {warning}")
            self._save()

    def finish(self, seconds: float, parts: Iterable[Array] | None, shape: tuple[int, ...]) -> None:
        last = self.rows[-self._config.seeds :]
        self.facts["final"] = {metric: _mean([row[metric] for row in last]) for metric in METRICS}
        self.facts["seconds_per_iteration"] = seconds / self._config.iterations
        self.facts["bytes_sent"] = last[0]["bytes"] * self._config.seeds
        self._progress.close()
        if self.directory and parts is not None:
            self.directory.save_output(parts, shape)
            self._draw()
        self.facts.update(status="finished", finished=_now(), exit_code=0)
        self._close()

    def fail(self, error: Exception, exit_code: int) -> None:
        self._progress.close()
        self._draw()
        self.facts.update(status="failed", finished=_now(), error=str(error), exit_code=exit_code)
        self._close()

    def _draw(self) -> None:
        if self.directory and self.rows:
            if plots.available():
                self.facts["figures"] = [path.name for path in plots.draw_run(self.directory.path)]
            else:
                self._progress.note(
                    "no figures: matplotlib is missing (pip install 'mpi-gt[plot]')"
                )

    def _save(self) -> None:
        if self.directory:
            write_json(self.directory.path / "run.json", self.facts)

    def _close(self) -> None:
        self._save()
        if self.directory:
            self.directory.close()


class NoRecorder:
    """Every other rank's."""

    rows: list[dict[str, Any]] = []  # noqa: RUF012 (never filled)
    facts: dict[str, Any] = {}  # noqa: RUF012

    def write(self, iteration: int, seconds: float, measured: Measurement | None) -> None:
        pass

    def finish(self, seconds: float, parts: Iterable[Array] | None, shape: tuple[int, ...]) -> None:
        pass

    def fail(self, error: Exception, exit_code: int) -> None:
        pass


def _mean(values: list[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return math.fsum(numbers) / len(numbers) if numbers else None


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
