"""Users' modules that fail: at import, in a constructor, or in a method that is tried first."""

from collections.abc import Iterator, Sequence

from campaign.case import Case
from campaign.values import LONG

PROPERTY = "@property\n    def {name}(self):\n        {code}\n"
ALGORITHM = """
from typing import Any, NamedTuple
import sys, os
import numpy as np


class State(NamedTuple):
    x: Any


class Own:
    {body}

    def __init__(self, lr: float = 0.1) -> None:
        {constructor}

    def init(self, x, grad):
        {init}
        return State(x)

    def step(self, t, state, mix, grad):
        {step}
        (ax,) = mix(state.x)
        x = ax.wait() - 0.01 * grad(state.x)
        return State(x)
"""
PROBLEM = """
import sys, os
import numpy as np


class Own:
    {body}

    def __init__(self, place, *, size: int = 3) -> None:
        self.dim = {dim}
        {constructor}

    def gradient(self, t, x):
        {gradient}
        return x.copy()

    def evaluate(self, x):
        {evaluate}
        return (x * x).sum(axis=-1) / 2, x.copy()
"""
FAILURES = {
    "raise": "raise RuntimeError('a user mistake')",
    "newline": "raise RuntimeError('first line\\nsecond line')",
    "exit": "sys.exit(0)",
    "exit3": "sys.exit(3)",
    "exit-text": "sys.exit('bye')",
    "stop": "raise StopIteration",
    "generator": "raise GeneratorExit",
    "memory": "raise MemoryError",
    "recursion": "(lambda f: f(f))(lambda f: f(f))",
    "assert": "assert False",
    "zero": "1 // 0",
    "group": "raise ExceptionGroup('several', [ValueError('a')])",
    "silent": "raise Exception",
    "unprintable": "raise type('E', (Exception,), {'__str__': lambda self: 1 // 0})()",
    "broken-pipe": "raise BrokenPipeError('mine')",
    "io": "open('/nowhere/at/all')",
}
IMPORTS = {
    **{f"import-{name}": f"import sys\n{code}\n" for name, code in FAILURES.items()},
    "import-syntax": "class Own(:\n",
    "import-tabs": "if True:\n\tx = 1\n        y = 2\n",
    "import-missing": "import a_module_that_nobody_has\n",
    "import-bytes": "# \udcff\n",
    "import-itself": "from imports_import_itself import Own\n",
    "import-empty": "",
    "import-null": "x = '\0'\n",
    "import-other": "Own = 3\n",
    "import-function": "def Own(): ...\n",
    "import-bare": "class Own: ...\n",
    "import-abstract": (
        "from mpi_gt.problems import Problem\n"
        "class Own(Problem):\n    def gradient(self, t, x): ...\n"
    ),
}
RETURNS = {
    "none": "return None",
    "number": "return 3.0",
    "text": "return 'x'",
    "list": "return [[0.0] * 3]",
    "flat": "return np.zeros(3)",
    "complex": "return x + 1j",
    "objects": "return x.astype(object)",
    "words": "return x.astype(str)",
    "single": "return x.astype(np.float16)",
    "wide": "return np.zeros((1, 4))",
}
EVALUATES = {
    **RETURNS,
    "three": "return x, x, x",
    "swapped": "return x, x.sum(axis=-1)",
    "complex-loss": "return (x * x).sum(axis=-1) + 1j, x",
    "object-loss": "return (x * x).sum(axis=-1).astype(object), x",
    "word-loss": "return (x * x).sum(axis=-1).astype(str), x",
    "writes": "x += 1\n        return x.sum(axis=-1), x",
}
STEPS = {
    "not-waited": "mix(state.x)",
    "writes": "state.x[:] = 0",
    "mix-nothing": "mix()",
    "mix-text": "mix('x')",
    "mix-wide": "mix(np.zeros((1, 99)))",
    "none": "return None",
    "tuple": "return (state.x,)",
    "shape": "return State(np.zeros(2))",
    "dtype": "return State(state.x.astype(np.float32))",
}
DIMS = ("-1", "0", "True", "2.5", "'3'", "None", "10**12", "10**30", "float('nan')", "[3]")
FACTS = ("None", "[1]", "3", "{'a': object()}", "{1: 2}", "{'x': float('nan')}", "{'a': {1, 2}}")
PARTS = ("3", "[]", "[1]", "(i for i in range(4))", "'abcd'", "{}", "range(3)")
METHOD_ATTRIBUTES = ("every", "kinds", "graph", "tracks", "needs_full", "varies", "phase")
PROBLEM_ATTRIBUTES = (
    "dim", "exact", "batch", "rows", "accuracy", "test_score", "metrics", "least_value", "facts"
)  # fmt: skip
PASS = {"constructor": "pass", "init": "pass", "step": "pass", "body": "pass"}
PROBLEM_PASS = {
    "constructor": "pass", "gradient": "pass", "evaluate": "pass", "dim": "size", "body": "pass"
}  # fmt: skip


def _attributes(names: Sequence[str], value: str) -> Iterator[tuple[str, str]]:
    """Yield properties that fail, and attributes that are of no use."""
    for name in names:
        for failure in ("raise", "exit"):
            yield f"{name}-{failure}", PROPERTY.format(name=name, code=FAILURES[failure])
        if name not in ("dim", "batch", "rows"):  # set by the constructor; may mean anything
            yield f"{name}-value", f"{name} = {value}"


