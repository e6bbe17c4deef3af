"""The build of the kernels: its sources, its version, and runs with and without them."""

import importlib
import json

import numpy as np
import pytest
from support import ROOT_OF_REPOSITORY

from mpi_gt import kernels

pytestmark = pytest.mark.usefixtures("kernels_built")


def test_kernels_of_another_version_are_not_used(monkeypatch):
    assert kernels.C.VERSION == kernels.VERSION
    try:
        with monkeypatch.context() as patch:
            patch.setattr(kernels.C, "VERSION", 1)
            with pytest.warns(UserWarning, match="install it again"):
                assert importlib.reload(kernels).C is None
    finally:
        assert importlib.reload(kernels).C is not None


def test_a_run_without_the_kernels(tmp_path, call, openmpi):
    """The numbers are the same but for rounding; run.json says which kernels were used."""
    outputs = []
    for name in ("c", "numpy"):
        out = tmp_path / name
        words = openmpi.mpi_gt("run", "-n", "4", "--iterations=200", "--seeds=3", f"--out={out}")
        call([*words, "--quiet"], env={"MPI_GT_KERNELS": name})
        assert json.loads((out / "run.json").read_text())["kernels"] == name
        outputs.append(np.load(out / "final.npz")["x"])
    np.testing.assert_allclose(*outputs, rtol=0, atol=1e-11)


def test_every_source_is_built():
    listed = (ROOT_OF_REPOSITORY / "pyproject.toml").read_text()
    for path in (ROOT_OF_REPOSITORY / "mpi_gt" / "kernels").rglob("*.[ch]"):
        assert f'"{path.relative_to(ROOT_OF_REPOSITORY)}"' in listed
