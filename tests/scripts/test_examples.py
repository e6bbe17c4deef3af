"""The examples of `scripts/examples`, each cut short; notebooks run without a browser."""

import json
import shutil

import pytest
from support import FIGURES, ROOT_OF_REPOSITORY

FOLDER = ROOT_OF_REPOSITORY / "scripts" / "examples"
TRIAL = {**FIGURES, "MPI_GT_TRIAL": "20"}
EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[1])
"""
SCRIPTS = {
    "launch_and_plot.py": "drawn in launch_and_plot.png",
    "own_method.py": "NormalisedGT",
    "own_problem.py": "after 20 steps",
    "compare_as_tables.py": "smallest gap",
}


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(FOLDER, tmp_path / "examples", ignore=shutil.ignore_patterns("runs"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs(name, openmpi, call, folder):
    for module in ("matplotlib", "pandas"):
        pytest.importorskip(module)
    assert SCRIPTS[name] in call([openmpi.python, name], cwd=folder, env=TRIAL).out


def test_a_script_runs_on_its_own_communicator(mpich, call, folder):
    words = [mpich.python, "-m", "mpi4py", "own_communicator.py"]
    out = call(mpich.mpirun(4, *words), cwd=folder, env=TRIAL).out
    assert out.count("on 2 nodes") == 2


def test_a_network_in_jax_learns(openmpi, call, folder):
    """With clouds in place of the digits: measuring on all of these takes a minute."""
    pytest.importorskip("jax")
    problem = "jax:model=cnn_jax.py:loss,features=784,classes=10,rows=100,batch=8"
    words = openmpi.mpi_gt("run", "--stacked", "-n2", f"--problem={problem}", "--out=run")
    options = ["--algorithm=gt:lr=0.1", "--iterations=40", "--log-every=40", "--dtype=float32"]
    call([*words, *options, "--quiet"], cwd=folder, limit=300)
    facts = json.loads((folder / "run" / "run.json").read_text())
    assert facts["final"]["loss"] < 1  # log 10 = 2.3 for a guess
    assert facts["test_accuracy"] > 0.5


def test_every_script_is_tested():
    scripts = {path.name for path in FOLDER.glob("*.py")}
    assert scripts == {*SCRIPTS, "own_communicator.py", "cnn_jax.py"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs(path, openmpi, call, folder):
    for module in ("nbclient", "ipykernel", "matplotlib", "pandas"):
        pytest.importorskip(module)
    notebook = json.loads(path.read_text())
    assert not any(cell.get("outputs") for cell in notebook["cells"])  # kept without outputs
    call([openmpi.python, "-c", EXECUTE, path.name], cwd=folder, env=TRIAL, limit=300)
    ran = json.loads((folder / path.name).read_text())
    kinds = [kind for cell in ran["cells"] for out in cell.get("outputs", [])
             for kind in out.get("data", {})]  # fmt: skip
    assert "image/png" in kinds  # the figures
    assert "text/html" in kinds  # the tables
