"""Files from outside: regular ones only, TOML, and JSON whose schema, keys and types are checked.

Every JSON file and text of the program has a schema, the number of the form that it has. A reader
takes a file without one, of a version that wrote none, and any number up to its own. It refuses a
larger one: a later version has written the file, in a form unknown here. A new key is no new form;
a key that goes, or means something else, is one, and raises the number.

The front end imports this module, so it must not import numpy.
"""

import errno
import json
import math
import os
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from .errors import UserError

LARGEST_TEXT = 1 << 30  # bytes of a text file that is read whole
LARGEST_NUMBER = 1e300
SCHEMA = "schema"
SCHEMAS = {
    # files of a run and of a sweep
    "run": 1,
    "summary": 1,
    "sweep": 1,
    "audit": 1,
    "profile": 1,
    "trace": 1,
    "watchdog": 1,
    # of other commands
    "bench": 1,
    "scale": 1,
    "columns": 1,
    "prediction": 1,
    "claims": 1,
    "report": 1,
    "digests": 1,
    # printed by --json
    "status": 1,
    "graph": 1,
    "describe": 1,
    "doctor": 1,
    "theory": 1,
    # what processes of one launch leave for each other, and what a page asks for
    "lock": 1,
    "launch": 1,
    "notes": 1,
    "live": 1,
    "floor": 1,
}
"""The present schema of each kind of file or text."""


def require_name(text: str) -> None:
    """Raise UserError for a name that no file can have: asking whether it exists would raise."""
    try:
        os.lstat(text)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise UserError(f"'{text}' cannot be a file: its name is too long") from None


def require_regular(path: Path, largest: int | None = None) -> int:
    """Return the size of a regular file; raise UserError for anything else, before it is opened.

    A pipe would hang, and a device such as /dev/zero never ends. `largest` limits the size.
    """
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from None
    if stat.S_ISDIR(found.st_mode):
        raise UserError(f"cannot read {path}: it is a directory")
    if not stat.S_ISREG(found.st_mode):
        raise UserError(f"cannot read {path}: it is not a regular file")
    if largest is not None and found.st_size > largest:
        raise UserError(
            f"cannot read {path}: it has {found.st_size:.3g} bytes, more than {largest:.3g}"
        )
    return found.st_size


def read_text(path: Path) -> str:
    """Return the content of a regular text file in UTF-8, without a byte order mark."""
    require_regular(path, LARGEST_TEXT)
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError, MemoryError) as error:
        raise UserError(f"cannot read {path}: {error}") from None


class LaterSchema(UserError):
    """A file of a later version, which may hold something else than its keys say here."""


def kind_of(path: Path) -> str:
    """Return the kind of a file by its name; raise KeyError for a name that has no schema."""
    name = path.name.removesuffix(".json")
    kind = "columns" if name.endswith(".columns") else name
    kind = "watchdog" if kind.startswith("node-") else kind
    return kind if kind in SCHEMAS else _unknown(path)


def _unknown(path: Path) -> str:
    raise KeyError(f"{path.name} has no schema: add its kind to SCHEMAS")


