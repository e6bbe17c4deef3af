"""Pages of Markdown in a terminal."""

import re
import sys
from typing import Any

from .console import console


def show_markdown(text: str) -> None:
    """Print a page, rendered."""
    from rich.markdown import Markdown

    output = console(sys.stdout)
    elements = {**Markdown.elements, **_folding_tables()}
    page = type("Page", (Markdown,), {"elements": elements})
    # a link to another page or a picture cannot be followed here: its text is enough
    text = re.sub(r"(!?)\[([^\]]*)\]\((?!https?:)[^)]*\)", _link_text, text)
    output.print(page(text, hyperlinks=False))


def _link_text(link: "re.Match[str]") -> str:
    return f"*(picture: {link[2]})*" if link[1] else str(link[2])


def _folding_tables() -> dict[str, Any]:
    """Return what renders a table whose cells fold; rich would cut long words off."""
    from rich import box, markdown
    from rich.table import Table

    base = getattr(markdown, "TableElement", None)
    if base is None:  # a rich that does not know tables
        return {}

    def render(self: Any, output: Any, options: Any) -> Any:
        table = Table(box=box.SIMPLE, pad_edge=False, show_edge=True, collapse_padding=True)
        for cell in self.header.row.cells:
            table.add_column(cell.content, overflow="fold")
        for row in self.body.rows:
            table.add_row(*(cell.content for cell in row.cells))
        yield table

    return {"table_open": type("FoldingTable", (base,), {"__rich_console__": render})}
