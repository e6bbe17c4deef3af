"""Users' own algorithms and problems, `my_module:MyClass`: loaded, and called with care.

A module is named as in an import, or by its file: `folder/my_module.py:MyClass`.

`engine.user_code` tries them out before a run, and watches them during it.
"""

import hashlib
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from ..errors import UserError
from ..memory import out_of_memory
from ..spec import convert_options, nearest, parse, split
from .failures import located

Made = TypeVar("Made")

SILENCE = 30.0  # seconds after which a message says which call of a user's code takes so long
RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
METHODS = {
    "algorithm": ("init", "step"),
    "problem": ("gradient", "evaluate"),
    "compressor": ("size", "encode", "decode"),
}

_HANDED: ContextVar[Mapping[str, Any]] = ContextVar("handed", default={})  # noqa: B039 (never changed)


@contextmanager
def handing_over(objects: Mapping[str, Any]) -> Iterator[None]:
    """Let specifications stand for the objects of a Python caller in the `with` block.

    A key is `module:Class`, for a class, or a whole specification, for an instance.
    """
    token = _HANDED.set(objects)
    try:
        yield
    finally:
        _HANDED.reset(token)


def handed_over(text: str) -> Any:
    """Return the instance that a whole specification stands for; None if there is none."""
    made = _HANDED.get().get(text)
    return None if isinstance(made, type) else made


def handed_object(text: str) -> Any:
    """Return the class or function that `module:name` stands for; None if there is none."""
    return _HANDED.get().get(text)


def is_custom(text: str) -> bool:
    """Return whether `text` is `module:Class[:key=value,...]`, not a registered name.

    After the colon of a registered name comes `key=`.
    """
    _, colon, rest = text.partition(":")
    return bool(colon) and "=" not in rest.partition(":")[0] and bool(rest.strip())


def without_file(text: str) -> str:
    """Return a specification without the name of its file: a run directory may be moved."""
    module, _, rest = text.partition(":")
    return rest if is_custom(text) and module.endswith(".py") else text


def split_spec(text: str) -> tuple[str, dict[str, str]]:
    """Split a specification, registered or custom, into its name and its options, as text."""
    if not is_custom(text):
        return split(text)
    module, _, rest = text.partition(":")
    name, options = split(rest)
    return f"{module.strip()}:{name}", options


def resolve(kind: str, registry: Mapping[str, Any], text: str) -> tuple[str, Any, dict[str, Any]]:
    """Return the name, class and options of an algorithm or problem, registered or custom."""
    if (given := handed_over(text)) is not None:
        return type(given).__name__, type(given), {}
    if not is_custom(text) or text.partition(":")[0].strip() in registry:
        return parse(kind, registry, text)
    module, _, rest = text.partition(":")
    name, options = split(rest)
    user_class = _load(kind, module.strip(), name)
    what = f"{kind} {module}:{name}"
    converted = call_user_code(  # it evaluates the annotations of the constructor
        f"{what}: reading the signature", lambda: convert_options(what, user_class, options)
    )
    return name, user_class, converted


def _load(kind: str, module_name: str, class_name: str) -> type:
    what = f"{kind} {module_name}:{class_name}"
    handed = _HANDED.get().get(f"{module_name}:{class_name}")
    if handed is not None:
        given = handed if isinstance(handed, type) else type(handed)
        return call_user_code(what, lambda: _require_methods(what, METHODS[kind], given))
    if module_name == "__main__":
        raise UserError(
            f"{what} is known only to the script or notebook that defines it: pass the class there"
        )
    module = import_module(what, module_name)
    return call_user_code(what, lambda: _find_class(what, METHODS[kind], module, class_name))


def import_module(what: str, module_name: str) -> ModuleType:
    """Return a user's module, by its name or its file; UserErrors begin with `what`."""
    try:
        with announced(f"the import of {module_name}"):
            is_file = module_name.endswith(".py")
            return _import_file(module_name) if is_file else _import(module_name)
    except (UserError, KeyboardInterrupt):
        raise
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0] and error.name != module_name:
            raise UserError(f"{what}: {module_name} needs a missing module: {error}") from None
        raise UserError(
            f"{what}: there is no module '{module_name}' in {Path.cwd()} or on the Python path"
        ) from None
    except BaseException as error:  # also sys.exit
        raise UserError(f"{what}: importing the module failed: {located(error)}") from None


def _find_class(what: str, methods: Sequence[str], module: ModuleType, class_name: str) -> type:
    user_class = getattr(module, class_name, None)
    if not isinstance(user_class, type):
        classes = [name for name, thing in vars(module).items() if isinstance(thing, type)]
        raise UserError(f"{what}: the module has no such class{nearest(class_name, classes)}")
    return _require_methods(what, methods, user_class)


def _require_methods(what: str, methods: Sequence[str], user_class: type) -> type:
    lacking = [name for name in methods if not callable(getattr(user_class, name, None))]
    lacking += sorted(set(getattr(user_class, "__abstractmethods__", ())) - set(lacking))
    if lacking:
        raise UserError(f"{what} lacks {', '.join(f'{name}()' for name in lacking)}")
    return user_class


