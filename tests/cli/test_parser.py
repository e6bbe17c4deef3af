"""Help, version and unknown options of every command."""

import pytest

import mpi_gt
from mpi_gt.cli.main import main


def test_help_and_version(capsys):
    for words in (["--help"], ["run", "--help"]):
        with pytest.raises(SystemExit) as done:
            main(words)
        assert done.value.code == 0
        assert "mpi-gt run -n 16" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--version"])
    assert mpi_gt.__version__ in capsys.readouterr().out


def test_help_has_no_defaults_that_are_not_its_own(capsys):
    with pytest.raises(SystemExit):
        main(["reproduce", "--help"])
    assert "default 2000" not in capsys.readouterr().out


def test_unknown_flags_of_every_command(capsys):
    for command in ("run", "compare", "sweep", "graph ring -n 3", "data list", "reproduce huber"):
        assert main([*command.split(), "--bogus"]) == 2
        assert "does not take '--bogus'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "run --stacked -n 4 --out NAME",
        "bench -n 2 --out NAME",
        "reproduce huber --stacked --out NAME",
        "watch NAME",
        "report NAME",
        "predict --latency 1us --bandwidth 1GB/s --check NAME",
    ],
)
@pytest.mark.parametrize(
    ("name", "message"), [("x" * 300, "name is too long"), ("a\0b", "null character")]
)
def test_names_that_no_file_can_have(words, name, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([name if word == "NAME" else word for word in words.split()]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("doctor -n 0", "-n must be in"),
        ("doctor -n 1e99", "-n must be in"),
        ("theory -n 0", "n must be in"),
        ("predict -n 4 --latency= --bandwidth 1GB/s", "--latency: '' is no time"),
        ("predict -n 4 --latency 1us --bandwidth 1GB/s --out=", "--out needs the name"),
        ("reproduce huber --resume", "it takes no --resume"),
    ],
)
def test_values_at_the_edge(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    assert message in capsys.readouterr().err


@pytest.mark.figures
def test_a_picture_that_cannot_be_written(capsys):
    assert main(["graph", "ring", "-n", "4", "--plot", "/proc/a.png"]) == 2
    assert "cannot write /proc/a.png" in capsys.readouterr().err
