"""The call of MPI_Neighbor_allgather without mpi4py in between."""

import numpy as np
import pytest
from mpi4py import MPI

from mpi_gt.comm.exchange import EXCHANGES
from mpi_gt.comm.node import Node
from mpi_gt.graphs import build_network
from mpi_gt.kernels import C

pytestmark = [pytest.mark.mpi, pytest.mark.skipif(C is None, reason="compiled kernels only")]


def fail(code):
    raise MPI.Exception(code)


def make(comm, name="MPI_Neighbor_allgather", datatype=MPI.INT64_T):
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    graph = comm.Create_dist_graph_adjacent([left, right], [left, right])
    send, receive = np.full(3, comm.rank, np.int64), np.zeros((2, 3), np.int64)
    handles = MPI._handleof(datatype), MPI._handleof(graph)
    return graph, receive, lambda: C.Collective(MPI.__file__, name, send, receive, *handles, fail)


def test_it_gathers_from_all_neighbours(comm):
    graph, receive, collective = make(comm)
    collective()()
    graph.Free()
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    assert receive.tolist() == [[left] * 3, [right] * 3]


def test_an_error_of_mpi_is_its_exception(comm):
    graph, _, collective = make(comm, datatype=MPI.DATATYPE_NULL)
    with pytest.raises(MPI.Exception):
        collective()()
    graph.Free()


def test_a_function_that_is_not_there(comm):
    graph, _, collective = make(comm, name="MPI_No_such_function")
    with pytest.raises(LookupError):
        collective()
    graph.Free()


def test_the_exchange_uses_it(comm):
    node = Node(comm, build_network("ring", None, comm.size).row(comm.rank), EXCHANGES["neighbor"])
    node.mix(np.ones((1, 2))).wait()
    starts = [plan._exchange.start for plan in node.plans]
    node.free()
    assert [type(start) for start in starts] == [C.Collective]
