"""Options of a command that are for the launcher of its ranks, not for the run."""

import fnmatch
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UserError
from ..spec import nearest

LAUNCHERS = ("mpirun", "mpiexec", "srun")
NAMES = ("launcher", "launcher_args", "hostfile", "export")
"""The names of these options in Python."""

SENT = (
    "MPI_GT_",
    "PYTHONPATH",
    "XDG_CACHE_HOME",
    "OMP_NUM_THREADS",
    "OPENBLAS_",
    "MKL_",
    "BLIS_",
    "NPY_",
    "GLIBC_TUNABLES",
    "UCX_",
    "FI_",
    "XLA_FLAGS",
    "ATEN_CPU_CAPABILITY",
)
"""Variables that ranks on other hosts need, by their names or the beginnings of these.

Those of the BLAS, numpy and glibc choose functions by the processor: with other ones on some hosts
the last digits would depend on which rank is where.
"""

NAMING_HOSTS = ("host", "hosts", "H", "hostfile", "default-hostfile", "machinefile", "f")
"""Options of launchers, without their dashes, that say on which hosts the ranks are to run."""

EXPORTED = re.compile(r"[A-Za-z_]\w*(=.*|\*?)", re.ASCII)


class LaunchOptions(NamedTuple):
    """The launcher that the user wants, with its own options, the hosts and variables to send."""

    hostfile: str | None = None
    words: tuple[str, ...] = ()  # more options, as the launcher spells them
    launcher: str | None = None  # None: mpirun, or what this machine has in its place
    export: tuple[str, ...] = ()  # NAME, NAME=VALUE, or the beginning of names with a star

    @classmethod
    def of(cls, options: "dict[str, Any]") -> "LaunchOptions":
        """Take these options out of those of a command; raise UserError for a wrong one."""
        launcher, text, hostfile, export = (options.pop(name, None) for name in NAMES)
        return cls(
            hostfile, split_words(text or ""), parse_launcher(launcher), parse_export(export or "")
        )

    def arguments(self) -> list[str]:
        """Return these options as the words of a command line."""
        given = {
            "--launcher": self.launcher,
            "--launcher-args": shlex.join(self.words) or None,
            "--hostfile": self.hostfile,
            "--export": ",".join(self.export) or None,
        }
        return [f"{flag}={value}" for flag, value in given.items() if value is not None]

    @property
    def flag(self) -> str | None:
        """The option that was given; None without one."""
        return next((word.partition("=")[0] for word in self.arguments()), None)

    @property
    def names_hosts(self) -> bool:
        """True: the launcher's own options name hosts, as in --host h1:4,h2:4."""
        return not flags_in(self.words).isdisjoint(NAMING_HOSTS)

    def assigned(self) -> dict[str, str]:
        """Return the variables that --export sets."""
        pairs = (each.partition("=") for each in self.export)
        return {name: value for name, equals, value in pairs if equals}

    def sent(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return the names of the variables that ranks on other hosts are to get.

        Raises UserError for a name that is not set.
        """
        names = {name for name in env if name.startswith(SENT)}
        for item in self.export:
            found = fnmatch.filter(env, item.partition("=")[0])
            if not found:
                raise UserError(f"--export: no variable {item} is set here")
            names.update(found)
        return tuple(sorted(names))


NO_OPTIONS = LaunchOptions()


def launch_options(given: "dict[str, Any]") -> LaunchOptions:
    """Take these options out of those of a Python function, where lists may stand for text."""
    texts = {}
    former_name = given.pop("mpirun_args", None)
    given["launcher_args"] = given.get("launcher_args") or former_name
    for name in NAMES:
        value = given.pop(name, None)
        if value is None or isinstance(value, str):
            texts[name] = value
        elif name == "launcher_args":
            texts[name] = shlex.join(value)
        elif name == "export" and not isinstance(value, os.PathLike):
            texts[name] = ",".join(value)
        else:
            texts[name] = os.fspath(value)
    return LaunchOptions.of(texts)


def flags_in(words: Iterable[str]) -> set[str]:
    """Return the names of the options among these words, which may have one dash or two."""
    return {word.lstrip("-").partition("=")[0] for word in words if word[:1] == "-"}


def split_words(text: str) -> tuple[str, ...]:
    """Split the options of a launcher as a shell does."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UserError(f"--launcher-args: {error} in '{text}'") from None


def parse_launcher(text: str | None) -> str | None:
    """Return a launcher: one of the known names, or the path of a program."""
    if text is None or text in LAUNCHERS:
        return text
    if "/" not in text:
        raise UserError(
            f"unknown launcher '{text}'{nearest(text, LAUNCHERS)}; a path names another program"
        )
    if not Path(text).is_file():
        raise UserError(f"--launcher: there is no program {text}")
    return text


def parse_export(text: str | Iterable[str]) -> tuple[str, ...]:
    """Parse NAME,NAME=VALUE,BEGINNING*: the variables that ranks on other hosts are to get."""
    items = text.split(",") if isinstance(text, str) else text
    found = tuple(each.strip() for each in items if each.strip())
    for item in found:
        if not EXPORTED.fullmatch(item):
            raise UserError(
                f"--export takes names of variables, as in LD_LIBRARY_PATH,FOO=1,MY_*, not '{item}'"
            )
    return found
