"""Pairs of commands on one directory, started 0 to 2 seconds apart: exactly one may run.

Each pair is compared with the same command undisturbed: the same output to the last bit, the same
metrics. The other command has to end with exit code 2 and one message that names the holder.
"""

import argparse
import csv
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 300  # seconds for one pair
KINDS = ("fresh", "run --resume", "run --overwrite", "resume", "compare --resume", "reproduce")


class Pair:
    """Two equal commands on one directory."""

    def __init__(self, bin_folder: Path, kind: str, stacked: bool, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.out = folder / "out"
        self.command = [str(bin_folder / "mpi-gt"), *self._words(stacked)]

    def _words(self, stacked: bool) -> list[str]:
        size = ["--stacked", "-n", "4"] if stacked else ["-n", "4"]
        count = "150000" if stacked else "40000"  # still running when the second one starts
        iterations = ["--iterations", count, "--seeds", "2", "--quiet"]
        out = ["--out", "out"]
        if self.kind == "resume":
            return ["resume", "out", "--quiet"]
        if self.kind == "reproduce":
            options = ["--algorithms", "gt,dsgd", "--overwrite", *iterations]
            return ["reproduce", "huber", *size, *options, *out]
        if self.kind == "compare --resume":
            return ["compare", *size, "--algorithms", "gt,dsgd", "--resume", *iterations, *out]
        flag = {"fresh": [], "run --resume": ["--resume"], "run --overwrite": ["--overwrite"]}
        return ["run", *size, *flag[self.kind], *iterations, *out]

    def prepare(self, stopped: Path) -> None:
        """Make the directory as the command expects it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        if self.kind == "resume":
            shutil.copytree(stopped, self.out)

    def start(self) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.command, cwd=self.folder, stdout=pipe, stderr=pipe, stdin=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip

    def run_both(self, delay: float) -> str | None:
        """Start both, `delay` seconds apart; return what is wrong, or None."""
        first = self.start()
        time.sleep(delay)
        second = self.start()
        try:
            ends = [process.communicate(timeout=LIMIT) for process in (first, second)]
        except subprocess.TimeoutExpired:
            first.kill()
            second.kill()
            return f"still running after {LIMIT} s"
        codes = sorted((first.returncode, second.returncode))
        shown = f"{ends[0][1][-300:]!r} {ends[1][1][-300:]!r}"
        if codes != [0, 2]:
            return f"exit codes {first.returncode} and {second.returncode}: {shown}"
        refused = ends[0 if first.returncode else 1][1].strip()
        if len(refused.splitlines()) != 1 or "is in use by" not in refused:
            return f"the second one says {refused!r}"
        return None


def content(out: Path) -> list[object]:
    """Return all that a run computed: final.npz as bytes, metrics.csv without its seconds."""
    found: list[object] = []
    for path in sorted(out.rglob("final.npz")):
        found.append(path.read_bytes())
    for path in sorted(out.rglob("metrics.csv")):
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        found.append([{key: row[key] for key in row if key != "seconds"} for row in rows])
    return found


def make_stopped(bin_folder: Path, folder: Path, stacked: bool) -> Path:
    """Make a run that was stopped and can be resumed."""
    size = ["--stacked", "-n", "4"] if stacked else ["-n", "4"]
    words = ["run", *size, "--iterations", "150000" if stacked else "60000", "--quiet"]
    target = folder / "stopped"
    process = subprocess.Popen(
        [str(bin_folder / "mpi-gt"), *words, "--out", str(target)], stdin=subprocess.DEVNULL
    )
    while not (target / "metrics.csv").exists() or (target / "metrics.csv").stat().st_size < 500:
        time.sleep(0.02)
    (target / "stop").touch()
    process.wait(timeout=60)
    return target


def main() -> int:
    """Run the campaign and print one line per failure and a summary; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=40, help="how many (default 40)")
    parser.add_argument("--bin", type=Path, action="append", help="folder of mpi-gt; repeatable")
    parser.add_argument("--seed", type=int, default=0, help="of delays and choices (default 0)")
    options = parser.parse_args()
    bins = [folder.absolute() for folder in options.bin or [Path(sys.executable).parent]]
    dice = random.Random(options.seed)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="mpi-gt-pairs-") as work:
        stopped: dict[tuple[Path, bool], Path] = {}
        expected: dict[tuple[str, bool], list[object]] = {}
        for number in range(options.pairs):
            kind = KINDS[number % len(KINDS)]
            bin_folder, stacked = bins[number // 2 % len(bins)], dice.random() < 0.3
            place = (bin_folder, stacked)
            if kind == "resume" and place not in stopped:
                folder = Path(work, f"stopped-{len(stopped)}")
                folder.mkdir()
                stopped[place] = make_stopped(bin_folder, folder, stacked)
            pair = Pair(bin_folder, kind, stacked, Path(work, "pair"))
            if (kind, stacked) not in expected:
                pair.prepare(stopped.get(place, Path()))
                subprocess.run(pair.command, cwd=pair.folder, check=True, timeout=LIMIT)
                expected[kind, stacked] = content(pair.out)
            pair.prepare(stopped.get(place, Path()))
            delay = dice.choice((0.0, 0.0, 0.1, dice.uniform(0, 1), dice.uniform(0, 2)))
            wrong = pair.run_both(delay)
            if wrong is None and content(pair.out) != expected[kind, stacked]:
                wrong = "the result differs from that of an undisturbed run"
            failures += wrong is not None
            if wrong is not None:
                where = "stacked" if stacked else bin_folder
                print(f"pair {number}, {kind}, {delay:.2f} s, {where}: {wrong}", flush=True)
    print(f"{options.pairs} pairs, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
