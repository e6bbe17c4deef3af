"""Compressed messages: what encoding costs, and the time per iteration; see `compressed` here."""

import argparse
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import local
from sides import Machine
from table import shown

SPECS = ["none", "bfloat16", "float16", "float32", "qsgd:bits=8", "qsgd:bits=4", "qsgd:bits=2",
         "sign", "top"]  # fmt: skip
PROBLEM = "softmax:dataset=mnist"
METHODS = ["none", "bfloat16", "qsgd,bits=8", "qsgd,bits=4", "sign"]


def codec_lines(seeds: int) -> Iterator[str]:
    """Return a table of all compressors, for vectors (seeds, 7840)."""
    yield f"| {seeds} x 7840 | encode | decode | copy | (encode + decode) / copy | draws |"
    yield "|---|---|---|---|---|---|"
    for spec in SPECS:
        times = local.codec(spec, seeds)
        encode, decode, copy = (times[name] for name in ("encode", "decode", "copy"))
        cells = [shown(1e6 * each, "us") for each in (encode, decode, copy)]
        draws = shown(1e6 * times["draws"], "us") if "draws" in times else ""
        yield f"| {spec} | {' | '.join(cells)} | {(encode + decode) / copy:.2f} | {draws} |"


def iteration_lines(place: Machine, options: argparse.Namespace) -> Iterator[str]:
    """Return a table of the seconds per iteration of the methods, which take turns."""
    methods = ["gt-adaptive", *(f"gt-adaptive-compressed:compress={each}" for each in METHODS)]
    numbers = map(str, (options.turns, options.iterations, options.seeds))
    script = str(Path(__file__).parent / "ours.py")
    words = [sys.executable, script, "methods", *numbers, options.problem, "neighbor", *methods]
    printed = place.on_ranks(options.ranks, *words)
    turns = [[float(word) for word in line.split()] for line in printed.splitlines()]
    yield f"| {options.ranks} ranks, {options.seeds} seeds | median | shortest | / gt-adaptive |"
    yield "|---|---|---|---|"
    for method, taken in zip(methods, zip(*turns, strict=True), strict=True):
        ratio = statistics.median(own / turn[0] for own, turn in zip(taken, turns, strict=True))
        times = f"{1e3 * statistics.median(taken):.3g} ms | {1e3 * min(taken):.3g} ms"
        yield f"| {method} | {times} | {ratio:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=16, help="number of ranks (default 16)")
    parser.add_argument("--seeds", type=int, default=10, help="seeds in one run (default 10)")
    parser.add_argument("--turns", type=int, default=11, help="turns of each method (default 11)")
    parser.add_argument(
        "--iterations", type=int, default=60, help="per turn; half of them count (default 60)"
    )
    parser.add_argument("--problem", default=PROBLEM, help=f"the problem (default {PROBLEM})")
    parser.add_argument("--only", choices=["codecs", "iterations"], help="one of the two parts")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/bench"), help="directory for files of the benchmark"
    )
    options = parser.parse_args()
    if options.only != "iterations":
        for seeds in (1, options.seeds):
            print(*codec_lines(seeds), "", sep="\n", flush=True)
    if options.only != "codecs":
        options.out.mkdir(parents=True, exist_ok=True)
        print(*iteration_lines(Machine(options.out.resolve()), options), sep="\n")


if __name__ == "__main__":
    main()
