"""Cases from the registries: options of algorithms, problems and graphs outside their domains."""

import typing
from collections.abc import Iterator
from typing import Literal

from campaign.case import Case, rotate
from campaign.values import LONG, REAL, WHOLE, malformed, outside, wrong_names

from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.cli.docstrings import option_docs
from mpi_gt.graphs import FAMILIES
from mpi_gt.problems import PROBLEMS
from mpi_gt.spec import options_of

SMALL = ("-n", "4", "--iterations", "5")
USES: dict[str, tuple[tuple[str, ...], ...]] = {
    "algorithm": (
        ("run", "--stacked", *SMALL, "--algorithm="),
        ("compare", "--stacked", *SMALL, "--algorithms="),
        ("sweep", "--stacked", *SMALL, "--points=2", "--algorithms="),
        ("theory", "-n", "4", "--algorithm="),
        ("reproduce", "huber", "--stacked", *SMALL, "--algorithms="),
        ("scale", "-n", "2", "--algorithm="),
        ("profile", "-n", "2", "--algorithm="),
    ),
    "problem": (
        ("run", "--stacked", *SMALL, "--problem="),
        ("compare", "--stacked", *SMALL, "--problem="),
        ("sweep", "--stacked", *SMALL, "--points=2", "--problem="),
        ("theory", "-n", "4", "--problem="),
        ("reproduce", "huber", "--stacked", *SMALL, "--problem="),
    ),
    "graph": (
        ("graph", "-n", "4", "--", ""),
        ("run", "--stacked", *SMALL, "--graph="),
        ("theory", "-n", "4", "--graph="),
        ("predict", "-n", "4", "--latency=1us", "--bandwidth=1GB/s", "--compute=1ms", "--graphs="),
        ("scale", "-n", "4", "--problem=huber", "--graphs="),
        ("compare", "--stacked", *SMALL, "--graph="),
    ),
}
"""Commands, by kind, to whose last word the specification is added."""
REGISTRIES: dict[str, typing.Any] = {
    "algorithm": ALGORITHMS,
    "problem": PROBLEMS,
    "graph": FAMILIES,
}
CLASSIFICATION: dict[str, list[str]] = {
    "data": ["missing.npz", "a\0b.npz", "/dev/zero", "."],
    "libsvm": ["missing", "a\0b", "/dev/zero", "."],
    "dataset": [word for word in wrong_names(["synthetic", "mnist"]) if word],
    "batch": ["1e12", "9" * 25],
    "rows": ["1e12", "9" * 25, "3"],
    "features": ["1e12", "9" * 25],
    "classes": ["1e12", "9" * 25],
    "split_seed": ["9223372036854775808", "9" * 25],
    "split": [
        "x", "IID", "labels", "dirichlet", "dirichlet:", "dirichlet:x", "dirichlet:0",
        "dirichlet:-1", "dirichlet:nan", "dirichlet:inf", "dirichlet:1:2", "é", "\0", "a\nb",
    ],
}  # fmt: skip
"""Bad values of the options that all classification problems have."""
REFERENCES = [
    "x", ":", "x:", ":x", "missing:loss", "missing.py:loss", "a.b.c:loss", ".py:loss", "..:loss",
    "os:1", "json:loads", "numpy:nothing", "a\0b:loss", "é:é", "/dev/zero:loss", "x:y:z", ". :x",
]  # fmt: skip
"""Functions and classes that are none, or none of a model."""
OPEN_ENDED: dict[tuple[str, str], list[str]] = {
    ("huber", "dim"): ["1e12", "1e9", "9" * 25],
    ("huber", "data"): ["missing.npz", "a\0b.npz", "/dev/zero", "."],
    **{
        (name, "compress"): ["x", "QSGD", "qsgdd", "é", "a\0b", "missing_module:Class"]
        for name in ("gt-adaptive-compressed", "beer", "choco-sgd", "lead")
    },
    **{
        (name, option): bad
        for name in ("softmax", "mlp", "jax", "torch")
        for option, bad in CLASSIFICATION.items()
    },
    **{(name, "model"): REFERENCES for name in ("jax", "torch")},
    ("torch", "loss"): REFERENCES,
    ("mlp", "hidden"): ["1e12", "9" * 25],
    ("watts-strogatz", "k"): ["4", "5", "1e12"],
    ("barabasi-albert", "m"): ["4", "0", "1e12"],
    ("random-regular", "d"): ["4", "1e12"],
    ("grid", "rows"): ["3", "5", "1e12"],
    ("torus", "rows"): ["3", "5", "1e12"],
}  # fmt: skip
"""Bad values that neither type nor domain says."""
NETWORKX = (
    "nx.hypercube_graph:n=30", "nx.hypercube_graph:n=1000000000", "nx.balanced_tree:r=10,h=9",
    "nx.full_rary_tree:r=3,n=1000000", "nx.grid_graph:dim=[500,500,500]", "nx.sudoku_graph:n=9",
    "nx.", "nx.x", "nx.ring_grap", "nx._dispatch", "nx.Graph", "nx.path_graph:m=3",
    "nx.path_graph:n=5", "nx.path_graph:n=x", "nx.path_graph:n=-1", "nx.path_graph:n=1e9",
    "nx.DiGraph", "nx.read_edgelist", "nx.gnp_random_graph", "nx.gnp_random_graph:p=x",
    "nx.gnp_random_graph:p=nan", "nx.gnp_random_graph:p=0", "nx.gnp_random_graph:p=0.5,seed=-1",
    "nx.gnp_random_graph:p=0.5,seed=x", "nx.star_graph", "nx.balanced_tree:r=2,h=3",
    "nx.balanced_tree:r=2,h=99", "nx.empty_graph", "nx.circulant_graph:offsets=[1",
    "nx.circulant_graph:offsets=x", "nx.circulant_graph:offsets=[9e9]", "nx.circulant_graph",
    "nx.nx_agraph", "nx.diameter", "nx.config", "nx.é", "nx.a\0b", "nx.a\nb", "nx.null_graph",
    "nx.trivial_graph", "nx.complete_graph:n=[1]", "nx.from_numpy_array", "nx.scale_free_graph",
    "nx.random_tree", "nx.grid_2d_graph:m=2,n=3", "nx.random_regular_graph:d=3.5",
    "nx.windmill_graph:n=2,k=-1", f"nx.{LONG}", "nx.read_gml:path=/dev/zero",
    "nx.path_graph:n={[], 1}", "nx.read_edgelist:path=/dev/zero", "nx.path_graph:n=" + "(" * 150,
    "ring+nx.read_gml:path=x",
)  # fmt: skip
HUGE_GRAPHS = (
    "hypercube",
    "grid:rows=3",
    "torus:rows=3",
    "random-regular:d=5",
    "watts-strogatz:k=8",
)


