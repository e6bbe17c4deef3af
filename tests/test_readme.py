"""What the README shows is what happens."""

import re
from pathlib import Path

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
