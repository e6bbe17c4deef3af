"""`mpi-gt manual`: the pages of mpi_gt/manual, in the terminal."""

import re
import textwrap
from importlib import resources
from typing import TYPE_CHECKING

from ...errors import UserError
from ...spec import nearest
from . import LEARNING, Command

if TYPE_CHECKING:
    from ..parser import Parser

HELP = """\
Show a page of the manual, or the list of pages.

examples:
  mpi-gt manual                  the list of topics
  mpi-gt manual running
"""
EPILOG = "A terminal shows the page rendered; a pipe gets the Markdown itself."


def read_pages() -> dict[str, str]:
    """Return the text of each topic's page, in the order of the index page."""
    found = {
        page.name.removesuffix(".md"): page.read_text(encoding="utf-8")
        for page in (resources.files("mpi_gt") / "manual").iterdir()
        if page.name.endswith(".md")
    }
    index = found.pop("README")
    listed = [name for name in re.findall(r"\]\((\w+)\.md\)", index) if name in found]
    return {name: found[name] for name in dict.fromkeys([*listed, *sorted(found)])}


def manual(topic: str | None = None) -> int:
    """Print the list of topics, or one page; return the exit code."""
    pages = read_pages()
    if topic is None:
        print("\n".join(_list(pages)))
        return 0
    if topic not in pages:
        raise UserError(f"the manual has no page '{topic}'{nearest(topic, pages)}")
    from ...display.console import on_terminal

    if on_terminal():
        from ...display.markdown import show_markdown

        show_markdown(pages[topic])
    else:
        print(pages[topic], end="")
    return 0


def _list(pages: dict[str, str]) -> list[str]:
    """Return one entry per topic: the title of its page, and what the page is for."""
    width = max(map(len, pages)) + 2
    lines = []
    for topic, text in pages.items():
        title, purpose = text.split("\n\n")[:2]
        purpose = " ".join(purpose.split()).removeprefix("This page ")
        entry = f"{title.lstrip('# ')}: {purpose}"
        lines += textwrap.wrap(
            entry, 100, initial_indent=f"{topic:{width}}", subsequent_indent=" " * width
        )
    return [*lines, "", "`mpi-gt manual TOPIC` shows a page."]


def _add_arguments(parser: "Parser") -> None:
    parser.add_argument("topic", nargs="?", metavar="TOPIC", help="the page to show")


MANUAL = Command(
    name="manual",
    group=LEARNING,
    summary="show a page of the manual",
    help=HELP,
    epilog=EPILOG,
    add_arguments=_add_arguments,
    alone=manual,
)
