"""Objects among the options of a run: the texts that stand for them, and the files behind these."""

import contextlib
import dataclasses
import hashlib
import io
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..algorithms import ALGORITHMS
from ..errors import StorageError, UserError
from ..graphs.files import edge_list, is_graph
from ..problems import PROBLEMS
from ..rundir.atomic import write_atomic
from ..rundir.layout import INPUTS, require_free
from ..rundir.lock import require_unclaimed
from .sources import cell_source, file_name, module_of

REGISTRIES: dict[str, Mapping[str, Any]] = {"algorithm": ALGORITHMS, "problem": PROBLEMS}


class Translation:
    """The options of one run as texts.

    `folder` is where the files of its arrays, its graph and its notebook's classes are to be.
    `objects` holds what a run in this process uses by the texts instead of importing it.
    `travels`: ranks of another process have to understand the texts by themselves.
    """

    def __init__(self, options: Mapping[str, Any], folder: Path, travels: bool) -> None:
        self.objects: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}
        self._folder = folder
        self._travels = travels
        if options.get("algorithm") is not None and options.get("algorithms") is not None:
            raise UserError("algorithm and algorithms are both given: one of them is enough")
        self.options = {name: self._text(name, value) for name, value in options.items()}

    def _text(self, name: str, value: Any) -> Any:
        if isinstance(value, str) or value is None:
            return value
        if name in REGISTRIES:
            return self._specification(name, value)
        if name == "over" and isinstance(value, Mapping):
            return {axis: self._axis(axis, values) for axis, values in value.items()}
        if name == "algorithms" and isinstance(value, Sequence):
            return ",".join(self._specification("algorithm", each) for each in value)
        if name == "graph" and is_graph(value):
            return self._file(name, "edges", edge_list(value).encode())
        if name == "graph" and is_pair(value):
            return _with_options(name, str(value[0]), value[1])
        if name in ("weights", "x1") and (isinstance(value, Sequence) or _is_array(value)):
            return self._file(name, "npy", _npy(name, value))
        return value

    def _axis(self, name: Any, values: Any) -> Any:
        """Return the values of an axis of a sweep, with texts for the objects in a list."""
        if isinstance(values, str) or not isinstance(values, list | tuple):
            return values
        kind = "algorithm" if name == "algorithms" else name
        return [self._text(kind, value) for value in values]

    def _specification(self, kind: str, value: Any) -> str:
        """Return the specification of an algorithm or a problem: a class, an instance or a pair."""
        if isinstance(value, str):
            return value
        if is_pair(value):
            name = value[0] if isinstance(value[0], str) else self._class_name(kind, value[0])
            return _with_options(f"{kind} {name}", name, value[1])
        if isinstance(value, type):
            return self._class_name(kind, value)
        if kind == "problem":
            raise UserError(
                "a problem is made on each node: pass its class, or (class, {option: value}), not "
                f"{value!r:.100}"
            )
        if not callable(getattr(value, "step", None)):
            raise UserError(f"algorithm must be a name, a class or an instance, not {value!r:.100}")
        return self._instance(value)

    def _instance(self, value: Any) -> str:
        """Return the specification of an algorithm's instance, with the options it differs by."""
        name = self._class_name("algorithm", type(value))
        if dataclasses.is_dataclass(value):
            changed = {
                field.name: getattr(value, field.name)
                for field in dataclasses.fields(value)
                if field.init and not _is_default(field, getattr(value, field.name))
            }
            if all(_as_text(each) is not None for each in changed.values()) or self._travels:
                return _with_options(f"algorithm {name}", name, changed)
        elif self._travels:
            raise UserError(
                f"an object of {name} is no dataclass, so that its options cannot be told: pass "
                "the class, or (class, {option: value})"
            )
        text = f"{name}:object={len(self.objects)}"
        self.objects[text] = value
        return text

    def _class_name(self, kind: str, value: Any) -> str:
        if not isinstance(value, type):
            raise UserError(f"{kind} must be a name or a class, not {value!r:.100}")
        for name, registered in REGISTRIES[kind].items():
            if registered is value:
                return name
        text = f"{self._module(value)}:{value.__name__}"
        if self.objects.setdefault(text, value) is not value:  # two classes of the same name
            text += f"-{len(self.objects)}"
            self.objects[text] = value
        return text

    def _module(self, value: type) -> str:
        if self._travels:
            source = cell_source(value)
            if source is None:
                return module_of(value)
            return file_name(Path(self._file(value.__name__, "py", source.encode())))
        try:
            return module_of(value)
        except UserError:  # this process has the class itself
            return value.__module__

    def _file(self, name: str, suffix: str, content: bytes) -> str:
        """Return the path of a file with this content, which `write_files` will write."""
        file = f"{name}-{hashlib.sha256(content).hexdigest()[:8]}.{suffix}"
        self.files[file] = content
        return str(self._folder / file)


