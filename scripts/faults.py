"""The fault campaign: runs that are killed at random moments and resumed.

Called by scripts/faults, with the Python of the chosen MPI.
"""

import argparse
import atexit
import csv
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

SIZE = ["--iterations", "400", "--log-every", "20", "--seeds", "2", "--quiet"]
CASES = (
    ["run", "--algorithm", "gt-adaptive", "--checkpoint-every", "50"],
    ["run", "--algorithm", "d-amsgrad", "--graph", "ring", "--checkpoint-every", "7"],
    ["run", "--problem", "softmax:rows=320,features=5", "--checkpoint-minutes", "0.005"],
    ["compare", "--algorithms", "gt,dsgd", "--checkpoint-every", "50"],
)
EXCHANGES = ("neighbor", "persistent", "nonblocking", "p2p", "persistent-p2p", "shared")
KILLS = 3  # at most, per round
LIMIT = 120  # seconds after which a process counts as hanging
SHARED_MEMORY = Path("/dev/shm")  # other MPI programs should not run meanwhile: theirs count, too
Result = tuple[list[dict[str, str]], bytes]


def words_of(pid: int) -> list[str]:
    """Return the command line of a process, word by word; an empty list if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def is_rank(pid: int) -> bool:
    """Return whether a process is a rank: `python -m mpi_gt`, or started by the front end."""
    words = words_of(pid)[1:3]
    return words == ["-m", "mpi_gt"] or (words[:1] != [] and words[0].endswith("start_rank.py"))


def parents() -> dict[int, int]:
    """Return the parent of every process of this machine."""
    parent_of = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent_of[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return parent_of


def descendants(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    parent_of = parents()
    family = [pid]
    for member in family:
        family += [child for child, parent in parent_of.items() if parent == member]
    return family


def ranks_in(out: Path) -> list[int]:
    """Return the ranks that work in a run directory, also those without a parent."""
    mine = [pid for pid in parents() if str(out) in " ".join(words_of(pid))]
    return [pid for pid in mine if is_rank(pid)]


class Round:
    """One run that is killed up to KILLS times and resumed until it is finished."""

    def __init__(
        self,
        out: Path,
        case: Sequence[str],
        dice: random.Random,
        ranks: int,
        duration: float,
        exchanges: Sequence[str],
        options: Sequence[str],
    ) -> None:
        self.out = out
        self.options = options
        self.exchanges = exchanges
        self.case, self.dice, self.ranks = case, dice, ranks
        self.duration = duration
        self.count: Counter[str] = Counter()

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        """Start mpi-gt with these arguments and one of the exchanges, by chance."""
        command = [
            sys.executable,
            "-m",
            "mpi_gt",
            *words,
            "--exchange",
            self.dice.choice(self.exchanges),
        ]
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )

    def finish(self, process: "subprocess.Popen[bytes]") -> int | None:
        """Return the exit code of a process; None if it hangs, or ranks outlive it for long."""
        try:
            self.errors = process.communicate(timeout=LIMIT)[1].decode(errors="replace")
        except subprocess.TimeoutExpired:
            for pid in descendants(process.pid):
                os.kill(pid, signal.SIGKILL)
            process.communicate()
            return None
        end = time.monotonic() + LIMIT / 4
        while ranks_in(self.out):
            if time.monotonic() > end:
                for pid in ranks_in(self.out):
                    os.kill(pid, signal.SIGKILL)
                return None
            time.sleep(0.1)
        return process.returncode

    def wait_for_moment(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait for a random time, or until a part of a checkpoint is being written."""
        if self.dice.random() < 0.5:
            self.moment = "any time"
            end = time.monotonic() + self.dice.uniform(0, self.duration)
            while time.monotonic() < end and process.poll() is None:
                time.sleep(0.01)
            return
        self.moment = "in a checkpoint"
        after = self.dice.randrange(6)
        while process.poll() is None:
            if any(self.out.glob("checkpoints/[ab]/.*.part")):
                if after == 0:
                    return
                after -= 1
                time.sleep(0.01)

    def kill(self, process: "subprocess.Popen[bytes]") -> None:
        """Kill a rank, mpirun, or the front end."""
        family = descendants(process.pid)
        ranks = [pid for pid in family[1:] if is_rank(pid)]
        kind = self.dice.choice(["rank", "rank", "mpirun", "front end"])
        victims = {"rank": ranks, "mpirun": family[1:2], "front end": family[:1]}[kind]
        if process.poll() is None and victims:
            try:
                os.kill(self.dice.choice(victims), signal.SIGKILL)
            except ProcessLookupError:
                return
            self.count[f"{kind} killed {self.moment}"] += 1
            self.count["kills"] += 1

    def run(self) -> None:
        """Start, kill and resume the run until it ends or hangs."""
        size = ["-n", str(self.ranks), *SIZE]
        begin = [*self.case, *size, *self.options, "--out", str(self.out)]
        process = self.start(*begin)
        while True:
            if self.count["kills"] < KILLS:
                self.wait_for_moment(process)
                self.kill(process)
            code = self.finish(process)
            if code is None:
                self.count["hangs"] += 1
                return
            if code == 0:
                return
            if code == 2 and not (self.out / "run.json").exists():  # killed before it began
                process = self.start(*begin, "--overwrite")
                continue
            if self.count["resumes"] > 2 * KILLS:
                self.count["mismatches"] += 1
                print(f"the run does not finish: {self.errors}", file=sys.stderr)
                return
            self.count["resumes"] += 1
            process = self.start("resume", str(self.out), "--quiet")


