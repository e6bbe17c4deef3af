"""The campaign of bad inputs: `scripts/campaign`, or `PYTHONPATH=tests python -m campaign`."""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mpi_gt.machine import THREADS

for _name in THREADS:  # before numpy is imported
    os.environ.setdefault(_name, "1")

from campaign import contradictions, modules, options, reading, specs  # noqa: E402
from campaign.case import ANY_END, COMMAND, INSIDE, MPIRUN, Case  # noqa: E402
from campaign.runner import FAULTS, Outcome, Runner, prepare, warm_up  # noqa: E402

from mpi_gt.launchers.detect import LAUNCHED  # noqa: E402

EVERY = {INSIDE: 10, COMMAND: 5, MPIRUN: 6}
"""With --quick: one case in so many, by the way it is started."""
SAMPLE = 50
"""One case in so many that run in a forked process is also typed as a real command."""


def all_cases(bases: Path) -> list[Case]:
    """Return all cases, each once, in an order that mixes their kinds."""
    cases = [
        *options.option_cases(),
        *specs.cases(),
        *reading.cases(bases),
        *contradictions.cases(),
        *modules.cases(),
    ]
    typed = [case for case in cases if case.how == INSIDE and case.can_be_typed][::SAMPLE]
    typed = [case for case in typed if sum(map(len, case.words)) < 60_000]
    cases += [replace(case, how=COMMAND) for case in typed]
    return sorted({case.name: case for case in cases}.values(), key=lambda case: case.name[-8:])


def quick(cases: Sequence[Case]) -> list[Case]:
    """Return a subset with cases of every kind."""
    seen: Counter[tuple[str, str]] = Counter()
    chosen = []
    for case in cases:
        kind = (case.kind, case.how)
        if seen[kind] % EVERY[case.how] == 0:
            chosen.append(case)
        seen[kind] += 1
    return chosen


def show(outcome: Outcome) -> None:
    """Print a case that failed, and the end of its output."""
    print(f"{', '.join(outcome.faults)}: {outcome.case}")
    print(f"    exit code {outcome.code} after {outcome.seconds:.1f} s")
    for line in outcome.err.strip().splitlines()[-3:]:
        print(f"    {line[:300]}")
    for name in outcome.left[:3]:
        print(f"    {name}")


def show_all(outcome: Outcome) -> None:
    """Print everything about one case, for --only."""
    print(outcome.case)
    print(f"exit code {outcome.code} after {outcome.seconds:.2f} s, faults: {outcome.faults}")
    print(f"--- stdout\n{outcome.out}\n--- stderr\n{outcome.err}\n--- files\n{outcome.left}")


def main() -> int:
    """Run the campaign; return 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="scripts/campaign", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a subset, in about a minute")
    parser.add_argument("--only", metavar="ID", action="append", help="one case, with its output")
    parser.add_argument("--kind", metavar="KIND", help="the cases of one kind")
    parser.add_argument("--list", action="store_true", help="list the cases, run none")
    parser.add_argument("--limit", type=float, default=30, help="seconds per case (default 30)")
    parser.add_argument("-j", type=int, default=2, metavar="J", help="cases at a time (default 2)")
    given = parser.parse_args()
    for name in (*LAUNCHED, "MPI_GT_TRIAL", "MPI_GT_DATA"):
        os.environ.pop(name, None)
    for system in ("OMPI", "PRTE"):
        os.environ[f"{system}_ALLOW_RUN_AS_ROOT"] = "1"
        os.environ[f"{system}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    with tempfile.TemporaryDirectory(prefix="mpi-gt-campaign-") as folder:
        os.environ["MPLCONFIGDIR"] = folder  # its cache of fonts is no file of a case
        bases = Path(folder, "bases")
        prepare(bases)
        cases = all_cases(bases)
        if given.quick:
            cases = quick(cases)
        if given.kind or given.only:
            cases = [
                case for case in cases
                if case.kind == given.kind or case.name in (given.only or ())
            ]  # fmt: skip
        if not cases or len(cases) < len(given.only or ()):
            parser.error("there is no such case: --list lists all")
        if given.list:
            print("\n".join(map(str, cases)))
            return 0
        warm_up()
        return _run(cases, Runner(Path(folder), bases, given.limit, given.j), bool(given.only))


def _run(cases: Sequence[Case], runner: Runner, in_full: bool) -> int:
    began = time.monotonic()
    count: Counter[str] = Counter()
    failed = 0
    for done, outcome in enumerate(runner.run(cases), 1):
        count.update(outcome.faults)
        failed += bool(outcome.faults)
        if in_full:
            show_all(outcome)
        elif outcome.faults:
            show(outcome)
        if done % 200 == 0:
            print(f"campaign: {done} of {len(cases)}", file=sys.stderr)
    kinds = Counter(case.kind for case in cases)
    ways = Counter(case.how for case in cases)
    print("campaign: " + ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items())))
    print(
        "campaign: " + ", ".join(f"{number} {how}" for how, number in sorted(ways.items())), end=""
    )
    either = sum(case.codes == ANY_END for case in cases)
    print(f"; {either} of damaged files may also end with exit code 0", end="")
    print(f"; {time.monotonic() - began:.0f} s")
    if failed:
        print(f"campaign: {failed} failed; `--only ID` repeats one")
    print(
        f"campaign: {len(cases)} cases, " + ", ".join(f"{count[fault]} {fault}" for fault in FAULTS)
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
