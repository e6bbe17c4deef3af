"""References to users' functions and classes, `my_module:loss` or `folder/my_module.py:loss`.

A front end only looks for the file: to import it would import JAX or PyTorch as well, which ranks
have to do anyway.
"""

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ...errors import UserError
from ...files import require_regular
from ...spec import nearest
from ...user_classes import handed_object, import_module

INSTRUCTIONS = ("avx512f", "avx2", "fma", "avx", "asimd", "sve")
"""The instructions on which the order of additions depends, by their names in /proc/cpuinfo."""


class Found(NamedTuple):
    """A function or class of the user's, and the module in which it is."""

    thing: Callable[..., Any]
    module: ModuleType


def require_package(problem: str, package: str) -> None:
    """Raise UserError, with the command that installs it, if a package is not installed."""
    if package not in sys.modules and importlib.util.find_spec(package) is None:
        raise UserError(
            f"problem {problem} needs {package}, which is not installed here: "
            f"pip install 'mpi-gt[{problem}]'"
        )


def require_reference(option: str, text: str | None, example: str) -> None:
    """Raise ValueError unless the option is MODULE:NAME, and UserError if there is no such file."""
    module, _, name = (text or "").partition(":")
    if not module.strip() or not name.isidentifier():
        given = f", not '{text}'" if text else ""
        raise ValueError(f"{option} must be MODULE:NAME or FILE.py:NAME, as in {example}{given}")
    if handed_object(str(text)) is None:
        source_of(str(text))


def source_of(text: str) -> Path | None:
    """Return the file of a reference's module; None if it has none. It is not imported."""
    name = text.partition(":")[0].strip()
    given = handed_object(text)
    if given is not None:
        file = getattr(sys.modules.get(given.__module__), "__file__", None)
        return None if file is None else Path(file)
    if name.endswith(".py"):
        if not Path(name).is_file():
            raise UserError(f"{text}: there is no file {name}")
        return Path(name)
    # a module in the current folder goes first, as where users' classes are imported
    top, *rest = name.split(".")
    found = _module_file(Path.cwd() / top, rest)
    if found is not None:
        return found
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # of an empty name
        spec = None
    if spec is not None and not rest:
        return Path(spec.origin) if spec.origin and Path(spec.origin).is_file() else None
    for folder in (spec and spec.submodule_search_locations) or ():
        found = _module_file(Path(folder), rest)
        if found is not None:
            return found
    raise UserError(f"{text}: there is no module '{name}' in {Path.cwd()} or on the Python path")


def _module_file(folder: Path, names: list[str]) -> Path | None:
    """Return the file of a module in a folder, of a package or not; None if there is none."""
    inside = folder.joinpath(*names)
    files = inside / "__init__.py", inside.with_name(f"{inside.name}.py")
    return next((file for file in files if file.is_file()), None)


def load(text: str) -> Found:
    """Return the function or class of a reference; raise UserError if there is none."""
    name, _, attribute = text.partition(":")
    given = handed_object(text)
    if given is not None:
        return Found(given, sys.modules[given.__module__])
    module = import_module(text, name.strip())
    thing = getattr(module, attribute, None)
    if not callable(thing):
        own = [
            key
            for key, value in vars(module).items()
            if callable(value)
            and getattr(value, "__module__", "") == module.__name__
            and key[0] != "_"
        ]
        raise UserError(
            f"{text}: the module has no function or class of that name{nearest(attribute, own)}"
        )
    return Found(thing, module)


def digest_of(text: str) -> str:
    """Return the sha256 of a reference's file, "" if it has none."""
    file = source_of(text)
    if file is None:
        return ""
    require_regular(file)
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None


def versions_of(*packages: str) -> dict[str, str]:
    """Return the versions of installed packages, without importing them."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # in a folder of the Python path, or a part of another one
            continue
    return found


def instructions() -> str:
    """Return the instructions of this processor that decide how sums are grouped."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return " ".join(sorted(set(flags.split()) & set(INSTRUCTIONS)))
