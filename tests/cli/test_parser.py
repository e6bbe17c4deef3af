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
