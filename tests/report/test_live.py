"""`mpi-gt watch --web`: the page follows a run to its end."""

import fcntl
import json
import os
import re
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
from support import finish, start

import mpi_gt
from mpi_gt.cli.commands.watch import watch
from mpi_gt.cli.main import main
from mpi_gt.report import live


class Run:
    """A run that seems to go on: its rows come one after the other."""

    def __init__(self, folder):
        mpi_gt.run(stacked=True, n=3, iterations=20, log_every=1, out=str(folder), seeds=2)
        self.folder, self.table = folder, folder / "metrics.csv"
        self.lines = self.table.read_text().splitlines(keepends=True)
        self.set_status("running")
        self.show(5)
        self._held = self.table.open("rb")
        fcntl.flock(self._held, fcntl.LOCK_EX)  # as a living run does

    def show(self, iterations, torn=""):
        with self.table.open("r+") as file:  # never empty, as when a run adds lines
            file.write("".join(self.lines[: 1 + 2 * (iterations + 1)]) + torn)
            file.truncate()

    def set_status(self, status):
        facts = json.loads((self.folder / "run.json").read_text())
        facts.update(status=status, process={"host": socket.gethostname(), "pid": os.getpid()})
        part = self.folder / "run.json.new"
        part.write_text(json.dumps(facts))
        part.replace(self.folder / "run.json")

    def close(self):
        self._held.close()


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path / "run")
    yield run
    run.close()


@contextmanager
def watched(folder, capsys):
    """Watch a run in a thread; give the address of the page and the thread."""
    options = {"web": True, "every": "0.05"}
    thread = threading.Thread(target=watch, args=(str(folder),), kwargs=options, daemon=True)
    thread.start()
    end = time.monotonic() + 20
    said = ""
    while "Ctrl-C" not in said:
        assert time.monotonic() < end
        said += capsys.readouterr().out
        time.sleep(0.02)
    yield re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", said)[0], thread, said
    assert not thread.is_alive()


def fetch(address, have=0):
    with urllib.request.urlopen(f"{address}data?have={have}", timeout=30) as answer:
        return json.loads(answer.read())


def wait_for(address, condition):
    have, end = 0, time.monotonic() + 20
    while True:
        told = fetch(address, have)
        assert told["schema"] == 1
        if condition(told):
            return told
        assert time.monotonic() < end
        have = told["version"]


def last_iteration(told):
    return told["page"]["curves"][0]["across"]["iteration"][-1]


def test_a_run_is_followed_to_its_end(run, capsys, monkeypatch):
    monkeypatch.setattr(live, "LINGER", 0.5)
    with watched(run.folder, capsys) as (address, thread, said):
        port = address.split(":")[2].split("/")[0]
        assert f"ssh -N -L {port}:127.0.0.1:{port} " in said
        told = fetch(address)
        assert (told["state"], last_iteration(told)) == ("live", 5)
        assert told["said"].startswith("running · gt-adaptive · 5/20")
        assert told["title"].startswith("running 25% run")
        sections = dict(told["sections"])
        assert list(sections)[:3] == ["states", "curves", "summary"]
        run.show(8)
        told = wait_for(address, lambda told: last_iteration(told) == 8)
        # what is half-written waits for its other half, without a warning
        row = run.lines[1 + 2 * 9].rstrip("\n")
        for torn in (row[:-1], row[:20], "gt"):
            run.show(8, torn)
            told = fetch(address, told["version"])
            assert last_iteration(told) == 8
            assert "warning" not in dict(told["sections"])["states"]
        run.show(20)
        run.set_status("finished")
        told = wait_for(address, lambda told: told["state"] == "over")
        assert last_iteration(told) == 20
        assert told["said"].startswith("finished")
        thread.join(20)
    assert "its page: mpi-gt report" in capsys.readouterr().out
    with pytest.raises(urllib.error.URLError):
        fetch(address)


def test_open_requests_get_the_last_state(run, capsys, monkeypatch):
    monkeypatch.setattr(live, "LINGER", 0.3)
    got = []
    with watched(run.folder, capsys) as (address, thread, _):
        have = fetch(address)["version"]
        tabs = [threading.Thread(target=lambda: got.append(fetch(address, have))) for _ in range(3)]
        for tab in tabs:
            tab.start()
        time.sleep(0.3)
        run.set_status("finished")
        for tab in tabs:
            tab.join(20)
        thread.join(20)
    assert [told["state"] for told in got] == ["over"] * 3


