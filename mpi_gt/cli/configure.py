"""Turn the options of a command line into checked `RunConfig` and `Study` objects."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ..spec import convert, has_option, split, split_list

if TYPE_CHECKING:
    from ..config import RunConfig
    from ..reproduce.study import Study


def make_config(
    command: str,
    options: Mapping[str, Any],
    several: bool = False,
    sweeps: bool = False,
    fixed: Mapping[str, Any] | None = None,
) -> "RunConfig | int":
    """Return the configuration of a run: defaults, then the TOML file, then the flags.

    `several`: the command takes `algorithms`, not `algorithm`; `sweeps`: it takes stepsizes;
    `fixed`: options that it sets itself. Where --resume finds a finished run, return exit code 0.
    """
    from ..channels.methods import methods_for
    from ..config import RunConfig
    from ..engine.resume import continued_config

    chosen = {**read_with_file(options), **(fixed or {})}
    if several:
        channel = split(f"channel:{chosen.get('channel') or ''}")[1]
        chosen.setdefault("algorithms", methods_for(channel))
    if sweeps:
        chosen.setdefault("lr", "1e-4..1")
    elif chosen.get("lr") is not None or chosen.get("points") is not None:
        raise UserError(f"{command} takes no lr or points: use mpi-gt sweep")
    if not several and chosen.get("algorithms") is not None:
        raise UserError(f"{command} takes one algorithm: use mpi-gt compare for several")
    if several and "algorithm" in chosen:
        raise UserError(f"{command} takes algorithms, not algorithm")
    config = RunConfig.of(chosen)
    if config.resume and (config.out is None or config.overwrite):
        raise UserError("--resume needs --out, and takes no --overwrite")
    if config.out is None:
        return replace(config, out=str(reserve_directory(config)), reserved=True)
    if not config.out:
        raise UserError("--out needs the name of a directory")
    return unless_finished(config.out, continued_config(config)) if config.resume else config


def read_with_file(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the TOML file, if one is named, and of the flags, which win."""
    from ..config import read_toml

    flags = dict(options)
    file = flags.pop("file", None)
    return {**({} if file is None else read_toml(Path(file))), **convert_flags(flags)}


def unless_finished(directory: str, config: "RunConfig | None") -> "RunConfig | int":
    """Return the configuration; print that the run is finished and return 0 where it is None."""
    if config is not None:
        return config
    from ..rundir.host_folder import clean_up

    clean_up(Path(directory))
    print(f"{directory} is finished; give --iterations a larger number to extend it")
    return 0


def convert_flags(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run with their flags' text converted to the types of RunConfig."""
    from ..config import RunConfig

    kinds = {field.name: field.type for field in fields(RunConfig)}
    converted = {}
    for name, value in options.items():
        flag = "-n" if name == "n" else "--" + name.replace("_", "-")
        converted[name] = value if value is True else convert(flag, kinds[name], value)
    return converted


def make_studies(options: Mapping[str, Any]) -> "list[Study]":
    """Return the experiments that `reproduce` was asked for, all checked before any begins."""
    from ..reproduce.study import OF_THE_PAPER, has_variant, make_study

    flags = dict(options)
    name, variant = flags.pop("experiment"), flags.pop("variant", "literal")
    quick, overwrite = flags.pop("quick", False), flags.pop("overwrite", False)
    tuned = flags.pop("tuned", False)
    out = flags.pop("out", None)
    flags.pop("quiet", None)
    if flags.pop("resume", False):
        raise UserError("reproduce continues by itself where it stopped: it takes no --resume")
    overrides = convert_flags(flags)
    names = (
        [each for each in OF_THE_PAPER if has_variant(each, variant)] if name == "all" else [name]
    )
    if not names:
        raise UserError(f"no experiment has a variant '{variant}'")
    studies = [
        make_study(
            each,
            variant,
            quick,
            overrides,
            str(Path(out, each)) if out and name == "all" else out,
            tuned,
        )
        for each in names
    ]
    for study in studies:
        if not overwrite:
            study.pending()  # raises where other files are in the way
    return [replace(study, overwrite=overwrite) for study in studies]


def reserve_directory(config: "RunConfig") -> Path:
    """Make runs/<time>-<problem>-<algorithm> for a run and return it."""
    from ..rundir.layout import reserve

    problem, *_ = config.parse_problem()
    what = config.entries()[0].label if config.algorithms is None else "compare"
    return reserve(f"{problem}-{what if config.lr is None else 'sweep'}")


def make_directory(path: Path) -> None:
    """Make a directory to write to, if it is not there; raise UserError where that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {path}: {error.strerror}") from None


def release_reserved_directory(config: "RunConfig") -> None:
    """Remove the directory that was made for this run, if nothing was written to it."""
    from ..rundir.layout import release_reserved

    if config.reserved and config.out:
        release_reserved(Path(config.out))


def spec_hint(flag: str, value: str, options: Mapping[str, Any], known: Sequence[str]) -> str:
    """Return where a flag belongs that is an option of an algorithm, problem or graph; else "".

    `known` are the flags that the command takes, `options` those that it was given.
    """
    from ..algorithms import ALGORITHMS
    from ..graphs import FAMILIES
    from ..problems import PROBLEMS

    given = dict(options)
    with contextlib.suppress(UserError, KeyError):  # not all commands take a file
        given = read_with_file(options)
    key = flag.removeprefix("--").replace("-", "_")
    kinds: tuple[tuple[str, Mapping[str, Any], str], ...] = (
        ("algorithm", ALGORITHMS, "gt-adaptive"),
        ("problem", PROBLEMS, "huber"),
        ("graph", FAMILIES, "er"),
    )
    for kind, registry, default in kinds:
        for option in (kind, f"{kind}s"):
            if f"--{option}" not in known:
                continue
            chosen = [_name_of(spec) for spec in split_list(given.get(option) or default)]
            for name in [*chosen, *registry]:
                if _takes(kind, registry, name, key):
                    spec = f"--{option} {name}:{key}={value}"
                    return f"; {key} is an option of the {kind} {name}: {spec}"
    return ""


def _name_of(spec: str) -> str:
    """Return a specification without its options."""
    from ..user_classes import is_custom

    return ":".join(spec.split(":")[: 2 if is_custom(spec) else 1])


def _takes(kind: str, registry: Mapping[str, Any], name: str, key: str) -> bool:
    """Return whether the algorithm, problem or graph of that name has that option."""
    from ..user_classes import is_custom, resolve

    if name in registry:
        return has_option(registry[name], key)
    if is_custom(name) and kind != "graph":
        with contextlib.suppress(UserError):
            return has_option(resolve(kind, registry, name)[1], key)
    return False