def _import(module_name: str) -> ModuleType:
    """Import a user's module, first of all from the current folder.

    Only the named module is looked for there before anywhere else. Modules that it imports are
    looked for there last, so that a file numpy.py or json.py in the folder hides nothing.
    """
    here = Path.cwd()
    top = module_name.partition(".")[0]
    file, package = here / f"{top}.py", here / top / "__init__.py"
    found = next((path for path in (package, file) if path.is_file()), None)
    if found is not None and top in sys.stdlib_module_names:
        raise UserError(f"{found} has the name of a module of Python itself: rename it")
    if (found is not None or (here / top).is_dir()) and str(here) not in sys.path:
        sys.path.append(str(here))
    loaded = sys.modules.get(top)
    if found is not None and getattr(loaded, "__file__", None) != str(found):
        _execute(top, found, [str(found.parent)] if found is package else None)
    return importlib.import_module(module_name)


def _import_file(name: str) -> ModuleType:
    """Import a user's module by its file; one inside a package by its name in the package.

    Modules that it imports are looked for beside it, last of all. The name of the new module says
    which file it is of, so that it takes no other module's place.
    """
    file = Path(os.path.abspath(name))  # noqa: PTH100 (links stay: they may be in another folder)
    if not file.is_file():
        raise UserError(f"there is no file {name}")
    names, folder = [file.stem], file.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    if len(names) > 1:
        module = importlib.import_module(".".join(names))
        if module.__file__ != str(file):
            raise UserError(f"{name}: another package {names[0]} is found first: {module.__file__}")
        return module
    unique = f"{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    if unique not in sys.modules:
        _execute(unique, file, None)
    return sys.modules[unique]


def _execute(name: str, file: Path, folders: list[str] | None) -> None:
    """Make a module of that name from a file; `folders` are those of a package."""
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(sys.modules[name])
    except BaseException:
        del sys.modules[name]
        raise


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Say once on stderr what is being waited for if the `with` block takes long.

    Ranks other than root say nothing: root waits for them, and says so.
    """
    if any(os.environ.get(name) not in (None, "", "0") for name in RANKS):
        yield
        return

    def say() -> None:
        text = f"mpi-gt: still waiting for {what}, after {SILENCE:.0f} s"
        print(text, file=sys.stderr, flush=True)

    timer = threading.Timer(SILENCE, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def call_user_code(what: str, make: Callable[[], Made], custom: bool = True) -> Made:
    """Return the result of a user's code; raise UserError with file and line if it fails.

    `custom` False: the code is a registered class's, and no thread watches its time.
    """
    try:
        with announced(what) if custom else nullcontext():
            return make()
    except (UserError, KeyboardInterrupt):
        raise
    except MemoryError as error:
        raise UserError(f"{what} {out_of_memory(error)}") from None
    except BaseException as error:  # also sys.exit
        raise UserError(f"{what} failed: {located(error)}") from None


def construct(what: str, custom: bool, make: Callable[[], Made]) -> Made:
    """Return an algorithm or a problem; a ValueError of its constructor is about its options."""

    def made() -> Made:
        try:
            return make()
        except ValueError as error:
            raise UserError(f"{what}: {' '.join(str(error).split())}") from None

    return call_user_code(f"the constructor of {what}" if custom else what, made, custom)


def require_attributes(kind: str, name: str, made: Any) -> None:
    """Raise UserError unless the optional attributes of a user's object can be read and used."""
    for attribute, (expected, fits) in ATTRIBUTES[kind].items():
        what = f"{name}.{attribute}"
        found = call_user_code(what, partial(getattr, made, attribute, None))
        if found is not None and fits is not None and not fits(found):
            raise UserError(f"{what} must be {expected}, not {type(found).__name__}")


def _is_flag(value: Any) -> bool:
    return isinstance(value, int) or type(value).__name__ in ("bool", "bool_")  # also numpy's


def _is_texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(each, str) for each in value)


FLAG = ("true or false", _is_flag)
METHOD = ("a method", callable)
ANYTHING = ("", None)
ATTRIBUTES: dict[str, dict[str, tuple[str, Callable[[Any], bool] | None]]] = {
    "algorithm": {
        **dict.fromkeys(("tracks", "needs_full", "varies"), FLAG),
        **dict.fromkeys(("every", "compressor"), ANYTHING),  # checked where they are used
        "kinds": ("a tuple of text", _is_texts),
        "graph": ("text", lambda value: isinstance(value, str)),
        "phase": METHOD,
    },
    "problem": {
        **dict.fromkeys(("exact", "start_differs"), FLAG),
        **dict.fromkeys(("batch", "rows"), ANYTHING),  # may mean anything in a user's problem
        **dict.fromkeys(
            ("accuracy", "test_score", "metrics", "least_value", "facts", "start", "constants"),
            METHOD,
        ),
    },
}
"""Optional attributes of users' objects, by kind: what is expected of each, and a test of it."""
