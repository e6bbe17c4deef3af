"""The page mpi_gt/manual/zoo.md, from docstrings, classes and trials; called by scripts/zoo/run."""

import argparse
import platform
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from strips import Trials, draw_strips
from trials import (
    FIRST_SEED,
    GRID,
    LEAST,
    NEAR,
    NODES,
    SEARCH_SEED,
    SEARCH_SEEDS,
    SEEDS,
    SETTINGS,
    Setting,
    Trial,
    try_methods,
)

from mpi_gt.algorithms import ALGORITHMS, Algorithm, display_name
from mpi_gt.algorithms.base import exchange_interval
from mpi_gt.algorithms.budget import Meter
from mpi_gt.cli.docstrings import OptionDoc, option_docs, split_docstring

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "mpi_gt" / "manual" / "zoo.md"
METHODS = CHECKOUT / "mpi_gt" / "manual" / "methods.md"
PICTURES = CHECKOUT / ".readme" / "zoo"
BEGIN = "<!-- measured: made by scripts/zoo/run -->"
END = "<!-- end of measured -->"
DIM = 10  # of the messages whose bytes the page states

GRAPHS = {
    "any": "undirected ones, also changing from step to step; directed ones where every node hears "
    "and tells equally many",
    "static": "those that stay the same: undirected ones, and directed ones where every node hears "
    "and tells equally many",
    "symmetric": "undirected ones that stay the same",
    "directed": "all that are strongly connected, directed and undirected, also changing from step "
    "to step",
}
"""The graphs that each value of `Algorithm.graph` stands for."""


def head() -> str:
    """Return the page up to its measured part."""
    purpose = (
        "This page shows every method with its update, what it sends, the graphs it takes, its "
        "options, and how fast it is on the same four small problems."
    )
    made = (
        "The symbols are those of [methods](methods.md#the-methods). `scripts/zoo/run` writes "
        "the whole page, from the classes of the methods and from runs of "
        f"{NODES} nodes in one process."
    )
    return f"# The zoo of methods\n\n{purpose}\n\n{_filled(made)}\n\n{BEGIN}\n"


def settings_part(settings: Sequence[Setting]) -> Iterator[str]:
    """Give the lines that say what was measured, and how."""
    yield "## What is measured"
    yield ""
    yield "| number | problem | what it is | `--problem` | `--graph` | iterations |"
    yield "|---|---|---|---|---|---|"
    for number, each in enumerate(settings, 1):
        cells = [str(number), each.title, each.note, f"`{each.problem}`", f"`{each.graph}`"]
        yield f"| {' | '.join(cells)} | {each.iterations} |"
    yield ""
    yield _filled(
        "The gap is that of [mathematics](mathematics.md#metrics), as its mean over "
        f"{SEEDS} seeds ({FIRST_SEED} and following); they draw the least squares, the noise, and "
        f"the start of the network. Python {platform.python_version()}, numpy {np.__version__}."
    )
    yield ""
    yield _filled(
        f"- *Stepsize*: that of the grid {GRID.replace('..', ' to ')}, two per decade, whose curve "
        "of the gap has the least area below it: the smallest mean of log10 of the gap over the "
        f"measurements, where less than {LEAST:g}, which is rounding, counts as {LEAST:g}. It is "
        f"chosen on {SEARCH_SEEDS} other seeds ({SEARCH_SEED} and following). All other options "
        "have their defaults."
    )
    yield _filled(
        "- *Rate*: the mean factor per iteration by which the gap falls, from the start to the "
        f"first measurement that is at most {NEAR} times the end. The smaller, the faster."
    )
    yield _filled(
        "- *End*: the mean of the gap over the last fifth of the measurements; a floor if the "
        "curve is flat there."
    )
    yield _filled(
        "- *Iterations* are what is counted, and they do not cost the same: with variance "
        "reduction one takes two stochastic gradients, at times an exact one; `k-gt` exchanges in "
        "some only; what each method sends is in its section."
    )
    yield ""


def rates_part(settings: Sequence[Setting], trials: Trials) -> Iterator[str]:
    """Give the table of the measured numbers."""
    at_edge = any(trial and trial.at_edge for own in trials.values() for trial in own)
    marked = "(!) marks one at an end of the grid" if at_edge else "none is at an end of the grid"
    yield "## Rates"
    yield ""
    yield f"In each cell: the rate, the end, and the stepsize; {marked}."
    yield ""
    yield "| method |" + "".join(f" {k} {each.title} |" for k, each in enumerate(settings, 1))
    yield "|---|" + "---|" * len(settings)
    for name, own in trials.items():
        yield f"| [{name}](#{name}) | {' | '.join(map(_cell, own))} |"
    yield ""


