"""`--reproducible` on real ranks: the same bits on every processor, with both MPIs and stacked."""

import hashlib

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("kernels_built")

OLD = {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX2 FMA3"}


def digest(mpi, call, out, *words, env=None):
    """Return the digests of the metrics without their seconds, and of x."""
    command = mpi.mpi_gt("run", *words, "--iterations=15", "--log-every=5", "--seeds=2")
    call([*command, "--reproducible", "--quiet", f"--out={out}"], env=env or {}, limit=120)
    lines = (out / "metrics.csv").read_text().splitlines()
    seconds = lines[0].split(",").index("seconds")
    cells = [line.split(",") for line in lines]
    rows = repr([row[:seconds] + row[seconds + 1 :] for row in cells])
    x = np.load(out / "final.npz")["x"]
    return hashlib.sha256(rows.encode()).hexdigest(), hashlib.sha256(x.tobytes()).hexdigest()


@pytest.mark.parametrize("problem", ["huber", "softmax:classes=3", "mlp:hidden=5"])
def test_the_bits_depend_on_no_mpi_and_no_processor(openmpi, mpich, problem, call, tmp_path):
    words = "-n3", f"--problem={problem}"
    first = digest(openmpi, call, tmp_path / "openmpi", *words)
    assert digest(mpich, call, tmp_path / "mpich", *words, env=OLD) == first
    stacked = digest(openmpi, call, tmp_path / "stacked", *words, "--stacked", env=OLD)
    assert stacked[1] == first[1]  # its metrics are added up in another order


def test_without_the_kernels_there_is_one_message(openmpi, call, tmp_path):
    words = openmpi.mpi_gt("run", "-n", "2", "--reproducible", f"--out={tmp_path / 'out'}")
    done = call(words, env={"MPI_GT_KERNELS": "numpy"}, expect=2, limit=60)
    assert done.err.count("reproducible needs the compiled kernels") == 1
    assert not (tmp_path / "out").exists()
