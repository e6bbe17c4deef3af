"""Options of a run with every default spelled out, for run.json and for the columns of tables."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from ..algorithms import ALGORITHMS
from ..config import Entry, RunConfig
from ..graphs import FAMILIES, split_turns
from ..spec import convert_options, options_of, split
from ..user_classes import is_custom, resolve, without_file

Options = dict[str, Any]


def spelled_options(config: RunConfig, problem_facts: Mapping[str, Any] | None = None) -> Options:
    """Return name and options of the problem, the graph, and each algorithm by its label.

    An option whose default depends on others (None) is taken from `problem_facts` where these
    have it, such as `dim`.
    """
    name, kind, given = config.parse_problem()
    problem = _with_defaults(kind, given)
    known = problem_facts or {}
    problem.update({key: known[key] for key in problem if problem[key] is None and key in known})
    custom = is_custom(config.problem)
    return {
        "problem": {"name": spec_name(config.problem) if custom else name, "options": problem},
        "graph": _graph(config),
        "algorithm": {
            entry.label: {"name": spec_name(entry.method), "options": _algorithm(entry)}
            for entry in config.entries()
        },
    }


def spec_name(spec: str) -> str:
    """Return a specification without its options: "gt" for "gt:lr=0.1", or "module:Class"."""
    name = ":".join(word.strip() for word in spec.split(":")[: 2 if is_custom(spec) else 1])
    return without_file(name)


def _algorithm(entry: Entry) -> Options:
    algorithm: Any = entry.algorithm
    if dataclasses.is_dataclass(algorithm):
        names = [field.name for field in dataclasses.fields(algorithm) if field.init]
        return {name: _plain(getattr(algorithm, name, None)) for name in names}
    _, kind, given = resolve("algorithm", ALGORITHMS, entry.method)
    swept = {} if entry.lr is None else {"lr": entry.lr}
    return _with_defaults(kind, {**given, **swept})


def _graph(config: RunConfig) -> Options:
    """Return name and options of the graph; a file, networkx or SPEC+SPEC has no known defaults."""
    if config.graph is None and config.weights is not None and "." in config.weights:
        return {"name": config.weights, "options": {}}  # the matrix in the file says it
    text = config.graph or "er"
    name = text.partition(":")[0].strip()
    if len(split_turns(text)) > 1:
        return {"name": text, "options": {}}
    if name in FAMILIES:
        _, options = split(text)
        given = convert_options(f"graph {name}", FAMILIES[name], options)
        return {"name": name, "options": _with_defaults(FAMILIES[name], given)}
    if name.startswith("nx."):
        return {"name": name, "options": dict(split(text)[1])}
    return {"name": text, "options": {}}


def _with_defaults(factory: Callable[..., Any], given: Mapping[str, Any]) -> Options:
    defaults = {key: each.default for key, each in options_of(factory).items()}
    return {key: _plain(value) for key, value in {**defaults, **given}.items()}


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold: of others, their text."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
