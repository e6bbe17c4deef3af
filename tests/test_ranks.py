"""Starts the tests in tests/ranks under mpirun, on both MPIs and several numbers of ranks."""

from pathlib import Path

import pytest

RANKS = Path(__file__).parent / "ranks"


@pytest.mark.parametrize("n", [1, 2, 4, 5, 16])
def test_ranks(mpi, n, call, tmp_path):
    only = ""
    if n in (4, 16) or (n, mpi.name) == (5, "mpich"):
        only = "not backwards"  # many ranks on a few cores are slow: one communicator is enough
    if (n, mpi.name) == (16, "mpich"):  # whose ranks take the cores from each other
        only += "".join(f" and not {way}" for way in ("nonblocking", "p2p", "rma", "allgather"))
        only += " and not pickle"
    done = call(mpi.mpirun(n, mpi.python, str(RANKS), str(tmp_path), "-k", only), limit=600)
    assert " passed" in done.out, str(done)
    assert "skipped" not in done.out, str(done)
    assert "leaked" not in done.err, str(done)
    assert "failed" not in done.out, str(done)
