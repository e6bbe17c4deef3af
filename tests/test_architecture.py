"""The layers of the package, the homes of heavy imports, and the sizes of files and functions."""

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import mpi_gt
from mpi_gt.comm import EXCHANGE_NAMES
from mpi_gt.comm.exchange import EXCHANGES

PACKAGE = Path(mpi_gt.__file__).parent
REPOSITORY = PACKAGE.parent

LAYERS = """
    errors spec trial files memory array_files | kernels fuse machine |
    user_classes compressors algorithms datasets graphs problems channels | comm rundir | config |
    theory | plots display | results | launchers | performance | engine | reproduce report sweeps |
    cli | api
"""
"""A folder (or a module of the root) imports only from its left."""
ORDER = {name: place for place, name in enumerate(LAYERS.replace("|", " ").split())}
ABOVE_ALL = ("__init__", "__main__")

MPI_AT_IMPORT = {
    "comm/agreement.py",
    "comm/collective.py",
    "comm/exchange.py",
    "comm/message.py",
    "comm/node.py",
    "comm/segments.py",
    "comm/shared.py",
    "comm/timing.py",
    "performance/clock_sync.py",
}
"""Only these modules import mpi4py when they are imported."""
HOMES = {
    "matplotlib": {"plots"},
    "pandas": {"results"},
    "plotly": {"report"},
    "rich": {"display", "datasets/raw.py", "cli/commands/watch.py"},
    "networkx": {"graphs", "plots", "report"},
    "jax": {"problems/models/jax_model.py", "problems/models/programs.py"},
    "jaxlib": {"problems/models/programs.py"},
    "torch": {"problems/models/torch_model.py", "problems/models/torch_network.py"},
    "scipy": {"graphs", "problems/truncated_normal.py", "reproduce/judging.py"},
}
"""Where a heavy package may be imported, and there inside functions only."""
WITHOUT_NUMPY = (
    "errors",
    "spec",
    "trial",
    "files",
    "memory",
    "machine",
    "rundir.atomic",
    "rundir.layout",
    "rundir.run_json",
    "rundir.watchdog_reports",
    "engine.stop",
    "launchers.brands",
    "launchers.detect",
    "launchers.hostfile",
    "launchers.mpirun",
    "launchers.process",
    "launchers.relay",
    "launchers.batch.slurm",
    "cli.main",
    "cli.streams",
    "cli.frontend",
    "cli.rank",
    "cli.parser",
    "cli.configure",
)
"""The front end and the start of a rank: thread variables are set before numpy is imported."""

MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(source: str, module: list[str], at_import: bool = False) -> set[str]:
    """Return what a module imports, as absolute names; with `at_import`, when it is imported.

    `module` is its place in the package as a list, with `__init__` at the end of a package's own.
    """
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if is_for_types(node):
            return
        if at_import and isinstance(node, ast.FunctionDef | ast.Lambda):
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ["mpi_gt", *module[: len(module) - node.level]] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            found.update(f"{origin}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(source))
    return found


@cache
def imports_of(path: Path, at_import: bool = False) -> set[str]:
    parts = [*path.relative_to(PACKAGE).with_suffix("").parts]
    return imports(path.read_text(), parts, at_import)


def upward(source: str, module: list[str]) -> list[str]:
    """Return the imports of a module that do not go to its left."""
    own = module[0]
    rooms = {name.split(".")[1] for name in imports(source, module) if name.startswith("mpi_gt.")}
    return [room for room in rooms if room in ORDER and room != own and ORDER[room] > ORDER[own]]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_to_the_left(path):
    if room_of(path) not in ABOVE_ALL:
        parts = [*path.relative_to(PACKAGE).with_suffix("").parts]
        assert upward(path.read_text(), parts) == []


def test_an_upward_import_is_found():
    assert upward("from ..cli import main", ["engine", "run"]) == ["cli"]
    assert upward("def f():\n    from ..engine.loop import solve", ["comm", "node"]) == ["engine"]
    assert upward("if TYPE_CHECKING:\n    from ..cli import main", ["engine", "run"]) == []
    assert upward("from . import engine", ["config"]) == ["engine"]
    assert upward("from .cli.main import main", ["problems", "__init__"]) == []  # a folder's own


def test_every_room_has_a_layer():
    rooms = {room_of(path) for path in MODULES} - set(ABOVE_ALL)
    assert rooms == set(ORDER)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_mpi_stays_in_its_rooms(path):
    if name_of(path) not in MPI_AT_IMPORT:
        assert not any(name.startswith("mpi4py") for name in imports_of(path, at_import=True))
    if name_of(path) != "cli/rank.py":
        assert "MPI.COMM_WORLD" not in path.read_text()
    if ORDER.get(room_of(path), len(ORDER)) < ORDER["comm"] and room_of(path) != "machine":
        assert not any(name.startswith("mpi4py") for name in imports_of(path))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_heavy_packages_have_one_home(path):
    for package, homes in HOMES.items():
        used = any(name.split(".")[0] == package for name in imports_of(path))
        if used:
            assert homes & {room_of(path), name_of(path)}, f"{name_of(path)} imports {package}"
        at_import = imports_of(path, at_import=True)
        assert not any(name.split(".")[0] == package for name in at_import)


def modules_after(code: str) -> set[str]:
    """Return the modules of a fresh Python that has run this code."""
    shown = "\nimport sys\nprint('modules', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code + shown], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("modules "))
    return set(line.split()[1:])


@pytest.mark.parametrize("name", WITHOUT_NUMPY)
def test_the_front_end_imports_no_numpy(name):
    assert not {"numpy", "mpi4py.MPI"} & modules_after(f"import mpi_gt.{name}")


def test_a_stacked_run_starts_no_mpi():
    code = "import mpi_gt; mpi_gt.run(stacked=True, n=3, iterations=2)"
    assert "mpi4py.MPI" not in modules_after(code)


def test_importing_the_package_is_cheap():
    """It takes less than 30 ms, and leaves heavy packages alone until they are asked for."""
    heavy = {"numpy", "pandas", "mpi4py", "rich", "matplotlib", "networkx", "IPython"}
    after = modules_after("import mpi_gt")
    assert not heavy & after
    assert {name for name in after if name.startswith("mpi_gt")} == {"mpi_gt", "mpi_gt.errors"}
    times = [import_time("mpi_gt") for _ in range(5)]
    assert min(times) < 30_000, times


def import_time(name: str) -> int:
    """Return the microseconds that a fresh Python takes to import a module."""
    words = [sys.executable, "-X", "importtime", "-c", f"import {name}"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    (line,) = (line for line in done.stderr.splitlines() if line.endswith(f"| {name}"))
    return int(line.split("|")[1])


def test_exchange_names_agree():
    """`comm` lists them without importing MPI."""
    assert tuple(EXCHANGES) == EXCHANGE_NAMES


ROOT_ONLY = (
    "mpi_gt.cli.parser",
    "mpi_gt.cli.configure",
    "mpi_gt.cli.commands.",
    "mpi_gt.display",
    "mpi_gt.engine.recorder",
    "mpi_gt.plots",
    "mpi_gt.report",
    "mpi_gt.reproduce",
    "mpi_gt.results",
    "mpi_gt.rundir.run_directory",
    "mpi_gt.rundir.summary",
    "mpi_gt.theory",
    "mpi_gt.datasets",
    "mpi_gt.graphs.building",
    "mpi_gt.graphs.families",
    "mpi_gt.algorithms.compressed",
    "mpi_gt.algorithms.dsgd",
    "mpi_gt.problems.models",
    "mpi_gt.problems.softmax",
    "argparse",
    "difflib",
    "importlib.metadata",
    "matplotlib",
    "networkx",
    "pandas",
    "rich",
    "scipy",
)
"""Modules that serve root only: every rank that imports them delays the start of all."""


def test_ranks_other_than_root_import_no_more_than_they_need(openmpi, call, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, os, sys\n"
        "if os.environ.get('OMPI_COMM_WORLD_RANK') == '1':\n"
        "    atexit.register(lambda: open('modules', 'w').write(chr(10).join(sys.modules)))\n"
    )
    words = ["run", "-n", "3", "--iterations", "5", "--out", "run"]
    call(openmpi.mpi_gt(*words), cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    modules = (tmp_path / "modules").read_text().split()
    assert "mpi_gt.engine.loop" in modules
    assert [name for name in modules if name.startswith(ROOT_ONLY)] == []


def functions(path: Path) -> list[ast.FunctionDef]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return [node for node in nodes if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_files_and_functions_are_short(path):
    assert len(path.read_text().splitlines()) <= 350
    for function in functions(path):
        assert (function.end_lineno or 0) - function.lineno < 60, function.name


@pytest.mark.parametrize("folder", ["tests", "scripts"])
def test_other_files_are_short_too(folder):
    for path in (REPOSITORY / folder).rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 350, path


def test_folders_are_small():
    assert sum(path.parent == PACKAGE for path in MODULES) <= 12
    files = subprocess.run(
        ["git", "ls-files", "-z", "mpi_gt", "tests", "scripts"],
        cwd=REPOSITORY, capture_output=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    if not files[0]:
        pytest.skip("no git, or no checkout: there is no list of files")
    folders = Counter(Path(file).parent for file in files if file)
    assert max(folders.values()) <= 20, folders.most_common(1)


RIDDLES = ("What", "Whether", "Where", "Who", "How")


def test_docstrings_begin_with_a_verb_or_a_noun():
    kinds = ast.FunctionDef | ast.ClassDef | ast.Module
    riddles = [
        f"{name_of(path)}: {text.splitlines()[0]}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, kinds) and (text := ast.get_docstring(node))
        if text.split()[0].strip(",.:") in RIDDLES
    ]
    assert len(riddles) <= 4, riddles
