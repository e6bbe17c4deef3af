"""Pieces of HTML. Everything that comes from a file goes through `show` or `escape`."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


class Html(str):
    """Text that is HTML already."""


def show(value: Any) -> Html:
    """Return a value from a file as text without markup."""
    if isinstance(value, Html):
        return value
    if value is None:
        return Html("-")
    if isinstance(value, float):
        return Html(f"{value:.6g}")
    return Html(escape(str(value)))


def tag(name: str, *content: Any, **attributes: Any) -> Html:
    """Return an element; in names of attributes a trailing _ is dropped, others become -."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{shown}>{''.join(map(show, content))}</{name}>")


def listed(items: Iterable[Any], **attributes: Any) -> Html:
    """Return a bulleted list."""
    return tag("ul", *(tag("li", item) for item in items), **attributes)


def pairs(rows: Iterable[tuple[str, Any]]) -> Html:
    """Return a list of names with values; names without a value are left out."""
    kept = [(name, value) for name, value in rows if value not in (None, "", [], {})]
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in kept))


def badge(status: str) -> Html:
    """Return a status or verdict in the colour that page.css gives it."""
    return tag("span", status, class_="badge", data_status=status.replace(" ", "-"))


def table(
    caption: str, names: Sequence[str], rows: Iterable[Sequence[Any]], sortable: bool = False
) -> Html:
    """Return a table; if `sortable`, its column headings are buttons, and numbers sort by value."""
    headings = [
        tag("th", tag("button", name, type="button") if sortable else name, scope="col")
        for name in names
    ]
    body = [tag("tr", *map(_cell, row)) for row in rows]
    whole = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", *headings)),
        tag("tbody", *body),
        class_="sortable" if sortable else None,
    )
    # a wide table scrolls within its region, which the keyboard can reach
    return tag("div", whole, class_="wide", tabindex=0, role="region", aria_label=caption)


def _cell(value: Any) -> Html:
    if isinstance(value, int | float) and not isinstance(value, bool):
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.5g}"
        return tag("td", shown, class_="number", data_value=repr(value))
    return tag("td", value)


def plot(name: str, label: str, kind: str = "") -> Html:
    """Return the place of a figure; the script finds the figure's data under `name`."""
    inner = tag("div", id=name, class_=f"plot {kind}".strip(), role="img", aria_label=label)
    return tag("figure", inner, tag("figcaption", label))


def section(title: str, *content: Any, name: str) -> Html:
    """Return a section of the page with its heading."""
    return tag("section", tag("h2", title), *content, id=name)
