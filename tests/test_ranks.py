"""Starts the tests in tests/ranks under mpirun, on both MPIs and several numbers of ranks."""

from pathlib import Path

import pytest

RANKS = Path(__file__).parent / "ranks"


@pytest.mark.parametrize("n", [1, 2, 4, 5, 16])
def test_ranks(mpi, n, call, tmp_path):
    # 16 ranks on a few cores are slow: one communicator is enough there
    only = ["-k", "not backwards"] if n == 16 else []
    done = call(mpi.mpirun(n, mpi.python, str(RANKS), str(tmp_path), *only), limit=600)
    assert " passed" in done.out, str(done)
    assert "skipped" not in done.out, str(done)
    assert "leaked" not in done.err, str(done)
    assert "failed" not in done.out, str(done)