def result(out: Path) -> Result:
    """Return the content of metrics.csv, without the seconds, and of final.npz."""
    with (out / "metrics.csv").open(newline="") as file:
        rows = [{**row, "seconds": ""} for row in csv.DictReader(file)]
    return rows, (out / "final.npz").read_bytes()


class Leftovers:
    """Counts the files that runs leave in these folders and in shared memory."""

    def __init__(self, *folders: Path) -> None:
        self.folders = (*folders, SHARED_MEMORY)
        self.known = self._entries()

    def _entries(self) -> set[Path]:
        return {path for folder in self.folders if folder.is_dir() for path in folder.iterdir()}

    def count(self) -> int:
        """Return how many there are that were not there at the last call, and print them."""
        new = self._entries() - self.known
        self.known |= new
        for path in sorted(new):
            print(f"left behind: {path}", file=sys.stderr)
        return len(new)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--mpi", choices=("openmpi", "mpich"), default="openmpi")
    parser.add_argument("-n", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--exchange", choices=EXCHANGES, help="always this one (default: any)")
    parser.add_argument("--checkpoint-layout", choices=("rank", "host"), default="rank")
    parser.add_argument(
        "--checkpoint-staging",
        metavar="DIR",
        help="a folder below which one of its own is made; what is left there counts",
    )
    args = parser.parse_args()
    dice = random.Random(args.seed)
    exchanges = EXCHANGES if args.exchange is None else (args.exchange,)
    count: Counter[str] = Counter()
    references: dict[int, tuple[Result, float]] = {}
    with tempfile.TemporaryDirectory(prefix="mpi-gt-faults-") as name:
        folder = Path(name)
        temporary = folder / "tmp"
        temporary.mkdir()
        os.environ["TMPDIR"] = str(temporary)
        options = ["--checkpoint-layout", args.checkpoint_layout]
        scratch: list[Path] = []
        if args.checkpoint_staging is not None:
            scratch = [Path(tempfile.mkdtemp(prefix="mpi-gt-faults-", dir=args.checkpoint_staging))]
            atexit.register(shutil.rmtree, scratch[0], ignore_errors=True)
            options += ["--checkpoint-staging", str(scratch[0])]
        leftovers = Leftovers(temporary, *scratch)
        for number in range(1, args.rounds + 1):
            which = dice.randrange(len(CASES))
            if which not in references:
                out = folder / f"reference-{which}"
                begin = time.monotonic()
                words = [*CASES[which], "-n", str(args.n), *SIZE, "--out", str(out)]
                subprocess.run([sys.executable, "-m", "mpi_gt", *words], check=True)
                references[which] = result(out), time.monotonic() - begin
            expected, duration = references[which]
            out = folder / f"round-{number}"
            this = Round(out, CASES[which], dice, args.n, duration, exchanges, options)
            this.run()
            ended = not this.count["hangs"] and not this.count["mismatches"]
            if ended and result(out) != expected:
                this.count["mismatches"] += 1
            this.count["files left"] += leftovers.count()
            count += this.count
            events = ", ".join(f"{event} {times}" for event, times in sorted(this.count.items()))
            print(f"round {number}, {' '.join(CASES[which][:3])}: {events}", flush=True)
    print(
        f"{args.mpi}, {args.n} ranks: {args.rounds} rounds, {count['kills']} kills, "
        f"{count['resumes']} resumes, {count['mismatches']} mismatches, {count['hangs']} hangs, "
        f"{count['files left']} files left"
    )
    for event in sorted(count):
        if "killed" in event:
            print(f"  {event}: {count[event]}")
    sys.exit(bool(count["mismatches"] or count["hangs"] or count["files left"]))


if __name__ == "__main__":
    main()
