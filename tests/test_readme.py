"""What the README shows is what happens."""

import json
import re
import sys
from pathlib import Path

import numpy as np

from mpi_gt.cli import main
from mpi_gt.problems import Place

README = (Path(__file__).parent.parent / "README.md").read_text()


def block(language, containing):
    blocks = re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)
    (found,) = (text for text in blocks if containing in text)
    return found


def test_the_python_example_runs(mpi, call, tmp_path):
    code = block("python", "comm = MPI.COMM_WORLD")
    (tmp_path / "example.py").write_text(code)
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    done = call(mpi.mpirun(4, mpi.python, "-m", "mpi4py", "example.py"), cwd=tmp_path)
    assert sorted(re.findall(r"rank (\d) ends at", done.out)) == ["0", "1", "2", "3"]
    assert re.search(r"gap \S+ after 500 iterations", done.out)


def test_the_toml_example_runs(openmpi, call, tmp_path):
    (tmp_path / "experiment.toml").write_text(block("toml", "experiment.toml"))
    words = ["run", "experiment.toml", "-n", "4", "--iterations", "20", "--out", "run"]
    call(openmpi.mpi_gt(*words), cwd=tmp_path)
    assert (tmp_path / "run" / "gap.png").exists()


def test_pictures_are_there():
    for path in re.findall(r"!\[.*?\]\((.*?)\)", README):
        assert (Path(__file__).parent.parent / path).is_file()


def write_module(folder, name):
    """A block of the README as the file that its first line names."""
    code = block("python", f"# {name}\n")
    (folder / name).write_text(code)
    return [line for line in code.splitlines() if line.strip()]


def command_with(text):
    (line,) = (line for line in block("sh", text).splitlines() if text in line)
    return line.split("#")[0].split()[1:]


def test_your_own_algorithm_as_printed(openmpi, call, tmp_path):
    assert len(write_module(tmp_path, "my_method.py")) <= 30
    words = command_with("my_method:ExactDiffusion")
    call(openmpi.mpi_gt(*words, "--iterations", "300", "--out", "run"), cwd=tmp_path)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["ExactDiffusion"]["gap"] < 1e-3
    assert (
        summary["ExactDiffusion"]["bytes_per_iteration"] == summary["dsgd"]["bytes_per_iteration"]
    )


def test_your_own_problem_as_printed(openmpi, call, tmp_path):
    assert len(write_module(tmp_path, "my_problem.py")) <= 35
    words = command_with("my_problem:SigmoidRegression")
    call(openmpi.mpi_gt(*words, "--iterations", "400", "--out", "run"), cwd=tmp_path)
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    first = (tmp_path / "run" / "metrics.csv").read_text().splitlines()[1]
    assert run["final"]["loss"] < 0.7 * float(first.split(",")[3])
    # and it is what it says: the gradient is that of the loss
    sys.path.insert(0, str(tmp_path))
    from my_problem import SigmoidRegression

    problem = SigmoidRegression(Place(0, 2, (0, 1)))
    x = np.random.default_rng(0).standard_normal((2, 5))
    sample = np.mean([problem.gradient(t, x) for t in range(1, 20_001)], axis=0)
    loss, gradient = problem.evaluate(x)
    np.testing.assert_allclose(sample, gradient, atol=5e-3)
    for j in range(5):
        step = 1e-6 * np.eye(5)[j]
        slope = (problem.evaluate(x + step)[0] - problem.evaluate(x - step)[0]) / 2e-6
        np.testing.assert_allclose(gradient[:, j], slope, atol=1e-8)
    assert loss.shape == (2,)


def test_the_audit_as_printed(capsys, tmp_path):
    """Every line of the table, from a run in one process: digits shown are the same."""
    (path,) = (word for word in command_with("lemma3.toml") if word.endswith(".toml"))
    (shown,) = re.findall(r"```\n(┃ statement.*?)```", README, flags=re.DOTALL)
    example = Path(__file__).parent.parent / path
    assert main(["run", str(example), "--stacked", "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    rows = [line for line in shown.splitlines() if line.startswith("│")]
    assert len(rows) == 16
    for row in rows:
        assert row in printed
