"""Damaged files of ours, over all commands that read them: exit 0 or 2, never a traceback.

Every key of every file is dropped or replaced in turn, by each kind of wrong value. $MPI_GT_DAMAGE
sets how many of these cases are tried: 1 for all of them.
"""

import hashlib
import itertools
import json
import os
import shutil
import signal
import zipfile

import pytest
from resuming import WORDS, run, stopped

from mpi_gt.cli.main import main
from mpi_gt.rundir.checkpoint import MAGIC

EVERY = int(os.environ.get("MPI_GT_DAMAGE", "29"))  # of the cases, one in so many is tried
LIMIT = 30  # seconds per command
DEEP = "\0deep\0"
WRONG = {
    "dropped": None,
    "null": None,
    "text": "text",
    "empty text": "",
    "true": True,
    "list": [],
    "list of lists": [[None]],
    "table": {},
    "zero": 0,
    "minus one": -1,
    "half": 0.5,
    "large": 1e308,
    "huge": 10**400,
    "enormous": 1e999,
    "nan": float("nan"),
    "deep": DEEP,
}
RUN = {"status": ["status", "{}"], "watch": ["watch", "{}", "--once"], "report": ["report", "{}"]}
COST = ["predict", "--latency", "2us", "--bandwidth", "1GB/s"]
PREDICTIONS = {
    "check": [*COST, "--check", "{}"],
    "profile": [*COST, "-n", "4", "--profile", "{}"],
    "bench": ["predict", "-n", "4", "--compute", "1us", "--bench", "{}"],
}
STUDY = ["reproduce", "huber", "--stacked", "-n", "3", "--iterations", "4", "--seeds", "2"]
PROFILE = {
    "iterations": 40,
    "seconds_per_iteration": 0.02,
    "phases": {
        name: {"mean": 1e-5, "share": 0.1, "imbalance": None, "by_rank": [1e-5, 2e-5]}
        for name in ("unattributed", "update", "packing", "exchange", "gradient", "metric")
    },
    "waiting": {"mean": 0.01, "share": 0.5, "by_rank": [0.01, 0.01]},
    "exposed_communication": 0.01,
    "hidden_share": 0.0,
    "ratio_to_stacked": 1.5,
    "bytes_by_rank": [6400, 6400],
    "traffic": [[0, 6400], [6400, 0]],
    "straggler": {"node": 1, "excess": 1e-3},
    "own_seconds": 5e-5,
}
FIT = {"exchange": "neighbor", "graph": None, "latency": 1e-6, "per_message": 1e-7}
BENCH = {
    "plan": {"n": 2},
    "hosts": ["a", "a"],
    "rows": [
        {"graph": "ring", "degree": 1, "exchange": "neighbor", "bytes": size, "median": 1e-5,
         "p95": 2e-5} for size in (16, 1600)
    ],
    "fits": [{**FIT, "bandwidth": 1e9, "r2": 1.0, "worst": 0.1}],
}  # fmt: skip


def stop_second(patch):
    """Request a stop of the second algorithm of a comparison before its iteration 30."""
    from mpi_gt.engine.checkpointer import Checkpointer

    poll_stop, seen = Checkpointer.poll_stop, []

    def asking(self, t):
        if t == 30:
            seen.append(t)
            self._stop.requested = len(seen) > 1
        poll_stop(self, t)

    patch.setattr(Checkpointer, "poll_stop", asking)
    patch.setattr("mpi_gt.engine.stop.POLL_SECONDS", 0)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run that was stopped, a comparison, a profiled run and the results of a bench."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        stopped(patch, folder / "stopped", "--checkpoint-every", "10")
        stop_second(patch)
        words = ["compare", *WORDS[1:], "--algorithms", "gt,dsgd", "--quiet"]
        assert main([*words, "--out", str(folder / "compared")]) == 85
    run(folder / "profiled")
    facts = json.loads((folder / "profiled" / "run.json").read_text())
    facts.update(ranks_per_core=1.0)
    (folder / "profiled" / "run.json").write_text(json.dumps(facts))
    (folder / "profiled" / "profile.json").write_text(json.dumps(PROFILE))
    with zipfile.ZipFile(folder / "profiled" / "final.npz") as archive:
        archive.extract("x.npy", folder / "profiled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPI_GT_TRIAL", "4")
        assert main([*STUDY, "--out", str(folder / "study")]) == 0
    (folder / "bench").mkdir()
    (folder / "bench" / "bench.json").write_text(json.dumps(BENCH))
    return folder


