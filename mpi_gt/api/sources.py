"""The specification of a class that a Python caller has passed: `module:Class` or `FILE.py:Class`.

Ranks import the class by it. No object is pickled.
"""

import os
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import UserError
from .cells import notebook, source_of_class

FORBIDDEN = ":,="


def module_of(user_class: type) -> str:
    """Return the words before the colon by which any process can import the class.

    Raises UserError if there are none. A class of a notebook has no module: see `cell_source`.
    """
    name = user_class.__name__
    require_top_level(user_class)
    module = sys.modules.get(user_class.__module__)
    file = getattr(module, "__file__", None)
    if module is None or file is None or not file.endswith(".py"):
        if module is not None and user_class.__module__ != "__main__":
            return user_class.__module__  # compiled, or frozen: it is installed
        raise UserError(
            f"{name} was typed at the prompt, where no rank can find it: write it in a module"
        )
    if user_class.__module__ != "__main__" and _is_importable(module, Path(file)):
        return user_class.__module__
    return file_name(Path(file))


def require_top_level(user_class: type) -> None:
    """Raise UserError unless the class is found under its name at the top level of its module."""
    name, qualified = user_class.__name__, user_class.__qualname__
    module = sys.modules.get(user_class.__module__)
    if name != qualified:
        raise UserError(
            f"{qualified} is defined inside a function or a class, where no rank can find it: "
            "move it to the top level of a module"
        )
    if getattr(module, name, None) is not user_class:
        raise UserError(
            f"{user_class.__module__} has another {name} by now, or none: make the object anew "
            "from the class of that name"
        )


def cell_source(user_class: type) -> str | None:
    """Return the source of a class of a notebook's cell; None for any other class."""
    shell = notebook()
    module = sys.modules.get(user_class.__module__)
    if shell is None or user_class.__module__ != "__main__" or getattr(module, "__file__", None):
        return None
    require_top_level(user_class)
    return source_of_class(user_class, shell)


def file_name(file: Path) -> str:
    """Return a path for a specification: relative if it lies in the current folder."""
    path = Path(os.path.abspath(file))  # noqa: PTH100 (links stay: the module lies beside the link)
    here = Path.cwd()
    text = str(path.relative_to(here) if path.is_relative_to(here) else path)
    if any(letter in text for letter in FORBIDDEN):
        raise UserError(f"{text} has one of the letters {FORBIDDEN} in its name: rename it")
    return text


def _is_importable(module: ModuleType, file: Path) -> bool:
    """Return whether a rank, which starts in this folder, finds the module by its name."""
    names = module.__name__.split(".")
    places = [Path.cwd(), *(Path(sysconfig.get_path(key)) for key in ("purelib", "platlib"))]
    inside = Path(*names)
    candidates: list[Any] = [inside.with_suffix(".py"), inside / "__init__.py"]
    return any(file == place / each for place in places for each in candidates)
