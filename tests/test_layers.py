"""Who may import whom: downward only, and MPI nowhere above its floor."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mpi_gt
from mpi_gt.comm import EXCHANGE_NAMES
from mpi_gt.comm.exchange import EXCHANGES

PACKAGE = Path(mpi_gt.__file__).parent

LAYERS = {
    0: ("errors", "files", "fuse", "hosts", "kernels", "spec", "trial", "world"),
    1: (
        "graphs",
        "algorithms",
        "problems",
        "datasets",
        "plots",
        "custom",
        "claims",
        "model",
        "plots_lab",
        "post",
        "straggler",
        "theory",
        "audit_figure",
    ),
    2: ("agree", "config", "exchange", "node", "plan", "stacked", "status", "stopping"),
    3: (
        "audit",
        "checkpoint",
        "clocks",
        "constants",
        "directory",
        "display",
        "display_lab",
        "folder",
        "identity",
        "checkpointer",
        "machine",
        "metrics",
        "phases",
        "profiling",
        "record",
        "timer",
        "summary",
        "theory_tables",
        "trace",
        "watchdog",
    ),
    4: (
        "advise",
        "bench",
        "building",
        "experiment",
        "page",
        "predict",
        "profile",
        "report",
        "reproduce",
        "resume",
        "runs",
        "scale",
        "watch",
    ),
    5: (
        "alone",
        "asked",
        "child",
        "commands",
        "doctor",
        "floor",
        "help_texts",
        "laboratory",
        "launch",
        "member",
        "options",
        "parent",
        "running",
        "submit",
        "cli",
        "__init__",
        "__main__",
    ),
}
FLOOR = {name: layer for layer, names in LAYERS.items() for name in names}
MODULES = sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Every imported name, from the inside of functions too; our own as `mpi_gt.room`."""
    found = set()
    depth = len(path.relative_to(PACKAGE).parts)
    for statement in ast.walk(ast.parse(path.read_text())):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom) and statement.level == 0:
            found.add(statement.module)
        elif isinstance(statement, ast.ImportFrom) and statement.level == depth:
            named = [statement.module] if statement.module else [a.name for a in statement.names]
            found |= {f"mpi_gt.{name.split('.')[0]}" for name in named}
    return found


def only_for_types(path: Path) -> set[str]:
    """What stands under `if TYPE_CHECKING:` is never imported at run time."""
    return {
        inner.module
        for statement in ast.walk(ast.parse(path.read_text()))
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test)
        for inner in ast.walk(statement)
        if isinstance(inner, ast.ImportFrom) and inner.level == 0
    }


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_upward_import(path):
    for name in imports(path):
        if name.startswith("mpi_gt.") and room(path) != "__init__":
            other = name.removeprefix("mpi_gt.")
            if other in FLOOR:
                assert FLOOR[other] <= FLOOR[room(path)], f"{path} imports {other}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_upper_floors_know_nothing_of_mpi(path):
    if FLOOR[room(path)] <= 1:
        assert not any(name.startswith("mpi4py") for name in imports(path))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_command_line_uses_comm_world(path):
    assert room(path) == "member" or "MPI.COMM_WORLD" not in path.read_text()


def test_stacked_and_import_start_no_mpi():
    code = (
        "import sys, mpi_gt; mpi_gt.run(stacked=True, n=3, iterations=2); "
        "sys.exit('mpi4py.MPI' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_ranks_do_not_import_what_only_root_needs():
    """Start-up of many ranks is part of the speed."""
    code = (
        "import sys, mpi_gt.cli.main, mpi_gt.engine.run, mpi_gt.comm.node; "
        "heavy = {'networkx', 'matplotlib', 'rich', 'scipy'} & set(sys.modules); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_threads_are_settled_before_numpy_is_imported():
    code = "import sys, mpi_gt.cli.main, mpi_gt.cli.frontend; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_exchange_names_agree():
    """config lists them without importing MPI."""
    assert tuple(EXCHANGES) == EXCHANGE_NAMES