def test_a_run_that_is_over_needs_no_page(run, capsys):
    run.set_status("stopped")
    assert main(["watch", str(run.folder), "--web"]) == 0
    said = capsys.readouterr().out
    assert "there is nothing to follow" in said
    assert "http" not in said


def test_a_sweep_without_points_is_waited_for(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(live, "LINGER", 0.1)
    grid = tmp_path / "grid"
    mpi_gt.sweep({"lr": [0.01]}, n=3, algorithms="gt", iterations=3, stacked=True, out=str(grid))
    (grid / "points").rename(tmp_path / "later")
    facts = json.loads((grid / "run.json").read_text())
    facts.update(status="running", process={"host": socket.gethostname(), "pid": os.getpid()})
    (grid / "run.json").write_text(json.dumps(facts))
    with watched(grid, capsys) as (address, thread, _):
        assert fetch(address)["page"]["curves"] == []
        (tmp_path / "later").rename(grid / "points")
        told = wait_for(address, lambda told: told["page"]["curves"])
        assert "1 of 1 points done" in told["said"]
        (grid / "run.json").write_text(json.dumps({**facts, "status": "finished"}))
        thread.join(20)


def test_ctrl_c_ends_the_page_and_not_the_run(run, openmpi, tmp_path):
    view = start(openmpi.mpi_gt("watch", "run", "--web", "--every", "0.1"), cwd=tmp_path)
    assert view.stdout.readline().startswith("the page about run")
    address = view.stdout.readline().strip()
    told = fetch(address)
    assert told["state"] == "live"
    got = []
    tab = threading.Thread(target=lambda: got.append(fetch(address, told["version"])))
    tab.start()
    time.sleep(0.3)
    view.send_signal(signal.SIGINT)
    done = finish(view, 20)
    tab.join(20)
    assert (done.code, done.err) == (0, "")
    assert got[0]["state"] == "ended"
    assert "mpi-gt watch was ended" in got[0]["said"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--web", "--once"], "give one of the two"),
        (["--port", "8000"], "--port is the port of --web"),
        (["--web", "--port", "0"], r"--port must be in [1, 65535]"),
        (["--web", "--port", "65536"], r"--port must be in [1, 65535]"),
        (["--web", "--port", "x"], "--port"),
        (["--web", "--every", "0"], "--every must be"),
    ],
)
def test_options_that_make_no_sense(run, capsys, words, said):
    assert main(["watch", str(run.folder), *words]) == 2
    assert said in capsys.readouterr().err


def test_a_port_in_use_is_one_message(run, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["watch", str(run.folder), "--web", "--port", str(port)]) == 2
    assert f"cannot listen at port {port}" in capsys.readouterr().err


def test_no_run_no_page(tmp_path, capsys):
    assert main(["watch", str(tmp_path), "--web"]) == 2
    assert "holds no run" in capsys.readouterr().err


def test_a_browser_shows_what_is_new_and_keeps_the_end(run, capsys, browser, monkeypatch):
    """What the reader has chosen stays; the last state stays when the server has gone."""
    monkeypatch.setattr(live, "LINGER", 1.0)
    browser.problems.clear()
    with watched(run.folder, capsys) as (address, thread, _):
        browser.open(address)
        last = "document.getElementById('curves-plot').data.at(-1).x.at(-1)"
        assert browser.do(last) == 5
        assert "5/20" in browser.do("document.getElementById('note').textContent")
        browser.do("document.querySelector('input[name=metric][value=loss]').click()")
        browser.do("document.querySelector('input[name=seeds][value=mean]').click()")
        browser.do("document.querySelector('#runs summary').click()")
        browser.do("document.querySelectorAll('#summary thead button')[1].click()")
        browser.do("window.mark = document.getElementById('curves')")
        run.show(11)
        browser.wait(f"{last} === 11")
        assert browser.do("chosen('metric')") == "loss"
        assert browser.do("document.getElementById('curves') === window.mark")
        assert browser.do("document.querySelector('#runs details').open")
        assert browser.do("document.querySelectorAll('#summary th')[1].ariaSort") == "ascending"
        assert browser.do("document.title").startswith("running 55%")
        run.show(20)
        run.set_status("finished")
        browser.wait("document.body.dataset.live === 'over'")
        thread.join(20)
    assert browser.do(last) == 20
    assert "finished" in browser.do("document.getElementById('states').textContent")
    assert "the last state" in browser.do("document.getElementById('note').textContent")
    time.sleep(0.5)
    assert browser.do("document.body.dataset.live") == "over"
    outside = [url for url in browser.requests if url.startswith("http") and address not in url]
    assert outside == []
    assert browser.problems == []
