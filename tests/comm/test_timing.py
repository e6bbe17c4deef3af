"""`--exchange auto` on real ranks."""

import json


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
