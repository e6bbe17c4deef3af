"""Whole runs in one process: numbers, files, errors. The messages are in test_launch."""

import csv
import json
import signal
import sys
import time

import numpy as np
import pytest

import mpi_gt
from mpi_gt.cli.main import main
from mpi_gt.config import RunConfig
from mpi_gt.errors import Diverged, UserError
from mpi_gt.plots.metrics import draw_run
from mpi_gt.rundir.metrics_csv import COLUMNS, MetricsBlock
from mpi_gt.rundir.run_directory import RunDirectory


def stacked(**options):
    return mpi_gt.run(**{"stacked": True, "n": 5, "iterations": 50, **options})


def rows(directory):
    with (directory / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_one_seed_of_several_equals_that_seed_alone():
    together = stacked(n=16, iterations=500, seeds=5)
    alone = stacked(n=16, iterations=500, seeds=1, seed=3)
    assert np.abs(together.x[:, 3] - alone.x[:, 0]).max() <= 1e-12


def test_the_first_and_the_last_are_logged_always(tmp_path):
    stacked(iterations=25, log_every=10, seeds=2, seed=7, out=str(tmp_path / "run"))
    assert [(int(r["seed"]), int(r["iteration"])) for r in rows(tmp_path / "run")] == [
        (seed, iteration) for iteration in (0, 10, 20, 25) for seed in (7, 8)
    ]


def test_default_is_two_hundred_measurements():
    assert RunConfig(iterations=2000).log_interval == 10
    assert RunConfig(iterations=2001).log_interval == 11
    assert RunConfig(iterations=7).log_interval == 1


@pytest.mark.figures
def test_run_directory(tmp_path):
    out = tmp_path / "deep" / "run"
    result = stacked(seeds=2, out=str(out))
    assert {path.name for path in out.iterdir()} == {
        "run.json", "metrics.csv", "final.npz", "loss.png", "gap.png",
    }  # fmt: skip
    facts = json.loads((out / "run.json").read_text())
    assert facts["status"] == "finished"
    assert facts["config"]["seeds"] == 2
    assert facts["graph"]["nodes"] == 5
    assert 0 < facts["graph"]["rho_A"] < 1
    assert facts["seconds_per_iteration"] > 0
    assert facts["final"]["gap"] == pytest.approx(
        np.mean([float(row["gap"]) for row in rows(out)[-2:]])
    )
    with np.load(out / "final.npz") as file:
        np.testing.assert_array_equal(file["x"], result.x)
        assert file["x"].shape == (5, 2, 10)
    table = rows(out)
    assert tuple(table[0]) == COLUMNS
    for row in table:
        gap = float(row["grad_norm2"]) + float(row["consensus"])
        assert float(row["gap"]) == pytest.approx(gap)
        assert row["accuracy"] == ""
    vectors, entry, directed_edges = 2, 8, 2 * facts["graph"]["edges"]
    per_iteration = directed_edges * vectors * 10 * entry
    assert int(table[-1]["bytes"]) == 50 * per_iteration
    assert facts["bytes_sent"] == 2 * 50 * per_iteration


def test_metrics_against_their_definition(tmp_path):
    """From final.npz and the problem's own data, not through metrics.py."""
    random = np.random.default_rng(0)
    phi, x_star = random.standard_normal((5, 3, 3)), random.standard_normal((5, 3))
    np.savez(tmp_path / "data.npz", Phi=phi, x_star=x_star)
    out = tmp_path / "run"
    stacked(problem=f"huber:data={tmp_path / 'data.npz'},noise=0,threshold=0.7", out=str(out))
    with np.load(out / "final.npz") as file:
        x = file["x"][:, 0]
    xbar = x.mean(axis=0)
    residual = np.einsum("nij,nj->ni", phi, x_star - xbar)
    huber = np.where(abs(residual) <= 0.7, residual**2 / 2, 0.7 * (abs(residual) - 0.35))
    gradient = -np.einsum("nji,nj->ni", phi, residual.clip(-0.7, 0.7)).mean(axis=0)
    last = rows(out)[-1]
    assert float(last["loss"]) == pytest.approx(huber.sum(axis=1).mean())
    assert float(last["grad_norm2"]) == pytest.approx((gradient**2).sum())
    assert float(last["consensus"]) == pytest.approx(((x - xbar) ** 2).sum(axis=1).mean())


def test_start_from_a_file(tmp_path):
    start = np.arange(50.0).reshape(5, 10)
    np.save(tmp_path / "x1.npy", start)
    result = stacked(x1=str(tmp_path / "x1.npy"), iterations=1, seeds=2)
    spread = start - start.mean(axis=0)
    expected = (spread**2).sum(axis=1).mean()
    assert [row["consensus"] for row in result.metrics[:2]] == pytest.approx([expected] * 2)
    np.save(tmp_path / "x1.npy", start[0])
    assert stacked(x1=str(tmp_path / "x1.npy"), iterations=1).metrics[0]["consensus"] == 0


@pytest.mark.parametrize("shape", [(3,), (4, 10), (5, 10, 1), ()])
def test_start_of_a_wrong_shape(tmp_path, shape):
    np.save(tmp_path / "x1.npy", np.zeros(shape))
    with pytest.raises(UserError, match=r"x1\.npy"):
        stacked(x1=str(tmp_path / "x1.npy"))


def test_float32():
    result = stacked(dtype="float32", iterations=300)
    reference = stacked(iterations=300)
    assert result.x.dtype == np.float32
    assert np.abs(result.x - reference.x).max() < 1e-3
    assert not result.facts["warnings"]


@pytest.mark.figures
def test_divergence_keeps_what_was_measured(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(Diverged, match=r"after iteration 10: node \d, seed 1"):
        stacked(algorithm="gt-adaptive:lr=1e308", log_every=10, seed=1, out=str(out))
    assert [row["iteration"] for row in rows(out)] == ["0"]
    facts = json.loads((out / "run.json").read_text())
    assert (facts["status"], facts["exit_code"]) == ("failed", 3)
    assert "seed 1" in facts["error"]
    assert not (out / "final.npz").exists()
    assert (out / "gap.png").exists()


def test_divergence_names_the_node_whose_state_it_is(tmp_path):
    """One bad state makes the mean bad, and with it every node's loss there."""
    phi = np.stack([np.eye(2)] * 4)
    theta = np.ones((4, 2))
    phi[3] *= 1e76
    theta[3] = 1e77
    np.savez(tmp_path / "data.npz", Phi=phi, theta=theta)
    with pytest.raises(Diverged, match="after iteration 1: node 3, seed 0"):
        stacked(
            n=4,
            graph="ring",
            problem=f"huber:data={tmp_path / 'data.npz'},noise=0,threshold=1e78",
            algorithm="gt-adaptive:lr=1e300",
            log_every=1,
        )


def test_metrics_that_are_not_finite_are_a_divergence(tmp_path):
    np.save(tmp_path / "x1.npy", np.array([[1e200] * 10, [-1e200] * 10, [0.0] * 10]))
    with pytest.raises(Diverged, match="after iteration 0"):
        stacked(n=3, x1=str(tmp_path / "x1.npy"), out=str(tmp_path / "run"))
    json.loads((tmp_path / "run" / "run.json").read_text(), parse_constant=pytest.fail)


def test_values_too_large_for_float32_are_bad_input(tmp_path):
    np.save(tmp_path / "x1.npy", np.full(10, 1e300))
    with pytest.raises(UserError, match="too large for float32"):
        stacked(x1=str(tmp_path / "x1.npy"), dtype="float32")


def test_what_a_python_caller_may_give(tmp_path):
    result = stacked(
        iterations=np.int64(3), out=tmp_path / "run", dtype=np.float32, log_every=np.int32(1)
    )
    assert result.x.dtype == np.float32
    assert (tmp_path / "run" / "final.npz").exists()
    for bad in ({"quiet": "false"}, {"problem": None}, {"iterations": 2.5}, {"seeds": True},
                {"out": "a\0b"}, {"dtype": int}):  # fmt: skip
        with pytest.raises(UserError, match=next(iter(bad))):
            stacked(**bad)


def test_overwriting_destroys_nothing_where_it_cannot_work(tmp_path):
    out = tmp_path / "run"
    (out / "loss.png").mkdir(parents=True)
    (out / "run.json").write_text("keep")
    with pytest.raises(UserError, match=r"loss\.png"):
        stacked(out=str(out), overwrite=True)
    assert (out / "run.json").read_text() == "keep"


def test_names_with_brackets_are_shown_as_they_are(tmp_path, capsys):
    (tmp_path / "a[bold]b[").mkdir()
    path = tmp_path / "a[bold]b[" / "x].npz"
    np.savez(path, Phi=np.ones((2, 1, 1)), theta=np.ones((2, 1)))
    words = ["run", "--stacked", "-n", "2", "--iterations", "2", "--out", str(tmp_path / "[r]")]
    assert main([*words, "--problem", f"huber:data={path}"]) == 0
    assert "[bold]" in capsys.readouterr().out.replace("\n", "")


def test_a_stacked_run_stops_when_asked_and_says_so(tmp_path):
    from support import finish, start

    out = tmp_path / "run"
    words = ["-m", "mpi_gt", "run", "--stacked", "-n", "3", "--iterations", "1e9", "--log-every"]
    process = start([sys.executable, *words, "10", "--quiet", "--out", out])
    begin = time.monotonic()
    while not (out / "metrics.csv").exists() or (out / "metrics.csv").stat().st_size < 500:
        assert time.monotonic() - begin < 30
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    done = finish(process, limit=20)
    assert done.code == 85
    assert f"mpi-gt resume {out}" in done.err
    facts = json.loads((out / "run.json").read_text())
    assert (facts["status"], facts["exit_code"]) == ("stopped", 85)


def test_lost_message_is_reported_at_once(tmp_path, capsys, monkeypatch):
    """A mix that loses what one neighbour sent breaks mean(s) = mean(g)."""
    from mpi_gt.comm.stacked import ReadyMix, ReadyMixes, StackedNode

    def lossy(self, *vectors):
        exact = ReadyMixes(ReadyMix(self._times(z)) for z in vectors)
        if self.iteration == 7:
            exact[1]._value[0] *= 0.9
        return exact

    monkeypatch.setattr(StackedNode, "mix", lossy)
    out = tmp_path / "run"
    stacked(iterations=20, log_every=1, quiet=False, out=str(out))
    facts = json.loads((out / "run.json").read_text())
    assert facts["tracking_error"]["iteration"] == 7
    assert "tracking error" in facts["warnings"][0]
    assert capsys.readouterr().err.count("tracking error") == 1


def test_existing_directory_is_never_overwritten_unasked(tmp_path):
    out = tmp_path / "run"
    stacked(out=str(out))
    (out / "notes.txt").write_text("mine")
    before = (out / "run.json").read_text()
    with pytest.raises(UserError, match="overwrite"):
        stacked(out=str(out))
    assert (out / "run.json").read_text() == before
    stacked(out=str(out), overwrite=True, seeds=2)
    assert len(np.load(out / "final.npz")["x"][0]) == 2
    assert (out / "notes.txt").read_text() == "mine"


def test_two_runs_give_the_same_bits(tmp_path):
    for name in "ab":
        stacked(seeds=2, out=str(tmp_path / name))
    final = [(tmp_path / name / "final.npz").read_bytes() for name in "ab"]
    assert final[0] == final[1]
    tables = [[{**row, "seconds": ""} for row in rows(tmp_path / name)] for name in "ab"]
    assert tables[0] == tables[1]


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


def test_default_directory_is_named_after_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # the second within the same second
        assert main(["run", "--stacked", "-n", "3", "--iterations", "5", "--quiet"]) == 0
    names = [path.name for path in (tmp_path / "runs").iterdir()]
    assert len(names) == 2
    assert all("-huber-gt-adaptive" in name for name in names)


def test_unknown_option_of_the_api():
    with pytest.raises(UserError, match="did you mean 'iterations'"):
        stacked(iteration=5)
    with pytest.raises(UserError, match="communicator"):
        mpi_gt.run(iterations=5)


def test_rows_of_any_label_are_read_as_they_were_written(tmp_path):
    directory = RunDirectory(tmp_path)
    directory.begin()
    told = []
    for label in ("gt:lr=0.1,order=atc", 'mine:"100%",%s %d%%', "plain"):
        metrics = [0.1, 5e-324], [1e-300, 1e300], [-0.0, 2 / 3], [1e22, 1e16], None, [0.5, 1.0]
        block = MetricsBlock(label, (0, 2**64 - 1), 7, metrics, 1e-06, 2**60)
        directory.append(block)
        rows = list(block.rows())
        assert rows[0] == (label, 0, 7, 0.1, 1e-300, -0.0, 1e22, None, 0.5, 1e-06, 2**60)
        told += [row._asdict() for row in rows]
    assert len(told) == 6
    assert directory.rows_until(directory.mark()) == told
    with (tmp_path / "metrics.csv").open(newline="") as file:
        assert {row["algorithm"] for row in csv.DictReader(file)} == {r["algorithm"] for r in told}
    directory.unlock()


@pytest.mark.figures
def test_figures_of_a_run_that_grew_past_what_can_be_drawn(tmp_path):
    grown = [1.0, 1e100, 1e249, 1e298, 1.7e308]
    lines = [f"dsgd,{seed},{t},{z},{z},0,{z},,,0,0" for t, z in enumerate(grown) for seed in (0, 1)]
    (tmp_path / "metrics.csv").write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
    for path in draw_run(tmp_path):
        assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.figures
def test_figures_are_pictures(tmp_path):
    stacked(seeds=3, out=str(tmp_path / "run"))
    for name in ("loss.png", "gap.png"):
        assert (tmp_path / "run" / name).read_bytes().startswith(b"\x89PNG")


def test_help_and_version(capsys):
    for words in (["--help"], ["run", "--help"]):
        with pytest.raises(SystemExit) as done:
            main(words)
        assert done.value.code == 0
        assert "mpi-gt run -n 16" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--version"])
    assert mpi_gt.__version__ in capsys.readouterr().out