def values_of(factory: typing.Any, name: str, option: str) -> list[str]:
    """Return bad values of an option of something registered, from its type and its domain."""
    parameter = options_of(factory)[option]
    kinds = typing.get_args(parameter.annotation) or (parameter.annotation,)
    domain = next(doc.domain for doc in option_docs(factory) if doc.name == option)
    own = OPEN_ENDED.get((name, option), [])
    if typing.get_origin(parameter.annotation) is Literal:
        return [*rotate(wrong_names(kinds), 8, f"{name} {option}"), *own]
    if int in kinds:
        whole = [value for value in WHOLE if value != "5\n" and (value, option) != ("1e99", "seed")]
        return [*rotate(whole, 6, f"{name} {option}"), *outside(domain), *own]
    if float in kinds:
        return [*rotate(REAL, 6, f"{name} {option}"), "nan", "inf", *outside(domain), *own]
    if not own:
        raise LookupError(f"the campaign knows no bad value for {option} of {name}")
    return own


def cases() -> Iterator[Case]:
    """Yield a case for each bad value; the commands that take a kind take turns."""
    number = 0
    for kind, registry in REGISTRIES.items():
        for name, factory in registry.items():
            for option in options_of(factory):
                for value in dict.fromkeys(values_of(factory, name, option)):
                    number += 1
                    yield _case(kind, f"{name}:{option}={value}", number)
            option = next(iter(options_of(factory)), "rows")
            for spec in rotate(malformed(name, option), 6, name):
                number += 1
                yield _case(kind, spec, number)
    for spec in NETWORKX:
        number += 1
        yield _case("graph", spec, number)
    for number, spec in enumerate(HUGE_GRAPHS):
        yield Case("spec", ("graph", spec, "-n", str((7, 20, 20, 4, 4)[number])))
    for word in ("er:p=1e-9", "er:p=0.001,seed=3"):  # never connected
        yield Case("spec", ("graph", word, "-n", "200"))


def _case(kind: str, spec: str, number: int) -> Case:
    uses = USES[kind]
    *words, last = uses[number % len(uses)]
    return Case("spec", (*words, last + spec))
