"""README and manual: commands run, examples work as printed, links lead somewhere.

A page's commands run in the page's order, in a folder with the page's own files.
"""

import json
import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import own_models
import pytest
from support import FIGURES, ROOT_OF_REPOSITORY

from mpi_gt.cli.main import main
from mpi_gt.cli.parser import build_parser, parse
from mpi_gt.problems import Place

README = ROOT_OF_REPOSITORY / "README.md"
PAGES = [*sorted((ROOT_OF_REPOSITORY / "mpi_gt" / "manual").glob("*.md")), README]
"""The pages whose commands run; the README last, for most of its commands are in the manual."""
OTHER_PAGES = [
    ROOT_OF_REPOSITORY / "scripts" / "containers" / "README.md",
    *(
        path
        for folder in (".github", "hostfiles", "mpi_gt", "mpi_gt/kernels", "scripts", "tests")
        for path in sorted((ROOT_OF_REPOSITORY / folder).glob("*.md"))
    ),
]

NOT_RUN = {
    r"scripts/test\b": "this is what runs the tests",
    r"scripts/run\s*(#|$)": "makes an environment in the checkout; its command is another one",
    r"scripts/bench/|scripts/faults": "takes minutes",
    r"pip install ": "would change the environment of the tests; test_packaging installs a wheel",
    r"sbatch |squeue|scancel|srun |salloc|qsub ": "needs a cluster's scheduler",
    r"mpi-gt submit (?!.*--print)": "needs a cluster's scheduler",
    r"--hostfile |ssh ": "needs other hosts",
    r"apptainer |podman ": "needs a builder of images; tests/scripts/test_containers builds them",
}
"""The commands that the test leaves out: a pattern, and why."""
NOT_ABOUT_RANKS = ("channels", "data", "methods", "networks", "theory")
"""Pages whose runs are about what is computed: they run stacked, in a third of the time."""
NEEDS_DATA = r"(dataset=|reproduce |data (prepare|verify) )(a9a|covertype|mnist)"
LANGUAGES = ("sh", "python", "toml", "text", "bibtex", "")
TRIAL = "5"  # iterations of each run, whatever its command asks for


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    number: int
    language: str
    text: str

    @property
    def first(self) -> str:
        return self.text.partition("\n")[0]

    @property
    def file(self) -> str | None:
        """The name in the first line, as in `# my_method.py`; a script has one anyway."""
        if self.language not in ("python", "toml"):
            return None
        named = re.match(r"# (?:.* )?([\w.-]+\.(?:py|toml))\b", self.first)
        return named.group(1) if named else f"block-{self.number}.py"

    @property
    def commands(self) -> list[str]:
        """The lines of a shell block; for a script, the command in its first line."""
        if self.language == "sh":
            lines = self.text.replace("\\\n", " ").splitlines()
            lines = [re.sub(r"\s+#[^'\"]*$", "", line) for line in lines]  # without comments
            return [line for line in lines if line.strip() and line[0] != "#"]
        if self.language != "python" or self.first == f"# {self.file}":
            return []  # a module: a command beside it uses it
        return [self.first[2:] if f" {self.file}" in self.first else f"python {self.file}"]


def read_blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    fences = re.findall(r"^```(.*?)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [Block(page, number, *found) for number, found in enumerate(fences)]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT_OF_REPOSITORY))


BLOCKS = [block for page in PAGES for block in read_blocks(page)]


def prose_of(page: Path) -> str:
    """Return the page without its fenced blocks."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def commands_of(page: Path) -> list[str]:
    """Return the commands in the blocks of a page, and in the README's table of tasks."""
    found = [line for block in BLOCKS if block.page == page for line in block.commands]
    if page == README:
        manual = {line for block in BLOCKS if block.page != README for line in block.commands}
        found += re.findall(r"^\|[^|]*\| `(mpi-gt [^`]+)` \|", prose_of(page), re.MULTILINE)
        found = [line for line in found if line not in manual]  # they run where they are explained
    return list(dict.fromkeys(found))


COMMANDS = [(page, line) for page in PAGES for line in commands_of(page)]


def reason_not_to_run(line: str) -> str | None:
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, line)), None)


@pytest.fixture(scope="session")
def desk(tmp_path_factory, openmpi):
    """A function that returns the folder in which a page's commands run, made at the first call.

    It has the files of the page, what the page expects of the reader, and the checkout's folders.
    """
    made: dict[Path, Path] = {}

    def prepare(page: Path) -> Path:
        if page in made:
            return made[page]
        folder = made[page] = tmp_path_factory.mktemp(page.stem)
        for block in BLOCKS:
            if block.page == page and block.file:
                (folder / block.file).write_text(block.text, encoding="utf-8")
        random = np.random.default_rng(0)
        np.savez(folder / "mine.npz", X=random.standard_normal((64, 5)), y=np.arange(64) % 3)
        lines = [f"{k % 2} {1 + k}:1 {70 + k % 50}:0.5\n" for k in range(64)]
        (folder / "mine.txt").write_text("".join(lines))
        for name in ("mpi_gt", "scripts", "hostfiles"):
            (folder / name).symlink_to(ROOT_OF_REPOSITORY / name)
        return folder

    return prepare