def _cell(trial: Trial | None) -> str:
    if trial is None:
        return "takes no such graph"
    lr = f"`lr={trial.lr:g}`" + " (!)" * trial.at_edge
    if trial.curve is None:
        return f"diverges on other seeds, {lr}"
    rate = trial.curve.rate
    end = f"{trial.curve.end:.0e}" if trial.curve.end >= LEAST else f"< {LEAST:g}"
    return f"{'does not fall' if rate is None else f'{rate:.3f}'}, {end}, {lr}"


def curves_part(trials: Trials) -> Iterator[str]:
    """Give the table of small figures."""
    yield "## Curves"
    yield ""
    yield _filled(
        "Gap against iterations, mean and range over seeds; in grey the other methods. The panels "
        "of a column have the same axes."
    )
    yield ""
    yield "| method | the four problems |"
    yield "|---|---|"
    for name in trials:
        path = f"../../.readme/{PICTURES.name}/{name}.png"
        yield f"| [{display_name(name)}](#{name}) | ![{name}]({path}) |"
    yield ""


def _filled(text: str) -> str:
    """Return a paragraph, or an item of a list, in lines of the width that the manual has."""
    return textwrap.fill(
        text, 120, subsequent_indent="  " * text.startswith("- "), break_on_hyphens=False
    )


def measured_part(settings: Sequence[Setting], trials: Trials) -> str:
    """Return all that runs have to say."""
    lines = [*settings_part(settings), *rates_part(settings, trials), *curves_part(trials)]
    return "\n".join(lines)


def methods_part() -> str:
    """Return what the classes say of their methods: nothing in it is measured."""
    common = option_docs(Algorithm)
    lines = ["## The methods", "", "Options of all methods:", ""]
    lines += [f"- {_option(each)}" for each in common]
    for name in ALGORITHMS:
        lines += ["", *_section(name, common)]
    return "\n".join(lines) + "\n"


def _section(name: str, common: Sequence[OptionDoc]) -> Iterator[str]:
    method = ALGORITHMS[name]
    yield f"### {name}"
    yield ""
    yield f"**{display_name(name)}.** {_as_markdown(split_docstring(method)[0])}"
    yield ""
    yield f"- sends {sent_by(name)}"
    yield f"- graphs: {GRAPHS[method.graph]}"
    own = [each for each in option_docs(method) if each not in common]
    yield "- options:" if own else "- options: those of all methods"
    for option in own:
        yield f"    - {_option(option)}"


def _option(option: OptionDoc) -> str:
    domain = f", {option.domain}" if option.domain else ""
    return f"`{option.name}={option.default}`{domain}: {option.meaning}"


def _as_markdown(docstring: str) -> str:
    """Return a docstring whose indented lines, the equations, are fenced."""
    parts = []
    for paragraph in docstring.split("\n\n"):
        if paragraph.startswith("    "):
            parts.append(f"```text\n{textwrap.dedent(paragraph)}\n```")
        else:
            parts.append(paragraph)
    return "\n\n".join(parts)


def sent_by(name: str) -> str:
    """Return what a method sends, as the manual names it, with the bytes that its step counts."""
    method = ALGORITHMS[name]().fitted(np.zeros((1, DIM)), name)
    every = exchange_interval(method)
    meter = Meter(method, np.zeros((1, DIM)), (1, 1))
    size = meter.step(every).bytes
    when = "in each iteration" if every == 1 else f"every {every} iterations"
    return f"{_sent_names()[name]}: {size} bytes to each neighbour {when} (dim {DIM}, float64)"


@cache
def _sent_names() -> dict[str, str]:
    """Return the column `sends` of the tables of methods.md, by the name of the method."""
    rows = re.findall(
        r"^\| [^|]*\(`([a-z-]+)`\) \|[^|]*\| ([^|]+) \|", METHODS.read_text("utf-8"), re.MULTILINE
    )
    missing = ALGORITHMS.keys() - dict(rows).keys()
    if missing:
        raise SystemExit(f"zoo: {METHODS.name} has no row for {', '.join(sorted(missing))}")
    return dict(rows)


def whole_page(measured: str) -> str:
    """Return the page with this measured part."""
    return f"{head()}\n{measured.strip()}\n\n{END}\n\n{methods_part()}"


def measured_of(page: str) -> str:
    """Return the measured part of a page."""
    _, begin, rest = page.partition(BEGIN)
    measured, end, _ = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"zoo: {PAGE.name} lacks its measured part; run without --text")
    return measured


def measure() -> str:
    """Run all methods, draw their strips, and return the measured part of the page."""
    trials = {}
    for name, own in try_methods(list(ALGORITHMS)):
        trials[name] = own
        print(f"{name:24}" + "  ".join(map(_cell, own)), file=sys.stderr, flush=True)
    draw_strips(PICTURES, SETTINGS, trials)
    return measured_part(SETTINGS, trials)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/zoo/run")
    parser.add_argument("--text", action="store_true", help="keep the measured part of the page")
    kept = measured_of(PAGE.read_text("utf-8")) if parser.parse_args().text else None
    PAGE.write_text(whole_page(kept or measure()), encoding="utf-8")


if __name__ == "__main__":
    main()