@pytest.fixture
def attempt(made, tmp_path, capsys, monkeypatch):
    """A function that damages one file of a fresh copy, and runs a command on it.

    The damage is a function of the path, or another content.
    """
    monkeypatch.setattr("mpi_gt.report.page.read_bundle", lambda: "")
    numbers = itertools.count()
    before = signal.signal(signal.SIGALRM, lambda number, frame: pytest.fail("it hangs"))

    def attempt(name, file, damage, words, case):
        folder = tmp_path / str(next(numbers))
        shutil.copytree(made / name, folder)
        if callable(damage):
            damage(folder / file)
        else:
            (folder / file).write_bytes(damage)
        capsys.readouterr()
        words = [word.format(folder) for word in words]
        words += ["--out", f"{tmp_path}/report.html"] if words[0] == "report" else []
        signal.alarm(LIMIT)
        try:
            code = main(words)
        except BaseException as error:
            raise AssertionError(f"{case}: {' '.join(words)}") from error
        finally:
            signal.alarm(0)
        err = capsys.readouterr().err
        # 1: where a checkpoint belongs there is a folder, so that the run cannot go on
        assert code in (0, 2) or (code, case[-1]) == (1, "folder"), f"{case}: {code}, {err}"
        assert "Traceback" not in err, f"{case}: {err}"
        assert err.count("mpi-gt: error:") == (code != 0), f"{case}: exit code {code}, {err}"
        shutil.rmtree(folder)
        return code

    yield attempt
    signal.signal(signal.SIGALRM, before)


def keys_of(content, place=()):
    """Return the places of all values: all keys of tables, and the first of each list."""
    inner = content.items() if isinstance(content, dict) else enumerate(content[:1])
    for key, value in inner:
        yield (*place, key)
        if isinstance(value, dict | list):
            yield from keys_of(value, (*place, key))


def damaged(content, place, kind):
    """Return the JSON text of the content with a wrong value at that place."""
    copy = json.loads(json.dumps(content))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    if kind == "dropped":
        del inner[place[-1]]
    else:
        inner[place[-1]] = WRONG[kind]
    return json.dumps(copy).replace(json.dumps(DEEP), "[" * 100_000 + "]" * 100_000)


