"""The benchmark: mpi-gt beside hand-written C and other bounds; see `run` beside this file."""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import growth
import local
import numpy as np
from sides import GRAPH, Machine, read_reference, run, write_huber, write_mix
from table import lines, reached

from mpi_gt import machine
from mpi_gt.errors import UserError
from mpi_gt.graphs import build_network

TOLERANCE = 1e-9
TURNS = 4  # pairs per launch, where both sides are mpi-gt
CODECS = [("sign", "sign", "sign"), ("bfloat16", "bfloat16", "bfloat16"),
          ("8bits", "qsgd with 8 bits", "qsgd:bits=8")]  # fmt: skip
Row = dict[str, Any]


class Bench:
    """The measurements, one method per kind; each compares two sides, called ours and theirs."""

    def __init__(self, place: Machine, ranks: int, quick: bool, pairs: int | None = None) -> None:
        self.place = place
        self.ranks = ranks
        self.quick = quick
        self.pairs = pairs or (3 if quick else 7)

    def alternately(self, first: Callable[[], float], second: Callable[[], float]) -> Row:
        """Call both sides by turns, and compare them."""
        return compared([(first(), second()) for _ in range(self.pairs)])

    def huber(self, seeds: int, exchange: str = "neighbor", *how: str) -> Row:
        """Compare the time per iteration with C; a run counts by the median of its twentieths.

        With "shared", C goes through a shared window as well.
        """
        iterations = (400 if seeds > 1 else 2000) * (1 if self.quick else 5)
        folder = self.place.work / f"huber-{seeds}"
        write_huber(folder, self.ranks, seeds, noise=True)
        options = (f"--seeds={seeds}", f"--exchange={exchange}")

        def ours() -> float:
            return 1e6 * statistics.median(self.place.ours(self.ranks, iterations, *options))

        def theirs() -> float:
            times = self.place.c("huber", self.ranks, folder, iterations, *how)
            return 1e6 * statistics.median(times)

        return {"unit": "us", **self.alternately(ours, theirs)}

    def mix(self, size: int, exchange: str = "neighbor") -> Row:
        """Compare the time to mix a vector of `size` bytes with C."""
        dim = size // 8
        iterations = max(20, (200 if self.quick else 2000) * 12_500 // size // 20 * 20)
        folder = self.place.work / f"mix-{size}"
        write_mix(folder, self.ranks, dim)
        words = ["mix", str(folder), str(dim), str(iterations), GRAPH, exchange]

        def ours() -> float:
            return 1e6 * statistics.median([float(word) for word in self.worker(*words).split()])

        return {
            "unit": "us",
            **self.alternately(
                ours,
                lambda: (
                    1e6 * statistics.median(self.place.c("mix", self.ranks, folder, iterations))
                ),
            ),
        }

    def long_vectors(self, exchange: str) -> Row:
        """Compare an iteration on MNIST with its passes over memory at the speed of a copy."""
        length, seeds = 7840, 10
        degrees = [len(build_network(GRAPH, None, self.ranks).row(node).neighbours)
                   for node in range(self.ranks)]  # fmt: skip
        # packing 4, x and s of all neighbours and one's own, s m v to m v x, x to g, g g to s
        passes = 4 + 2 * (statistics.mean(degrees) + 1) + 6 + 2 + 3
        size = 8 * length * seeds
        words = ["methods", "3", "20" if self.quick else "40", str(seeds),
                 "softmax:dataset=mnist", exchange, "gt-adaptive:lr=0.001"]  # fmt: skip

        def ours() -> float:
            return 1e6 * statistics.median(map(float, self.worker(*words).split()))

        def theirs() -> float:
            copied = float(self.worker("copy", str(size)))  # each byte is read and written
            return 1e6 * self.ranks * passes * size / (2 * copied)

        return {"unit": "us", **self.alternately(ours, theirs), "passes": passes}

    def seeds_together(self) -> Row:
        """Compare 50 times the command with one seed to one command with 50 seeds."""
        run_of = ["-n", str(self.ranks), "--iterations=2000", "--quiet", "--overwrite"]
        words = [sys.executable, "-m", "mpi_gt", "run", *run_of, f"--out={self.place.out}"]
        measured = self.alternately(
            lambda: 50 * seconds(lambda: run([*words, "--seeds=1"])),
            lambda: seconds(lambda: run([*words, "--seeds=50"])),
        )
        return {"unit": "s", **measured, "note": "50 runs = 50 times the time of one"}

    def start_up(self) -> Row:
        """Compare the time to the first iteration with that of importing numpy and mpi4py."""

        def ours() -> float:
            began = time.time()
            return self.timed("--iterations=1")["began"] - began

        bare = [sys.executable, "-c", "import numpy; from mpi4py import MPI"]
        return {
            "unit": "s",
            **self.alternately(
                ours, lambda: seconds(lambda: self.place.on_ranks(self.ranks, *bare))
            ),
        }

    def with_option(self, option: str, iterations: int) -> Row:
        """Compare the wall time of the loop with an option to that without it.

        Both sides take turns within one launch: between two launches the pace differs by more.
        """
        words = ["option", option, str(TURNS), str(iterations), str(self.place.out)]
        printed = [line for _ in range(self.pairs) for line in self.worker(*words).splitlines()]
        pairs = [(float(one), float(other)) for one, other in map(str.split, printed)]
        return {"unit": "s", **compared(pairs)}

    def logging(self) -> Row:
        return self.with_option("log_every=100", 1000 if self.quick else 4000)

    def checkpoints(self) -> Row:
        return self.with_option("checkpoint_every=1000", 2000 if self.quick else 5000)

    def profile(self) -> Row:
        """Compare the processor time per iteration with and without a profile, on one rank.

        The ratio is the difference in microseconds.
        """
        printed = self.worker("profile", "2000" if self.quick else "5000", ranks=1).split()
        ours, theirs = (1e6 * float(word) for word in printed)
        return {"unit": "us", "ours": ours, "theirs": theirs, "ratio": ours - theirs}

    def worker(self, *words: str, ranks: int | None = None) -> str:
        """Run ours.py with these arguments on the ranks, and return its output."""
        script = str(Path(__file__).parent / "ours.py")
        return self.place.on_ranks(ranks or self.ranks, sys.executable, script, *words)

    def timed(self, *options: str, ranks: int | None = None) -> Row:
        """Call `mpi-gt run`; return when its loop began, its seconds, and its memory."""
        words = [f"--out={self.place.out}", "--overwrite", "--quiet", *options]
        return dict(json.loads(self.worker("run", *words, ranks=ranks)))

    def local(self, function: Callable[[int], list[float]], seeds: int) -> Row:
        """Compare a function of local.py with its bare products."""
        ours, theirs = function(seeds)
        return {"unit": "us", "ours": 1e6 * ours, "theirs": 1e6 * theirs, "ratio": ours / theirs}

    def rows(self) -> dict[str, tuple[str, str, Callable[[], Row]]]:
        """Return, by name: description, target, and the function that measures."""
        gradient, metric = local.stochastic_gradient, local.exact_metric
        return {
            "huber-1": ("Huber, 1 seed: iteration / C", "<= 1.8", lambda: self.huber(1)),
            "huber-50": ("Huber, 50 seeds in one run: iteration / C", "<= 1.5",
                         lambda: self.huber(50)),
            "seeds": ("50 runs of one seed / one run of 50, T = 2000", ">= 20",
                      self.seeds_together),
            "mix-125kB": ("mix of 125 kB / C", "<= 1.5", lambda: self.mix(125_000)),
            "mix-1.25MB": ("mix of 1.25 MB / C", "<= 1.5", lambda: self.mix(1_250_000)),
            "shared-1": ("Huber, 1 seed, shared: iteration / C by the collective", "<= 1",
                         lambda: self.huber(1, "shared")),
            "shared-50": ("Huber, 50 seeds, shared: iteration / C by the collective", "<= 0.7",
                          lambda: self.huber(50, "shared")),
            "window-1": ("Huber, 1 seed, shared: iteration / C through a window", "<= 2.5",
                         lambda: self.huber(1, "shared", "shared")),
            "window-50": ("Huber, 50 seeds, shared: iteration / C through a window", "<= 1.25",
                          lambda: self.huber(50, "shared", "shared")),
            "shared-125kB": ("mix of 125 kB, shared / C by the collective", "<= 0.25",
                             lambda: self.mix(125_000, "shared")),
            "shared-1.25MB": ("mix of 1.25 MB, shared / C by the collective", "<= 0.4",
                              lambda: self.mix(1_250_000, "shared")),
            "mnist": ("MNIST, 10 seeds: iteration / its passes as copies", "<= 2",
                      lambda: self.long_vectors("neighbor")),
            "mnist-shared": ("MNIST, 10 seeds, shared: iteration / its passes as copies", "<= 1",
                             lambda: self.long_vectors("shared")),
            "softmax-1": ("MNIST gradient, 1 seed / its gather and products", "<= 2",
                          lambda: self.local(gradient, 1)),
            "softmax-10": ("MNIST gradient, 10 seeds / the same", "<= 2",
                           lambda: self.local(gradient, 10)),
            **{
                f"codec-{name}": (f"{what}: encode and decode of 627 kB / its copy", "<= 3",
                                  partial(self.local, partial(local.codec_beside_copy, spec), 10))
                for name, what, spec in CODECS
            },
            "start": ("start-up to the first iteration / bare imports", "<= 1.4", self.start_up),
            "logging": ("loop with logging every 100 / without, 50 seeds", "<= 1.10",
                        self.logging),
            "checkpoint": ("loop with a checkpoint every 1000 / without, 50 seeds", "<= 1.05",
                           self.checkpoints),
            "profile": ("profile: processor time added per iteration", "<= 2 µs",
                        self.profile),
            "metric-1": ("Covertype exact metric, 1 seed / its products", "<= 2",
                         lambda: self.local(metric, 1)),
            "metric-10": ("Covertype exact metric, 10 seeds / the same", "<= 2",
                          lambda: self.local(metric, 10)),
        }  # fmt: skip

    def require_equal_work(self) -> float:
        """Return the difference of both sides' x without noise; end the benchmark if too large."""
        folder = self.place.work / "equal"
        write_huber(folder, self.ranks, 3, noise=False)
        self.place.c("huber", self.ranks, folder, 200)
        by_collective = read_reference(folder, self.ranks, 3, 10)
        self.place.c("huber", self.ranks, folder, 200, "shared")
        if not np.array_equal(read_reference(folder, self.ranks, 3, 10), by_collective):
            sys.exit("bench: the C program has another x through the window")
        self.place.mpi_gt(self.ranks, "--problem=huber:noise=0", "--iterations=200", "--seeds=3")
        with np.load(self.place.out / "final.npz") as final:
            difference = np.abs(final["x"] - by_collective).max()
        if not difference <= TOLERANCE:
            sys.exit(f"bench: the x of the C program differs from mpi-gt's by {difference:.1e}")
        return float(difference)


def compared(pairs: list[tuple[float, float]]) -> Row:
    """Return the medians of both sides, and of the ratios of the pairs."""
    ours, theirs = (statistics.median(values) for values in zip(*pairs, strict=True))
    ratios = [one / other for one, other in pairs]
    return {
        "ours": ours,
        "theirs": theirs,
        "ratio": statistics.median(ratios),
        "ratios": [round(ratio, 3) for ratio in sorted(ratios)],
    }


def seconds(function: Callable[[], object]) -> float:
    """Return the wall time of a call."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these measures, or growth")
    parser.add_argument(
        "--ranks", type=int, default=16, help="number of ranks, except for growth (default 16)"
    )
    parser.add_argument(
        "--pairs",
        type=int,
        choices=range(1, 1000),
        metavar="N",
        help="pairs of launches per measure (for logging and checkpoint: launches of 4 pairs "
        "each); take more if the machine is busy (default 7; quick 3)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/bench"), help="directory to write to"
    )
    return parser.parse_args()


def measure_all(bench: Bench, names: list[str], facts: Row, out: Path) -> dict[str, Row]:
    """Measure these rows; print each, and write bench.json after each."""
    rows = bench.rows()
    results: dict[str, Row] = {}
    for name in names:
        what, target, measure = rows[name]
        try:
            measured = measure()
        except UserError as error:  # a dataset cannot be had; the other measures need none
            measured = {"note": f"not measured: {error}"}
        results[name] = {"what": what, "reach": target, **measured}
        if "ratio" in results[name]:
            results[name]["reached"] = reached(results[name]["ratio"], target)
        print(json.dumps({name: results[name]}), flush=True)
        content = {"schema": 1, **facts, "load_at_end": os.getloadavg()[0], "results": results}
        (out / "bench.json").write_text(json.dumps(content, indent=2))
    return results


def main() -> None:
    options = parse_options()
    options.out.mkdir(parents=True, exist_ok=True)
    work = options.out / "work"
    work.mkdir(exist_ok=True)
    place = Machine(work.resolve())
    bench = Bench(place, options.ranks, options.quick, options.pairs)
    rows = bench.rows()
    names = options.only or [*rows, "growth"]
    if unknown := set(names) - {*rows, "growth"}:
        sys.exit(
            f"bench: unknown measure {', '.join(sorted(unknown))}; "
            f"there are {', '.join(rows)}, growth"
        )
    difference = bench.require_equal_work()
    facts = {
        "kernels": place.facts()["kernels"],
        "mpi": place.facts()["mpi"],
        "versions": place.facts()["versions"],
        "settings": place.settings(options.ranks),
        "reference": " ".join([Path(place.build[0]).name, *place.build[1:]]),
        "ranks": options.ranks,
        "cores": machine.cores(),
        "load_at_start": os.getloadavg()[0],
        "difference_of_x": difference,
        "quick": options.quick,
        "pairs": bench.pairs,
    }
    for name, value in facts.items():
        print(f"{name}: {value}", flush=True)
    results = measure_all(bench, [name for name in names if name in rows], facts, options.out)
    if results:
        text = "\n".join(lines(results))
        (options.out / "bench.md").write_text(text + "\n", encoding="utf-8")
        print(f"\n{text}")
    if "growth" in names:
        growth.grow(bench, options.out)


if __name__ == "__main__":
    main()
