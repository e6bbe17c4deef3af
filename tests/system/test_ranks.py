"""The tests of tests/ranks, started under mpirun on both MPIs and several numbers of ranks."""

from pathlib import Path

import pytest

RANKS = Path(__file__).parent.parent / "ranks"
THE_NUMBERS = "not backwards and (equals_stacked or all_exchanges)"


@pytest.mark.parametrize("n", [1, 2, 5])
def test_ranks(openmpi, n, call, tmp_path):
    require_all_pass(openmpi, n, "", call, tmp_path)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_ranks_of_mpich(mpich, n, call, tmp_path):
    """All tests on two ranks only: more ranks compete for the cores, and MPICH's never yield."""
    only = {1: THE_NUMBERS, 2: "", 5: "not backwards and all_exchanges"}
    require_all_pass(mpich, n, only[n], call, tmp_path)


def test_ranks_without_the_kernels(openmpi, call, tmp_path):
    """The code that sends and sums exists twice, in C and in Python."""
    require_all_pass(openmpi, 3, "not backwards", call, tmp_path, MPI_GT_KERNELS="numpy")


def test_sixteen_ranks(openmpi, call, tmp_path):
    """The tests that depend on the number of ranks; for MPICH, test_launch has one on 16 ranks."""
    names = ("every_algorithm", "all_exchanges", "all_nodes", "topology", "mean_is", "side_by_side")
    require_all_pass(openmpi, 16, f"not backwards and ({' or '.join(names)})", call, tmp_path)


def require_all_pass(mpi, n, only, call, tmp_path, **env):
    words = mpi.mpirun(n, mpi.python, str(RANKS), str(tmp_path), "-k", only)
    done = call(words, env=env, limit=600)
    assert " passed" in done.out, str(done)
    assert "skipped" not in done.out, str(done)
    assert "leaked" not in done.err, str(done)
    assert "failed" not in done.out, str(done)
