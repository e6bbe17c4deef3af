"""`mpi-gt run` in one process: bad input, option files, what it prints."""

import csv

import numpy as np
import pytest

from mpi_gt.cli.main import main


def rows(directory):
    with (directory / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_names_with_brackets_are_shown_as_they_are(tmp_path, capsys):
    (tmp_path / "a[bold]b[").mkdir()
    path = tmp_path / "a[bold]b[" / "x].npz"
    np.savez(path, Phi=np.ones((2, 1, 1)), theta=np.ones((2, 1)))
    words = ["run", "--stacked", "-n", "2", "--iterations", "2", "--out", str(tmp_path / "[r]")]
    assert main([*words, "--problem", f"huber:data={path}"]) == 0
    assert "[bold]" in capsys.readouterr().out.replace("\n", "")


BAD = [
    ["--algorithm", "gt-adaptve"],
    ["--algorithm", "gt-adaptive:lr=0"],
    ["--algorithm", "gt-adaptive:beta1=1"],
    ["--algorithm", "gt-adaptive:beta2=0"],
    ["--algorithm", "gt-adaptive:vmin=2"],
    ["--algorithm", "gt-adaptive:vmax=0.5"],
    ["--algorithm", "gt-adaptive:learning=1"],
    ["--problem", "hubber"],
    ["--problem", "huber:dim=-3"],
    ["--problem", "huber:data=absent.npz"],
    ["--graph", "rong"],
    ["--graph", "er:p=1.5"],
    ["--graph", ""],
    ["--graph", "x" * 300],
    ["--out", "x" * 300],
    ["--out", ""],
    ["--seed", "18446744073709551616"],
    ["--seeds", "1e18"],
    ["--problem", "huber:noise=1e-320"],
    ["--problem", "huber:noise=1e200,truncate=1e200"],
    ["--problem", "huber:spread=1.5e308"],
    ["--problem", "huber:dim=1_0"],
    ["--problem", "huber:dim=1e7"],
    ["--x1", "header.npy"],
    ["--problem", "huber:data=damaged.npz"],
    ["digits.toml"],
    ["deep.toml"],
    ["twice.toml"],
    ["--", "absent.toml"],
    ["--weights", "absent.npy"],
    ["--iterations", "0"],
    ["--iterations", "many"],
    ["--seeds", "0"],
    ["--seed", "-1"],
    ["--log-every", "0"],
    ["--exchange", "telepathy"],
    ["--dtype", "float16"],
    ["--x1", "absent.npy"],
    ["-n", "0"],
    ["--out", "taken"],
    ["--out", "taken/file/inside"],
    ["--iteratons", "5"],
    ["absent.toml"],
    ["bad.toml"],
    ["unknown.toml"],
    ["typed.toml"],
]


@pytest.mark.parametrize("words", BAD, ids=lambda words: " ".join(words)[:40])
def test_bad_input_is_one_clear_message_and_exit_code_two(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("")
    (tmp_path / "bad.toml").write_text("iterations = = 3")
    (tmp_path / "unknown.toml").write_text("iterationen = 3")
    (tmp_path / "typed.toml").write_text("iterations = [3]")
    (tmp_path / "digits.toml").write_text("iterations = " + "1" * 5000)
    (tmp_path / "deep.toml").write_text("iterations = " + "[" * 5000)
    (tmp_path / "twice.toml").write_text("log-every = 1\nlog_every = 2")
    with (tmp_path / "header.npy").open("wb") as file:
        shape = (999_999_999_999,)
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": shape}
        )
    np.savez_compressed(tmp_path / "damaged.npz", Phi=np.arange(4000.0), theta=np.ones(1))
    damaged = bytearray((tmp_path / "damaged.npz").read_bytes())
    damaged[300:400] = bytes(100)
    (tmp_path / "damaged.npz").write_bytes(damaged)
    code = main(["run", "--stacked", "-n", "4", "--iterations", "5", *words])
    captured = capsys.readouterr()
    assert code == 2
    assert captured.err.startswith("mpi-gt: error: ")
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_without_n_it_says_what_to_type(capsys):
    assert main(["run"]) == 2
    assert "mpi-gt run -n 16" in capsys.readouterr().err


def test_options_from_a_file_and_flags_win(tmp_path, capsys):
    file = tmp_path / "experiment.toml"
    file.write_text(
        'problem = "huber:dim=3"\niterations = 20\nlog-every = 10\nstacked = true\nn = 4\n'
        f'out = "{tmp_path / "run"}"\nquiet = true\n'
    )
    assert main(["run", str(file), "--iterations", "30"]) == 0
    assert [row["iteration"] for row in rows(tmp_path / "run")] == ["0", "10", "20", "30"]
    assert np.load(tmp_path / "run" / "final.npz")["x"].shape == (4, 1, 3)
    assert capsys.readouterr() == ("", "")


@pytest.mark.figures
def test_quiet_says_nothing_and_the_default_shows_a_table(tmp_path, capsys):
    words = ["run", "--stacked", "-n", "3", "--iterations", "5"]
    assert main([*words, "--out", str(tmp_path / "a"), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main([*words, "--out", str(tmp_path / "b")]) == 0
    captured = capsys.readouterr()
    assert "gap" in captured.out
    assert str(tmp_path / "b" / "gap.png") in captured.out
    assert "iteration 5/5" in captured.err
