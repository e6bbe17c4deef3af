"""What the README shows is what happens."""

import json
import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support import FIGURES, ROOT_OF_REPOSITORY

from mpi_gt.cli.configure import parse
from mpi_gt.cli.main import main
from mpi_gt.cli.parser import build_parser
from mpi_gt.problems import Place

README = (Path(__file__).parent.parent / "README.md").read_text()

NOT_RUN = {
    r"scripts/test\b": "this is what runs the tests",
    r"scripts/run\s*(#|$)": "makes an environment in the checkout; its command is the next one",
    r"scripts/bench/": "measures for minutes, beside programs in C that it compiles",
    r"pip install ": "would change the environment of the tests; test_packaging installs a wheel",
    r"sbatch |squeue|scancel|srun |salloc|qsub ": "needs a cluster's scheduler",
    r"mpi-gt submit (?!.*--print)": "needs a cluster's scheduler",
    r"--hosts |--hostfile |ssh ": "needs other hosts",
}
"""The commands of the README that the test leaves out: a pattern, and why."""
TEXT = ("", "bibtex", "text")  # blocks that are nothing to run
TRIAL = "10"  # iterations of each run, whatever its command asks for


@dataclass(frozen=True)
class Block:
    number: int
    language: str
    text: str

    @property
    def first(self) -> str:
        return self.text.partition("\n")[0]

    @property
    def file(self) -> str | None:
        """The name in its first line, as in `# my_method.py`; a script has one anyway."""
        if self.language not in ("python", "toml"):
            return None
        named = re.match(r"# (?:.* )?([\w.-]+\.(?:py|toml))\b", self.first)
        return named.group(1) if named else f"block-{self.number}.py"

    @property
    def commands(self) -> list[str]:
        """The lines of a shell block; for a script, what its first line says to run it with."""
        if self.language == "sh":
            lines = self.text.replace("\\\n", " ").splitlines()
            return [line for line in lines if line.strip() and line[0] != "#"]
        if self.language != "python" or self.first == f"# {self.file}":
            return []  # a module: a command beside it uses it
        return [self.first[2:] if f" {self.file}" in self.first else f"python {self.file}"]


def read_blocks() -> list[Block]:
    fences = re.findall(r"^```(.*?)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    return [Block(number, *found) for number, found in enumerate(fences)]


BLOCKS = read_blocks()
COMMANDS = [line for block in BLOCKS for line in block.commands]


def reason_not_to_run(line: str) -> str | None:
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, line)), None)


@pytest.fixture(scope="session")
def desk(tmp_path_factory, data_dir, openmpi) -> Path:
    """A folder with the README's files, what it takes the reader to have, and the checkout's."""
    folder = tmp_path_factory.mktemp("readme")
    for block in BLOCKS:
        if block.file:
            (folder / block.file).write_text(block.text)
    random = np.random.default_rng(0)
    np.savez(folder / "mine.npz", X=random.standard_normal((64, 5)), y=np.arange(64) % 3)
    lines = [f"{k % 2} {1 + k}:1 {70 + k % 50}:0.5\n" for k in range(64)]
    (folder / "mine.txt").write_text("".join(lines))
    for name in ("mpi_gt", "scripts", "hostfiles"):
        (folder / name).symlink_to(ROOT_OF_REPOSITORY / name)
    return folder


@pytest.mark.parametrize("line", [line for line in COMMANDS if reason_not_to_run(line) is None])
def test_every_command_runs(desk, data_dir, openmpi, call, line):
    """In the order of the page, in one folder: a command may use what those before it made."""
    env = {
        **(FIGURES if "--plot" in line else {}),
        "MPI_GT_TRIAL": TRIAL,
        "MPI_GT_DATA": str(data_dir),
        "XDG_CACHE_HOME": str(desk / "cache"),
        "PATH": f"{openmpi.bin}{os.pathsep}{os.environ['PATH']}",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    call(["bash", "-c", line], cwd=desk, env=env, limit=400)


def test_nothing_in_the_readme_escapes_the_tests():
    """Every block is of a kind that is known here, and most commands are run."""
    for block in BLOCKS:
        assert block.language in ("sh", "python", "toml", *TEXT), block
    left_out = [line for line in COMMANDS if reason_not_to_run(line)]
    assert 0 < len(left_out) < len(COMMANDS) / 4, left_out


def test_every_example_of_the_help_parses():
    """`mpi-gt --help`, and that of every command, has one at least."""
    parser, commands = build_parser()
    assert "example: mpi-gt run" in parser.format_help()
    for name, command in commands.items():
        _, _, rest = command.format_help().partition("\nexamples:\n")
        block = rest.partition("\n\n")[0]
        examples = re.findall(r"^  ((?:.* )?mpi-gt .*?)(?:   .*)?$", block, re.MULTILINE)
        lines = [shlex.split(example) for example in examples]
        parsed = [parse(words[words.index("mpi-gt") + 1 :])[0] for words in lines]
        assert name in parsed, examples


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
    call(openmpi.mpi_gt(*words), cwd=tmp_path, env=FIGURES)
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
