"""The relay of what mpirun writes, and the report of a rank that ends the run."""

import subprocess
import sys

from mpi_gt.launchers.detect import OUTCOME
from mpi_gt.launchers.relay import BEGIN, END, Relay, send_report


def relay(code: str) -> Relay:
    """Relay the output of a Python program, in the place of mpirun."""
    words = [sys.executable, "-c", f"import sys, time\n{code}"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    passed = Relay(process)
    process.wait(timeout=60)
    passed.finish()
    return passed


def test_output_is_passed_on(capfdbinary):
    assert relay(r"print('out'); sys.stderr.write('err \x1e\n \xff')").report is None
    assert capfdbinary.readouterr() == (b"out\n", "err \x1e\n \xff".encode())


def test_a_report_ends_the_output(capfd):
    """It may come in pieces; what mpirun and the other ranks say after it is dropped."""
    half = len(BEGIN) // 2
    pieces = ["before", BEGIN[:half], BEGIN[half:] + b'"the ', b'disk is full"' + END, "after"]
    texts = [piece if isinstance(piece, str) else piece.decode() for piece in pieces]
    code = f"""
for text in {texts!r}:
    sys.stderr.write(text), sys.stderr.flush(), time.sleep(0.1)
time.sleep(60)
"""
    assert relay(code).report == "the disk is full"
    assert capfd.readouterr() == ("", "before")


def test_a_process_that_survives_mpirun_is_not_waited_for(capfd):
    code = "import subprocess; print('out', flush=True); subprocess.Popen(['sleep', '20'])"
    relay(code)
    assert capfd.readouterr().out == "out\n"


def test_a_rank_under_a_bare_mpirun_has_nobody_to_report_to(monkeypatch):
    monkeypatch.delenv(OUTCOME, raising=False)
    assert not send_report("the disk is full")