@pytest.mark.parametrize(
    ("page", "line"),
    [
        pytest.param(page, line, id=f"{name_of(page)}: {line}")
        for page, line in COMMANDS
        if reason_not_to_run(line) is None
    ],
)
def test_every_command_runs(desk, openmpi, call, request, page, line):
    folder = desk(page)
    env = {
        **(FIGURES if "--plot" in line or "tables.py" in line else {}),
        "MPI_GT_TRIAL": TRIAL,
        "XDG_CACHE_HOME": str(folder.parent / "cache"),  # each dataset is prepared once
        "PATH": f"{openmpi.bin}{os.pathsep}{os.environ['PATH']}",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    if package := re.search(r"--problem (jax|torch):", line):
        own_models.require(package.group(1))
    if re.search(NEEDS_DATA, line):
        env["MPI_GT_DATA"] = str(request.getfixturevalue("data_dir"))
    if page.stem in NOT_ABOUT_RANKS and re.match(r"mpi-gt (run|compare) ", line):
        line += " --stacked"
    call(["bash", "-c", line], cwd=folder, env=env, limit=400)


def test_no_block_and_few_commands_escape_the_tests():
    for block in BLOCKS:
        assert block.language in LANGUAGES, block
    lines = [line for _, line in COMMANDS]
    left_out = [line for line in lines if reason_not_to_run(line)]
    assert 0 < len(left_out) < len(lines) / 4, left_out
    need_data = [line for line in lines if re.search(NEEDS_DATA, line)]
    assert 0 < len(need_data) <= 10, need_data


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 250


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=name_of)
def test_commands_in_running_text_exist_with_their_options(page):
    _, commands = build_parser()
    for line in re.findall(r"`(mpi-gt [^`]+)`", prose_of(page)):
        words = line.replace(" -- ", " ").split()[1:]
        if words[0] in ("COMMAND", "--help", "--version"):
            continue
        known = [each for name in words if name in commands for each in options_of(commands[name])]
        assert words[0] in commands, line
        for word in words:
            assert not word.startswith("--") or word.partition("=")[0] in known, line


def options_of(parser) -> list[str]:
    return [name for action in parser._actions for name in action.option_strings]


def test_commands_that_are_not_run_parse():
    for _, line in COMMANDS:
        if line.startswith("mpi-gt ") and reason_not_to_run(line):
            parse(shlex.split(line)[1:])


def slug(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=name_of)
def test_links_and_pictures_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if target.startswith(("http:", "https:")):
            continue
        path, _, anchor = target.partition("#")
        found = page.parent / path if path else page
        assert found.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)", prose_of(found), re.MULTILINE)
            assert anchor in map(slug, headings), target


def test_the_manual_lists_its_pages():
    manual = README.parent / "mpi_gt" / "manual"
    listed = re.findall(r"\]\((\w+\.md)\)", (manual / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(path.name for path in manual.glob("[a-z]*.md"))


def test_every_example_of_the_help_parses():
    """`mpi-gt --help`, and that of every command, has one at least."""
    parser, commands = build_parser()
    assert "example: mpi-gt run" in parser.format_help()
    for name, command in commands.items():
        _, _, rest = command.format_help().partition("\nexamples:\n")
        block = rest.partition("\n\n")[0]
        examples = re.findall(r"^  ((?:.* )?mpi-gt .*?)(?:   .*)?$", block, re.MULTILINE)
        lines = [shlex.split(example.partition(" > ")[0]) for example in examples]
        parsed = [parse(words[words.index("mpi-gt") + 1 :])[0] for words in lines]
        assert name in parsed, examples


def block(language: str, containing: str) -> str:
    """Return the one block, on whichever page, with that text in it."""
    (found,) = {b.text for b in BLOCKS if b.language == language and containing in b.text}
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


def write_module(folder: Path, name: str) -> list[str]:
    """Write the block whose first line is that name into the folder; return its lines of code."""
    code = block("python", f"# {name}\n")
    (folder / name).write_text(code, encoding="utf-8")
    return [line for line in code.splitlines() if line.strip()]


def command_with(text: str) -> list[str]:
    """Return the words behind `mpi-gt` of the one command with that text in it."""
    (line,) = {line for _, line in COMMANDS if text in line}
    return line.split()[1:]


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
    # the class is what it claims to be: its gradient is that of its loss
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
    """Every line of the table, from a run in one process: the digits shown are the same."""
    path = ROOT_OF_REPOSITORY / command_with("lemma3.toml")[1]
    (shown,) = {b.text for b in BLOCKS if b.text.startswith("┃ statement")}
    assert main(["run", str(path), "--stacked", "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    rows = [line for line in shown.splitlines() if line.startswith("│")]
    assert len(rows) == 16
    for row in rows:
        assert row in printed
