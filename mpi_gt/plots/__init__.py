"""Figures, drawn with matplotlib (the extra `plot`)."""

import io
import logging
import textwrap
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..errors import StorageError
from ..rundir.atomic import write_atomic

LONGEST = 90  # letters of a line of a name in a figure


def available() -> bool:
    """Return whether matplotlib is installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def try_to_draw(draw: Callable[[], Iterable[Path]]) -> tuple[list[Path], str | None]:
    """Return the figures that `draw` makes; if it fails, none, and a warning that says why.

    A figure is never worth the result that it shows. Warnings of matplotlib, such as those about
    letters that its font lacks, are not shown.
    """
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(draw()), None
    except StorageError as error:
        return [], f"no figure: {error}"
    except Exception as error:
        return [], f"no figure could be drawn: {type(error).__name__}: {str(error)[:500]}"
    finally:
        log.setLevel(level)


def plain(text: str) -> str:
    """Return a text in which matplotlib takes nothing for a formula, in lines that are not long.

    Nothing is cut: what tells two names apart may be at their ends.
    """
    text = textwrap.fill(" ".join(text.encode(errors="replace").decode().split()), LONGEST)
    return text.replace("$", r"\$")


def save(figure: Any, target: Path, **options: Any) -> Path:
    """Write a figure to a file, in the format of its name; return the file."""
    stream = io.BytesIO()
    figure.savefig(stream, format=target.suffix[1:] or "png", **options)
    write_atomic(target, [stream.getvalue()])
    return target
