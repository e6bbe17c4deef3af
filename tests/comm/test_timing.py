"""`--exchange auto` on real ranks."""

import json

from mpi4py import MPI

from mpi_gt.comm.exchange import Persistent
from mpi_gt.comm.timing import _text_of


def test_a_missing_call_is_named():
    assert "argument" in _text_of(MPI.Exception(MPI.ERR_ARG)).lower()
    assert _text_of(NotImplementedError()) == "NotImplementedError"
    # mpi4py of an MPI 3 library, such as Debian's Open MPI 4.1
    assert "MPI_Neighbor_allgather_init" in _text_of(NotImplementedError(), Persistent.needs)


def test_auto_takes_one_of_the_sensible_exchanges(openmpi, call, tmp_path):
    options = ["run", "-n", "3", "--iterations", "20", "--quiet"]
    call(openmpi.mpi_gt(*options, "--exchange", "auto", "--out", tmp_path / "auto"))
    call(openmpi.mpi_gt(*options, "--out", tmp_path / "plain"))
    chosen = json.loads((tmp_path / "auto" / "run.json").read_text())["exchange"]
    assert chosen["name"] == min(chosen["auto"], key=chosen["auto"].get)
    assert set(chosen["auto"]) >= {"neighbor", "p2p"}
    assert (tmp_path / "auto" / "final.npz").read_bytes() == (
        tmp_path / "plain" / "final.npz"
    ).read_bytes()
