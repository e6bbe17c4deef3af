"""Compressed messages under a real mpirun: the bits of a stacked run, and the bytes on the wire."""

import csv
from pathlib import Path

import numpy as np

SHIM = Path(__file__).parent / "count_bytes.c"
HEADER = 16  # bytes
METHODS = (
    "gt-adaptive-compressed:beta=0,period=7,compress=sign",
    "beer:compress=qsgd,bits=2",
    "choco-sgd:compress=top",
    "lead:compress=bfloat16",
)
SIZES = {  # bytes of a vector of 246 entries, and of its place in a message
    "none": (1968, 1968),
    "bfloat16": (492, 496),
    "qsgd": (139, 144),
    "sign": (39, 40),
    "top": (300, 304),
}


def outputs(directory):
    with np.load(directory / "final.npz") as file:
        return {name: file[name].tobytes() for name in file.files}


def test_ranks_have_the_bits_of_a_stacked_run(mpich, call, tmp_path):
    words = ["compare", "-n", "4", "--iterations", "20", "--seeds", "2", "--quiet"]
    words += ["--algorithms", ",".join(METHODS), "--out"]
    call(mpich.mpi_gt(*words, tmp_path / "stacked", "--stacked"))
    expected = outputs(tmp_path / "stacked")
    assert len(expected) >= len(METHODS)
    for exchange in ("neighbor", "nonblocking", "shared"):
        call(mpich.mpi_gt(*words, tmp_path / exchange, "--exchange", exchange))
        assert outputs(tmp_path / exchange) == expected


def test_the_bytes_that_are_counted_are_sent(mpi, call, tmp_path):
    """What reaches the library, less header and padding, is what metrics.csv says."""
    shim = tmp_path / "count.so"
    call([mpi.mpicc(tmp_path), "-shared", "-fPIC", "-o", shim, SHIM])
    methods = ",".join(f"beer:compress={name}" for name in SIZES)
    words = ["compare", "-n", "4", "--graph", "ring", "--iterations", "30", "--quiet"]
    words += ["--problem", "huber:dim=246", "--algorithms", methods, "--out", tmp_path / "run"]
    done = call(mpi.mpi_gt(*words), env={"LD_PRELOAD": str(shim)})
    lines = [line.split()[1:] for line in done.err.splitlines() if line.startswith("bytes")]
    calls = str(30 * len(SIZES))
    assert sorted(line[:2] for line in lines) == [[str(rank), calls] for rank in range(4)]
    messages = 30 * 4 * 2
    sent = sum(int(line[2]) for line in lines)
    assert sent == messages * sum(HEADER + 2 * padded for _, padded in SIZES.values())
    with (tmp_path / "run" / "metrics.csv").open() as file:
        counted = {row["algorithm"]: int(row["bytes"]) for row in csv.DictReader(file)}
    expected = {f"beer:compress={name}": 2 * messages * size for name, (size, _) in SIZES.items()}
    assert counted == expected