def _algorithms() -> dict[str, str]:
    made = {}
    for where in ("constructor", "init", "step"):
        for name, code in FAILURES.items():
            made[f"{where}-{name}"] = ALGORITHM.format(**{**PASS, where: code})
    for name, code in STEPS.items():
        made[f"step-{name}"] = ALGORITHM.format(**{**PASS, "step": code})
    for name, code in RETURNS.items():
        made[f"init-{name}"] = ALGORITHM.format(**{**PASS, "init": code})
    for name, body in _attributes(METHOD_ATTRIBUTES, "[[1]]"):
        made[f"attribute-{name}"] = ALGORITHM.format(**{**PASS, "body": body})
    return made


def _problems() -> dict[str, str]:
    def problem(**changes: str) -> str:
        return PROBLEM.format(**{**PROBLEM_PASS, **changes})

    made = {}
    for where in ("constructor", "gradient", "evaluate"):
        for name, code in FAILURES.items():
            made[f"{where}-{name}"] = problem(**{where: code})
    made |= {f"gradient-{name}": problem(gradient=code) for name, code in RETURNS.items()}
    made |= {f"evaluate-{name}": problem(evaluate=code) for name, code in EVALUATES.items()}
    for number, dim in enumerate(DIMS):
        made[f"dim-{number}"] = problem(dim=dim)
    for number, facts in enumerate(FACTS):
        made[f"facts-{number}"] = problem(body=f"def facts(self):\n        return {facts}")
    for number, parts in enumerate(PARTS):
        body = f"@classmethod\n    def parts(cls, nodes, **options):\n        return {parts}"
        made[f"parts-{number}"] = problem(body=body)
    for name, body in _attributes(PROBLEM_ATTRIBUTES, "[[1]]"):
        made[f"attribute-{name}"] = problem(body=body)
    for name in ("raise", "exit", "memory"):
        body = f"def facts(self):\n        {FAILURES[name]}"
        made[f"facts-{name}"] = problem(body=body)
        body = f"@classmethod\n    def parts(cls, nodes, **options):\n        {FAILURES[name]}"
        made[f"parts-{name}"] = problem(body=body)
    return made


def _module(prefix: str, name: str) -> str:
    return f"{prefix}_{name}".replace("-", "_")


MODULES: dict[str, str] = {
    **{_module("imports", name): text for name, text in IMPORTS.items()},
    **{_module("method", name): text for name, text in _algorithms().items()},
    **{_module("problem", name): text for name, text in _problems().items()},
    "method_good": ALGORITHM.format(**PASS),
    "problem_good": PROBLEM.format(**PROBLEM_PASS),
}
"""The source of each module, by name."""
NAMES = (
    "no_such_module:Own",
    "method_good:Owm",
    "method_good:",
    ":Own",
    "method_good:Own:lr",
    "method_good:Own:lr=x",
    "method_good:Own:rl=1",
    "method_good:Own:lr=1,lr=2",
    "method_good.Own",
    "method good:Own",
    "..method_good:Own",
    ".method_good:Own",
    "a..b:Own",
    "é:Own",
    "a\0b:Own",
    "a\nb:Own",
    "method_good:a\0b",
    "method_good:__doc__",
    "method_good:State",
    "os:path",
    "builtins:int",
    "/tmp/x.py:Own",
    f"{LONG[:300]}:Own",
)


def _run(option: str, spec: str) -> tuple[str, ...]:
    return ("run", "--stacked", "-n", "4", "--iterations", "5", f"--{option}={spec}")


def cases() -> list[Case]:
    """Return the cases with users' modules."""
    found = []
    for name in MODULES:
        if name.endswith("_good"):
            continue
        option = "problem" if name.startswith("problem") else "algorithm"
        found.append(Case("module", _run(option, f"{name}:Own"), (f"{name}.py",)))
    for number, name in enumerate(NAMES):
        option = ("algorithm", "problem")[number % 2]
        good = "method_good" if option == "algorithm" else "problem_good"
        words = _run(option, name.replace("method_good", good))
        found.append(Case("module", words, (f"{good}.py",)))
    for name in ("imports_import_raise", "imports_import_exit", "imports_import_syntax"):
        spec, need = f"{name}:Own", (f"{name}.py",)
        found += [
            Case("module", ("describe", "algorithm", spec), need),
            Case("module", ("describe", "problem", spec), need),
            Case("module", ("theory", "--problem", spec, "-n", "4"), need),
            Case("module", ("compare", "--stacked", "-n", "4", "--algorithms", spec), need),
            Case("module", ("sweep", "--stacked", "-n", "4", "--algorithms", spec), need),
            Case("module", ("profile", "-n", "2", "--problem", spec), need),
            Case("module", ("scale", "-n", "2", "--problem", spec), need),
            Case("module", ("reproduce", "huber", "--stacked", "--algorithms", spec), need),
            Case("module", ("submit", "--hosts", "1", "--ranks-per-host", "2", "--time", "1",
                            "--print", "--", "run", "--algorithm", spec), need),
        ]  # fmt: skip
    return found
