"""Kills runs at random moments and resumes them; called by scripts/faults with the right Python."""

import argparse
import csv
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

SIZE = ["--iterations", "400", "--log-every", "20", "--seeds", "2", "--quiet"]
CASES = (
    ["run", "--algorithm", "gt-adaptive", "--checkpoint-every", "50"],
    ["run", "--algorithm", "d-amsgrad", "--graph", "ring", "--checkpoint-every", "7"],
    ["run", "--problem", "softmax:rows=320,features=5", "--checkpoint-minutes", "0.005"],
    ["compare", "--algorithms", "gt,dsgd", "--checkpoint-every", "50"],
)
EXCHANGES = ("neighbor", "persistent", "nonblocking", "p2p", "persistent-p2p")
KILLS = 3  # a round, at most
LIMIT = 120  # seconds until something counts as hanging


def words_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def parents():
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return found


def descendants(pid):
    of = parents()
    found = [pid]
    for each in found:
        found += [child for child, parent in of.items() if parent == each]
    return found


def ranks_in(out):
    """The ranks that work in that directory, wherever they are now."""
    mine = [pid for pid in parents() if str(out) in " ".join(words_of(pid))]
    return [pid for pid in mine if words_of(pid)[1:3] == ["-m", "mpi_gt"]]


class Round:
    """One run, killed up to KILLS times, resumed until it is finished."""

    def __init__(self, number, case, dice, args, folder, duration):
        self.out = folder / f"round-{number}"
        self.case, self.dice, self.args = case, dice, args
        self.duration = duration
        self.count = Counter()

    def start(self, *words):
        command = [
            sys.executable,
            "-m",
            "mpi_gt",
            *words,
            "--exchange",
            self.dice.choice(EXCHANGES),
        ]
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )

    def finish(self, process):
        """Its exit code, None where it hangs. Ranks that outlive it for long hang as well."""
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

    def wait_for_moment(self, process):
        """Some time, or the midst of a checkpoint: a part of it is being written."""
        if self.dice.random() < 0.5:
            self.moment = "any time"
            end = time.monotonic() + self.dice.uniform(0, self.duration)
            while time.monotonic() < end and process.poll() is None:
                time.sleep(0.01)
            return
        self.moment = "in a checkpoint"
        after = self.dice.randrange(6)
        while process.poll() is None:
            if any(self.out.glob("checkpoints/[ab]/.node-*")):
                if after == 0:
                    return
                after -= 1
                time.sleep(0.01)

    def kill(self, process):
        family = descendants(process.pid)
        ranks = [pid for pid in family[1:] if words_of(pid)[1:3] == ["-m", "mpi_gt"]]
        who = self.dice.choice(["rank", "rank", "mpirun", "parent"])
        victims = {"rank": ranks, "mpirun": family[1:2], "parent": family[:1]}[who]
        if process.poll() is None and victims:
            try:
                os.kill(self.dice.choice(victims), signal.SIGKILL)
            except ProcessLookupError:
                return
            self.count[f"{who} killed {self.moment}"] += 1
            self.count["kills"] += 1

    def run(self):
        begin = [*self.case, "-n", str(self.args.n), *SIZE, "--out", str(self.out)]
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
            if code == 2 and not (self.out / "run.json").exists():  # it had not begun
                process = self.start(*begin)
                continue
            if self.count["resumes"] > 2 * KILLS:
                self.count["mismatches"] += 1
                print(f"it does not come to an end: {self.errors}", file=sys.stderr)
                return
            self.count["resumes"] += 1
            process = self.start("resume", str(self.out), "--quiet")


def result(out):
    with (out / "metrics.csv").open(newline="") as file:
        rows = [{**row, "seconds": ""} for row in csv.DictReader(file)]
    return rows, (out / "final.npz").read_bytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--mpi", choices=("openmpi", "mpich"), default="openmpi")
    parser.add_argument("-n", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    dice = random.Random(args.seed)
    count = Counter()
    references = {}
    with tempfile.TemporaryDirectory(prefix="mpi-gt-faults-") as name:
        folder = Path(name)
        os.environ["TMPDIR"] = name  # what the killed leave goes with it
        for number in range(1, args.rounds + 1):
            which = dice.randrange(len(CASES))
            if which not in references:
                out = folder / f"reference-{which}"
                begin = time.monotonic()
                words = [*CASES[which], "-n", str(args.n), *SIZE, "--out", str(out)]
                subprocess.run([sys.executable, "-m", "mpi_gt", *words], check=True)
                references[which] = result(out), time.monotonic() - begin
            expected, duration = references[which]
            one = Round(number, CASES[which], dice, args, folder, duration)
            one.run()
            ended = not one.count["hangs"] and not one.count["mismatches"]
            if ended and result(one.out) != expected:
                one.count["mismatches"] += 1
            count += one.count
            told = ", ".join(f"{what} {times}" for what, times in sorted(one.count.items()))
            print(f"round {number}, {' '.join(CASES[which][:3])}: {told}", flush=True)
    print(
        f"{args.mpi}, {args.n} ranks: {args.rounds} rounds, {count['kills']} kills, "
        f"{count['resumes']} resumes, {count['mismatches']} mismatches, {count['hangs']} hangs"
    )
    for what in sorted(count):
        if "killed" in what:
            print(f"  {what}: {count[what]}")
    sys.exit(bool(count["mismatches"] or count["hangs"]))


if __name__ == "__main__":
    main()
