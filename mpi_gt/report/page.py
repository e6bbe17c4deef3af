"""The page itself: curves and summary, one section per kind of result, then what ran and where.

The page is one file without references to others: it needs no network, now or later.
"""

import base64
import hashlib
import json
import time
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import StorageError, UserError
from ..files import with_schema
from ..rundir.atomic import write_atomic
from .curves import BUDGET, page_data
from .directories import ReportedDirectory, read_directories
from .html import Html, section, tag
from .overview import curves_section, provenance, states, summary, titles
from .sections import PARTS, Figures, attempt, graphs

POLICY = (
    "default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
    "connect-src {connects}; base-uri 'none'; form-action 'none'"
)
MARK = '<meta name="generator" content="mpi-gt'
SCRIPTS = ("page.js", "tables.js", "curves.js", "live.js", "start.js")
TITLES = {
    "iteration": "iteration",
    "gradients": "sample gradients per node and seed",
    "bytes": "bytes sent per seed, all nodes",
    "seconds": "seconds",
}
"""The titles of the x axes."""


def write_page(paths: Iterable[Path], target: Path) -> int:
    """Write the page about the directories at `paths`; return its size in bytes."""
    bundle = read_bundle()
    _require_replaceable(target)
    page = make_page(read_directories(paths), bundle)
    content = page.encode("utf-8", errors="replace")  # the name of a file need not be valid text
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, [content])
    except StorageError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"cannot write {target}: {error}") from None
    return len(content)


def make_page(directories: list[ReportedDirectory], bundle: str) -> str:
    """Return the page as text; `bundle` is plotly's script."""
    sections, data = page_content(directories)
    written = f"written {time.strftime('%Y-%m-%d %H:%M')}"
    return fill_page("\n".join(sections.values()), data, bundle, written, policy_of(bundle))


def page_content(
    directories: list[ReportedDirectory], budget: int = BUDGET
) -> tuple[dict[str, Html], dict[str, Any]]:
    """Return the sections of the page by their ids, in order, and the data of its script.

    `budget` limits the numbers of the curves.
    """
    curves = [curve for directory in directories for curve in directory.curves]
    drawn: Figures = {}
    middle: dict[str, Html] = {}
    for part, (title, make) in PARTS.items():
        blocks = []
        for number, directory in enumerate(directories):
            # a damaged file costs its own block only; defaults bind the loop's variables now
            result = attempt(directory, part, lambda d=directory, n=number, m=make: m(d, n))  # type: ignore[misc]
            if result is not None:
                blocks.append(result[0])
                drawn.update(result[1])
        if blocks:
            middle[part] = section(title, *blocks, name=part)
    blocks, graph_figures = graphs(directories)
    drawn.update(graph_figures)
    if blocks:
        columns = tag("div", *blocks, class_="columns")
        middle["graphs"] = section("Graphs", columns, name="graphs")
    curve_data, note = page_data(directories, budget)
    sections = {
        "states": states(directories),
        "curves": curves_section(curves, note),
        "summary": summary(directories),
        **middle,
        "runs": provenance(directories),
    }
    data = {"figures": drawn, "curves": curve_data, "metrics": titles(curves), "across": TITLES}
    return sections, with_schema("report", data)


def fill_page(body: str, data: dict[str, Any], bundle: str, note: str, policy: str) -> str:
    """Return the page with that body and data."""
    plotly, script = _scripts(bundle)
    return _fill(
        {
            "version": __version__,
            "policy": policy,
            "style": _file("page.css"),
            "note": escape(note),
            "body": body,
            "data": script_json(data),
            "plotly": plotly,
            "script": script,
        }
    )


def policy_of(bundle: str, connects: str = "'none'") -> str:
    """Return the Content-Security-Policy of the page.

    The browser runs its own two scripts only, and fetches nothing, or from `connects`.
    """
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in _scripts(bundle))
    return POLICY.format(hashes=hashes, connects=connects)


def _scripts(bundle: str) -> tuple[str, str]:
    """Return plotly's script and the page's own, as they stand in the page."""
    return bundle.replace("</script", "<\\/script"), "\n".join(map(_file, SCRIPTS))


def script_json(data: Any) -> str:
    """Return data as JSON in ASCII; without "<" in it, no text from a file can end a script."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _fill(pieces: dict[str, str]) -> str:
    """Return the template with the pieces, in the order of their places.

    A piece may contain text that looks like the place of another; it is never searched.
    """
    text, page = _file("page.html"), []
    for name, piece in pieces.items():
        before, _, text = text.partition(f"@{name}@")
        page += [before, piece]
    return "".join([*page, text])


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def read_bundle() -> str:
    """Return plotly's script, which its Python package contains."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise UserError("report needs plotly: pip install 'mpi-gt[report]'") from None
    return str(get_plotlyjs())


def _require_replaceable(target: Path) -> None:
    """Raise an error if `target` exists and is not a page of `mpi-gt report`."""
    try:
        if target.is_dir():
            raise UserError(f"{target} is a directory: name a file, such as {target}/report.html")
        if target.exists() and not target.is_file():
            raise UserError(f"{target} is not a regular file: give another name")
        if target.exists() and MARK.encode() not in target.read_bytes()[:1000]:
            raise UserError(f"{target} exists and is not a report: give another name")
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror}") from None