class Inputs:
    """The files of a translation on the disk, until the run is over or beyond.

    A run directory keeps them, so that the run can be resumed; without one they are temporary.
    """

    def __init__(self, options: Mapping[str, Any], travels: bool) -> None:
        out = options.get("out")
        self._temporary = None
        if out is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="mpi-gt-inputs-")
            self._folder = Path(self._temporary.name)
        else:
            self._folder = Path(out, INPUTS)
        translation = Translation(options, self._folder, travels)
        self.options, self.objects = translation.options, translation.objects
        self.names = [str(self._folder / name) for name in translation.files]
        self._made: list[Path] = []
        if translation.files and out is not None:
            self._require_free(Path(out))
            # the directory is there before the run begins, and the run must not mind
            self.options["reserved"] = not options.get("resume", False)
        try:
            self._write(translation.files)
        except (OSError, StorageError) as error:
            self.undo()
            raise UserError(f"cannot write to {self._folder}: {error}") from None

    def _require_free(self, out: Path) -> None:
        may_exist = any(self.options.get(name) for name in ("overwrite", "resume", "reserved"))
        require_unclaimed(out)
        require_free(out, may_exist)

    def _write(self, files: Mapping[str, bytes]) -> None:
        if files:
            folders = (self._folder, *self._folder.parents)
            self._made = [folder for folder in folders if not folder.exists()]
            self._folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            if not (self._folder / name).exists():  # else it is the same, by its name
                self._made.insert(0, self._folder / name)
                write_atomic(self._folder / name, [content])

    def named(self, error: UserError) -> UserError:
        """Return the error with the names of options for those of files that are no more."""
        text = str(error)
        for path in self._made:
            if path.suffix in (".npy", ".edges"):
                text = text.replace(str(path), path.name.partition("-")[0])
        return UserError(text)

    def undo(self) -> None:
        """Remove the files and folders that were made: the run has not begun."""
        for path in self._made:
            with contextlib.suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        self.close()

    def close(self) -> None:
        """Remove temporary files."""
        if self._temporary is not None:
            self._temporary.cleanup()


def is_pair(value: Any) -> bool:
    """Return whether a value is a pair (name or class, {option: value})."""
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Mapping)


def _is_default(field: "dataclasses.Field[Any]", value: Any) -> bool:
    default = field.default
    return (
        type(default) is type(value) and isinstance(value, str | int | float) and default == value
    )


def _with_options(what: str, name: str, options: Mapping[str, Any]) -> str:
    """Return the specification of `name` with these options."""
    texts = []
    for key, value in options.items():
        text = _as_text(value)
        if text is None:
            raise UserError(
                f"{what}: option {key} must be a number, true or false, or a text without commas, "
                f"not {value!r:.100}"
            )
        texts.append(f"{key}={text}")
    return f"{name}:{','.join(texts)}" if texts else name


def _as_text(value: Any) -> str | None:
    """Return the text of an option's value that is read back as the same; None if there is none."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return repr(float(value))
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    plain = isinstance(value, str) and value == value.strip() != "" and value.isprintable()
    return value if plain and "," not in value else None


def _is_array(value: Any) -> bool:
    """Return whether numpy makes an array of the value: a table of pandas is one, a number none."""
    return hasattr(value, "__array__") and not isinstance(value, np.generic)


def _npy(name: str, value: Any) -> bytes:
    """Return an array of real numbers as the content of a .npy file."""
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty(0, object)
    if np.ma.is_masked(value):
        raise UserError(f"{name} has masked entries: every entry must be a number")
    if array.dtype.kind not in "iuf":
        raise UserError(f"{name} must be an array of real numbers, not of {array.dtype}")
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()
