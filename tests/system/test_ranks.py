"""The tests of tests/ranks, started under mpirun on both MPIs and several numbers of ranks."""

from pathlib import Path

import pytest

RANKS = Path(__file__).parent.parent / "ranks"
FORWARDS = "not backwards"
"""Without the communicator in reverse order, which is our code's concern and no library's."""
NUMBERS = f"{FORWARDS} and (equals_stacked or all_exchanges)"
SHORT = f"{FORWARDS} and not same_bits_on_layers and not every_variant and not float32"
"""Every exchange on every kind of graph a few times, without runs of many methods by each."""


@pytest.mark.parametrize("n", [1, 2, 5])
def test_ranks(openmpi, n, call, tmp_path):
    require_all_pass(openmpi, n, FORWARDS if n < 5 else "", call, tmp_path)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_ranks_of_mpich(mpich, n, call, tmp_path):
    """Most tests on two ranks only: more compete for the cores, and MPICH's never yield."""
    only = {1: NUMBERS, 2: FORWARDS, 5: f"{SHORT} and (all_exchanges or mean_is)"}
    require_all_pass(mpich, n, only[n], call, tmp_path)


def test_ranks_without_the_kernels(openmpi, call, tmp_path):
    """The code that sends and sums exists twice, in C and in Python."""
    # test_layers has directed graphs; test_collective is about a kernel
    only = f"{FORWARDS} and not test_directed and not oracles and not test_collective"
    require_all_pass(openmpi, 3, only, call, tmp_path, MPI_GT_KERNELS="numpy")


def test_sixteen_ranks(openmpi, call, tmp_path):
    """The tests that depend on the number of ranks; for MPICH, test_launch has one on 16 ranks."""
    names = ("every_algorithm", "all_exchanges", "all_nodes", "topology", "mean_is", "side_by_side")
    require_all_pass(openmpi, 16, f"{SHORT} and ({' or '.join(names)})", call, tmp_path)


def require_all_pass(mpi, n, only, call, tmp_path, **env):
    words = mpi.mpirun(n, mpi.python, str(RANKS), str(tmp_path), "-k", only)
    done = call(words, env=env, limit=600)
    assert " passed" in done.out, str(done)
    assert "skipped" not in done.out, str(done)
    assert "leaked" not in done.err, str(done)
    assert "failed" not in done.out, str(done)