def with_schema(kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with the present schema of its kind in front."""
    return {SCHEMA: SCHEMAS[kind], **_rest(content)}


def without_schema(path: Path, kind: str, content: Any) -> Any:
    """Return what was read from a file without its schema; raise LaterSchema for an unknown one.

    Content that is no table has no schema, and is returned as it is.
    """
    if not isinstance(content, dict) or SCHEMA not in content:
        return content
    number, known = content[SCHEMA], SCHEMAS[kind]
    if type(number) is not int or number < 1:
        shown = repr(number)[:60]
        raise UserError(f"{path} is damaged: its schema must be a whole number > 0, not {shown}")
    if number > known:
        raise LaterSchema(
            f"{path} has schema {number} and is of a later version of mpi-gt: this one reads "
            f"schemas up to {known}"
        )
    return _rest(content)


def _rest(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != SCHEMA}


def read_json(path: Path) -> Any:
    """Return the content of a JSON file of ours, without its schema.

    Raises UserError, which names the file, if it is damaged or of a later version. NaN, Infinity
    and numbers of 300 digits are damage: mpi-gt writes none.
    """
    try:
        content = json.loads(
            read_text(path), parse_constant=_refuse, parse_int=_whole, parse_float=_finite
        )
    except (ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"cannot read {path} as JSON: {error}") from None
    return without_schema(path, kind_of(path), content)


def read_own_table(path: Path) -> dict[str, Any]:
    """Return the table in a JSON file that processes leave for each other; empty if damaged."""
    try:
        content = json.loads(read_text(path))
    except (UserError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def json_text(kind: str, content: Mapping[str, Any]) -> str:
    """Return content as JSON with the schema of its kind, for a file or for standard output."""
    return json.dumps(with_schema(kind, content), indent=2, allow_nan=False)


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text[:20]} is no number, or too large")


def _whole(text: str) -> int:
    return int(text) if len(text) < 300 else _refuse(text)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


@dataclass(frozen=True)
class Kind:
    """A kind of JSON value: its name for messages, and a test."""

    name: str
    fits: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return not isinstance(value, float) or math.isfinite(value)


def _is_usable(value: Any) -> bool:
    return _is_number(value) and abs(value) <= LARGEST_NUMBER


def _is_whole(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


NUMBER = Kind("a number", _is_usable)
POSITIVE = Kind("a number > 0", lambda value: _is_usable(value) and value > 0)
NOT_NEGATIVE = Kind("a number >= 0", lambda value: _is_usable(value) and value >= 0)
WHOLE = Kind("a whole number", _is_whole)
COUNT = Kind("a whole number >= 0", lambda value: _is_whole(value) and value >= 0)
SOME = Kind("a whole number > 0", lambda value: _is_whole(value) and value > 0)
TEXT = Kind("text", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
TABLE = Kind("a table", lambda value: isinstance(value, dict))
LIST = Kind("a list", lambda value: isinstance(value, list))


@dataclass(frozen=True)
class OrNone:
    """A value of that kind, or null."""

    kind: Any


@dataclass(frozen=True)
class Record:
    """A table that has all of these keys, each with a value of its kind."""

    kinds: Mapping[str, Any]


@dataclass(frozen=True)
class Each:
    """A list, or with `named` a table, whose values are all of that kind."""

    kind: Any
    named: bool = False


def mistake(value: Any, kind: Any, place: str = "") -> str:
    """Return what is wrong with a value, beginning with its place in the file; "" if it is right.

    `kind` is a Kind, an OrNone, an Each, a Record, or a table of them by key. A key that the table
    does not name may have any value; only a Record asks for its keys.
    """
    if isinstance(kind, OrNone):
        return "" if value is None else mistake(value, kind.kind, place)
    if isinstance(kind, Kind):
        return "" if kind.fits(value) else f"{_name(place)} must be {kind.name}, not {shown(value)}"
    if isinstance(kind, Record):
        lacks = next(
            (key for key in kind.kinds if isinstance(value, dict) and key not in value), ""
        )
        return f"{_name(place)} has no {lacks}" if lacks else mistake(value, kind.kinds, place)
    inner: Iterable[tuple[Any, Any, str]]
    if isinstance(kind, Each) and not kind.named:
        if wrong := mistake(value, LIST, place):
            return wrong
        inner = ((each, kind.kind, f"{place}[{index}]") for index, each in enumerate(value))
    else:
        if wrong := mistake(value, TABLE, place):
            return wrong
        kinds = dict.fromkeys(value, kind.kind) if isinstance(kind, Each) else kind
        inner = (
            (value[key], kinds[key], f"{place}.{key}".lstrip(".")) for key in kinds if key in value
        )
    return next(filter(None, (mistake(*each) for each in inner)), "")


def shown(value: Any) -> str:
    """Return a JSON value as short text for a message."""
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):  # a whole number of more than 4300 digits
        text = type(value).__name__
    return text if len(text) <= 60 else f"{text[:60]}..."


def _name(place: str) -> str:
    return place or "it"


def read_table(
    path: Path, kinds: Mapping[str, Any], required: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the table in a JSON file of ours, after checking its keys and the kinds of its values.

    `required` are keys that must be there, as in "config.iterations". Raises UserError, which names
    the file and the key.
    """
    content = read_json(path)
    if wrong := mistake(content, kinds) or missing(content, required):
        raise UserError(f"{path} is damaged, or not a file of mpi-gt: {wrong}")
    table: dict[str, Any] = content
    return table


def missing(content: Any, required: Iterable[str]) -> str:
    """Return the first of the keys that the content lacks, as "it has no KEY"; "" if it has all."""
    for name in required:
        value = content
        for key in name.split("."):
            if not isinstance(value, dict) or key not in value:
                return f"it has no {name}"
            value = value[key]
    return ""


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Return the table in a TOML text; `name` is the file's, for messages."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name} is not valid TOML: {error}") from None
