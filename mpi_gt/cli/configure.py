"""What was asked for on the command line, as configurations that are checked."""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import RunConfig
from ..errors import UserError
from ..rundir.layout import reserve
from ..spec import convert, nearest
from .parser import HIDDEN, build_parser

if TYPE_CHECKING:
    from ..config import RunConfig
    from ..reproduce.study import Study


def parse(arguments: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The command and its options, still as text."""
    parser, commands = build_parser()
    arguments, words = list(arguments), None
    if arguments[:1] == ["submit"] and "--" in arguments:  # behind it, another command
        where = arguments.index("--")
        arguments, words = arguments[:where], arguments[where + 1 :]
    namespace, unknown = parser.parse_known_args(arguments)
    given = vars(namespace)
    command = given.pop("command")
    if unknown:
        known = [
            option for option in commands[command]._option_string_actions if option not in HIDDEN
        ]
        word = unknown[0].partition("=")[0]
        raise UserError(f"{command} does not take '{unknown[0]}'{nearest(word, known)}")
    return command, given if command != "submit" else {"words": words or [], **given}


def make_config(command: str, given: dict[str, Any], ranks: int | None = None) -> "RunConfig | int":
    """The configuration of a run or comparison: defaults, then the file, then the flags.

    Or the exit code, where the run that is to go on is finished. `ranks` are those of MPI, if any.
    """
    from ..algorithms import ALGORITHMS
    from ..config import RunConfig, read_toml
    from ..engine.resume import continued_config

    if command == "resume":
        return _go_on(given, ranks)
    file = given.pop("file", None)
    options: dict[str, Any] = {} if file is None else read_toml(Path(file))
    options.update(convert_flags(given))
    if command == "profile":
        options["profile"] = True
    if command in ("compare", "sweep"):
        options.setdefault("algorithms", ",".join(ALGORITHMS))
    if command == "sweep":
        options.setdefault("lr", "1e-4..1")
    elif options.get("lr") is not None or options.get("points") is not None:
        raise UserError(f"{command} takes no lr or points; for these there is mpi-gt sweep")
    single = command in ("run", "profile")
    if single and options.get("algorithms") is not None:
        raise UserError(f"{command} takes one algorithm; for several there is mpi-gt compare")
    if not single and "algorithm" in options:
        raise UserError(f"{command} takes algorithms, not algorithm")
    config = RunConfig.of(options)
    if config.resume and (config.out is None or config.overwrite):
        raise UserError("--resume needs --out, and takes no --overwrite")
    if config.out is None:
        return replace(config, out=str(reserve_directory(config)), reserved=True)
    if not config.out:
        raise UserError("--out needs the name of a directory")
    return _unless_finished(config.out, continued_config(config)) if config.resume else config


def _go_on(given: dict[str, Any], ranks: int | None) -> "RunConfig | int":
    from ..engine.resume import config_of_run

    flags = dict(given)
    directory = flags.pop("directory")
    return _unless_finished(directory, config_of_run(Path(directory), convert_flags(flags), ranks))


def _unless_finished(directory: str, config: "RunConfig | None") -> "RunConfig | int":
    if config is not None:
        return config
    print(f"{directory} is finished; `--iterations` with more of them extends it")
    return 0


def convert_flags(given: dict[str, Any]) -> dict[str, Any]:
    """The options of a run from its flags, converted to their types."""
    from ..config import RunConfig

    kinds = {field.name: field.type for field in fields(RunConfig)}
    options = {}
    for name, value in given.items():
        flag = "-n" if name == "n" else "--" + name.replace("_", "-")
        options[name] = value if value is True else convert(flag, kinds[name], value)
    return options


def make_studies(given: dict[str, Any]) -> "list[Study]":
    """The experiments that `reproduce` was asked for, all of them checked before any begins."""
    from ..reproduce.study import EXPERIMENTS, has_variant, make_study, remove_study

    flags = dict(given)
    name, variant = flags.pop("experiment"), flags.pop("variant", "literal")
    quick, overwrite = flags.pop("quick", False), flags.pop("overwrite", False)
    out = flags.pop("out", None)
    flags.pop("quiet", None)
    overrides = convert_flags(flags)
    names = (
        [each for each in EXPERIMENTS if has_variant(each, variant)] if name == "all" else [name]
    )
    if not names:
        raise UserError(f"no experiment has a variant '{variant}'")
    studies = [
        make_study(
            each, variant, quick, overrides, str(Path(out, each)) if out and name == "all" else out
        )
        for each in names
    ]
    for study in studies:
        if not overwrite:
            study.pending()  # finds what is in the way
    for study in studies:
        if overwrite:
            remove_study(study)
    return studies


def reserve_directory(config: RunConfig) -> Path:
    """runs/<time>-<problem>-<algorithm>, made now."""
    problem, *_ = config.parse_problem()
    what = config.entries()[0].label if config.algorithms is None else "compare"
    return reserve(f"{problem}-{what if config.lr is None else 'sweep'}")