def cases(content):
    """Return every nth of all cases, evenly over places and kinds."""
    every = itertools.product(keys_of(content), WRONG)
    return [case for number, case in enumerate(every) if number % EVERY == number // 16 % EVERY]


@pytest.mark.parametrize(
    ("name", "file", "commands"),
    [
        ("stopped", "run.json", {**RUN, "resume": ["resume", "{}", "--quiet"]}),
        ("compared", "run.json", {"resume": ["resume", "{}", "--quiet"]}),
        ("profiled", "run.json", PREDICTIONS),
        ("profiled", "profile.json", {**RUN, **PREDICTIONS}),
        ("bench", "bench.json", {"bench": PREDICTIONS["bench"], "report": RUN["report"]}),
    ],
)
def test_json_with_wrong_keys(made, attempt, name, file, commands):
    content = json.loads((made / name / file).read_text())
    for number, (place, kind) in enumerate(cases(content)):
        text = damaged(content, place, kind).encode()
        # each case with one command, unless all are asked for
        chosen = list(commands.values())
        chosen = chosen if EVERY == 1 else [chosen[number % len(chosen)]]
        for words in chosen:
            attempt(name, file, text, words, (place, kind))


def test_a_study(made, attempt, monkeypatch):
    """A run of a study that is damaged is refused; nothing is written over it."""
    monkeypatch.setenv("MPI_GT_TRIAL", "4")
    words = [*STUDY, "--out", "{}"]
    facts = json.loads((made / "study" / "dsgd" / "run.json").read_text())
    for place, kind in cases(facts):
        attempt(
            "study", "dsgd/run.json", damaged(facts, place, kind).encode(), words, (place, kind)
        )
    for kind in ("cut", "pipe", "folder", "device", "hole", "bytes", "empty"):
        for name in ("run.json", "metrics.csv"):
            attempt("study", f"dsgd/{name}", WHOLE[kind], words, (name, kind))
    lines = (made / "study" / "dsgd" / "metrics.csv").read_text().splitlines()
    for number, cell in itertools.product(range(0, len(lines[0].split(",")), 2), ("", "nan", "x")):
        cells = lines[2].split(",")
        cells[number] = cell
        text = "\n".join([*lines[:2], ",".join(cells), *lines[3:]]) + "\n"
        attempt("study", "dsgd/metrics.csv", text.encode(), words, (number, cell))
    without = "\n".join([*lines[:2], *lines[3:]]) + "\n"
    assert attempt("study", "dsgd/metrics.csv", without.encode(), words, ("row", "dropped")) == 2


def replace_by_pipe(path):
    path.unlink()
    os.mkfifo(path)


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


def replace_by_device(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def replace_by_hole(path):
    with path.open("r+b") as file:
        file.truncate(1 << 42)


def cut(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


WHOLE = {
    "cut": cut,
    "pipe": replace_by_pipe,
    "folder": replace_by_folder,
    "device": replace_by_device,
    "hole": replace_by_hole,
    "empty": b"",
    "open": b"{",
    "null": b"null",
    "list": b"[]",
    "text": b'"text"',
    "number": b"7",
    "bytes": b"\xff\xfe\x00",
    "zeros": b"\0" * 999,
    "deep": b"[" * 10**6,
    "poor": b'{"config": {"iterations": 5}}',
}


@pytest.mark.parametrize("kind", WHOLE)
def test_other_things_than_the_file(attempt, kind):
    resume = {"resume": ["resume", "{}", "--quiet"]}
    for name, file, commands in (
        ("stopped", "run.json", {**RUN, **resume}),
        ("profiled", "run.json", PREDICTIONS),
        ("profiled", "profile.json", {**RUN, **PREDICTIONS}),
        ("bench", "bench.json", {"bench": PREDICTIONS["bench"], "report": RUN["report"]}),
        ("stopped", "checkpoints/a/node-00000", {**RUN, **resume}),
        ("stopped", "metrics.csv", RUN),
    ):
        for words in commands.values():
            attempt(name, file, WHOLE[kind], words, (file, kind))


def test_rows_of_metrics(made, attempt):
    lines = (made / "stopped" / "metrics.csv").read_text().splitlines()
    wrong = ["", "text", "-1", "nan", "inf", "9" * 30, "9" * 5000, '"', "1e5", "\0", "ü"]
    commands = [*RUN.values(), ["resume", "{}", "--quiet"]]
    columns = range(len(lines[0].split(",")))
    every = enumerate(itertools.product((0, 1, -1), columns, wrong))
    for number, (line, column, cell) in itertools.islice(every, 0, None, min(EVERY, 7)):
        cells = lines[line].split(",")
        cells[column] = cell
        text = "\n".join([*lines[:line], ",".join(cells), *lines[line:][1:]]) + "\n"
        words = commands[number // min(EVERY, 7) % len(commands)]
        attempt("stopped", "metrics.csv", text.encode(), words, (line, column, cell))


def test_headers_of_checkpoints(made, attempt):
    """Even a part that was sealed with a wrong header is refused, or not needed."""
    path = made / "stopped" / "checkpoints" / "a" / "node-00000"
    content = path.read_bytes()
    line, _, arrays = content[len(MAGIC) + 65 :].partition(b"\n")
    header = json.loads(line)
    for place, kind in cases(header):
        text = damaged(header, place, kind).encode() + b"\n" + arrays
        sealed = MAGIC + hashlib.sha256(text).hexdigest().encode() + b"\n" + text
        for words in (RUN["status"], RUN["watch"], ["resume", "{}", "--quiet"]):
            attempt("stopped", "checkpoints/a/node-00000", sealed, words, (place, kind))


def test_arrays(attempt, tmp_path, made):
    """An .npz or .npy file of a user, of which any byte may be wrong."""
    whole = (made / "profiled" / "final.npz").read_bytes()
    array = (made / "profiled" / "x.npy").read_bytes()
    for number, content in enumerate((whole, array)):
        step = max(1, len(content) * min(EVERY, 10) // 300)
        for place in range(0, len(content), step):
            flipped = bytearray(content)
            flipped[place] ^= 0xFF
            for words in (
                ["theory", "-n", "4", "--x1", "{}/x.npy", "--json"],
                ["run", "--stacked", "-n", "4", "--iterations", "1", "--quiet", "--out",
                 f"{tmp_path}/out-{number}-{place}", "--problem", "softmax:data={}/x.npy"],
                ["graph", "ring", "-n", "4", "--weights", "{}/x.npy", "--quiet"],
            ):  # fmt: skip
                attempt("profiled", "x.npy", flipped, words, (place,))


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "hole"])
def test_files_of_users(attempt, tmp_path, kind):
    for words in (
        ["theory", "-n", "4", "--x1", "{}/x.npy"],
        ["theory", "{}/x.npy"],
        ["graph", "ring", "-n", "4", "--weights", "{}/x.npy"],
        ["graph", "{}/x.npy", "-n", "4"],
        ["run", "--stacked", "-n", "4", "--out", f"{tmp_path}/a", "--problem",
         "softmax:data={}/x.npy"],
        ["run", "--stacked", "-n", "4", "--out", f"{tmp_path}/b", "--problem",
         "softmax:libsvm={}/x.npy"],
        ["run", "-n", "4", "--out", f"{tmp_path}/c", "--hostfile", "{}/x.npy"],
        ["run", "{}/x.npy"],
    ):  # fmt: skip
        assert attempt("profiled", "x.npy", WHOLE[kind], words, (kind,)) == 2
