"""The bytes between nodes as a list of edges, and the length of a trace."""

import numpy as np
import pytest

from mpi_gt.performance.profiler import MOST_EVENTS, shortened
from mpi_gt.plots.performance import traffic_matrix


def profile(nodes, edges):
    return {"iterations": 10, "bytes_by_rank": [0] * nodes, "traffic_edges": edges}


def test_edges_make_the_matrix_of_former_versions():
    now = profile(3, [[0, 1, 40], [2, 0, 70]])
    then = {
        "iterations": 10,
        "bytes_by_rank": [0] * 3,
        "traffic": [[0, 40, 0], [0] * 3, [70, 0, 0]],
    }
    for each in (now, then):
        matrix, group = traffic_matrix(each)
        assert group == 1
        np.testing.assert_array_equal(matrix, [[0, 4, 0], [0, 0, 0], [7, 0, 0]])
    assert traffic_matrix(profile(1, []))[0].tolist() == [[0]]


def test_many_nodes_are_drawn_in_groups():
    edges = [[node, (node + 1) % 1000, 10] for node in range(1000)]
    matrix, group = traffic_matrix(profile(1000, edges))
    assert group == 8
    assert matrix.shape == (125, 125)
    assert matrix.sum() == 1000
    assert matrix[0, 0] == 7
    assert matrix[124, 0] == 1


@pytest.mark.parametrize("nodes", [2, 16, 256])
def test_a_trace_of_a_hundred_iterations_is_kept(nodes):
    assert shortened(range(50, 150), nodes, 2 * nodes) == (range(50, 150), None)


def test_a_longer_trace_is_cut_with_a_warning():
    kept, warning = shortened(range(50, 150), 10_000, 20_000)
    assert kept == range(50, 57)
    assert len(kept) * (20 * 10_000 + 4 * 20_000) <= MOST_EVENTS
    assert "iterations 50 to 56 only" in warning
    assert shortened(range(1, 2), 10**6, 10**7) == (range(1, 2), None)
    assert len(shortened(range(1, 9), 10**6, 10**7)[0]) == 1
