"""The extension as an old processor would run it: the same bits."""

import importlib.machinery
import importlib.util
import subprocess
import sysconfig

import numpy as np
import pytest
from support import ROOT_OF_REPOSITORY

from mpi_gt import kernels
from mpi_gt.compressors import make_compressor
from mpi_gt.kernels.build import FLAGS

pytestmark = pytest.mark.usefixtures("kernels_built", "compiler")

SPECS = ["bfloat16", "float16", "float32", "qsgd:bits=2,block=100", "qsgd", "qsgd:bits=8", "sign",
         "top"]  # fmt: skip


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """The extension without its loops for wide registers."""
    folder = ROOT_OF_REPOSITORY / "mpi_gt" / "kernels"
    target = tmp_path_factory.mktemp("narrow") / "_c.so"
    includes = [f"-I{sysconfig.get_path('include')}", f"-I{np.get_include()}"]
    sources = sorted(map(str, folder.rglob("*.c")))
    words = ["cc", "-shared", "-fPIC", "-DNARROW", "-w", *FLAGS, *includes, *sources]
    subprocess.run([*words, "-o", str(target), "-lm"], check=True, timeout=300)
    loader = importlib.machinery.ExtensionFileLoader("_c", str(target))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("_c", loader))
    loader.exec_module(module)
    return module


def test_products_and_sums(narrow):
    random = np.random.default_rng(1)
    assert narrow.multiply is not kernels.C.multiply
    for dtype in (np.float64, np.float32):
        a = random.standard_normal((37, 301)).astype(dtype)
        b = random.standard_normal((301, 43)).astype(dtype)
        z, labels = random.standard_normal((50, 3, 7)).astype(dtype), random.integers(0, 7, 50)
        results = []
        for module in (narrow, kernels.C):
            out, mixed, slopes, loss = (
                np.empty((1, 37, 43), dtype),
                np.empty_like(b[:37]),
                z.copy(),
                np.zeros(3),
            )
            module.multiply(out, a[np.newaxis], b[np.newaxis], False)
            module.mix_all(mixed, a[:, :37].copy(), b[:37].copy())
            module.slopes(slopes, labels, 0.5, loss, None, True)
            results.append([each.tobytes() for each in (out, mixed, slopes, loss)])
        assert results[0] == results[1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("spec", SPECS)
def test_compressed_vectors(narrow, spec, dtype):
    compressor, random = make_compressor(spec), np.random.default_rng(2)
    z = random.standard_normal((3, 1031)) * 10.0 ** random.integers(-9, 9, (3, 1031))
    z[0, :200] = np.resize([0.0, -0.0, 1.0, -1.0, 65520.0, 6e-8, np.nan, np.inf, -1e300], 200)
    with np.errstate(over="ignore"):
        z = z.astype(dtype)
    uniform = random.random(z.shape) if compressor.random else None
    results = []
    for module in (narrow, kernels.C):
        payload = np.zeros((1, compressor.size(3, 1031, z.dtype)), np.uint8)
        made = np.empty((1, *z.shape), dtype)
        module.encode(compressor.codec(1031), z, payload[0], uniform)
        module.decode(compressor.codec(1031), payload, made)
        results.append([payload.tobytes(), made.tobytes()])
    assert results[0] == results[1]


def test_uniform_numbers(narrow):
    seeds = np.array([3, 2**63 + 1], np.uint64)
    for width, row in ((1, 5), (7, 0), (1031, 3)):
        results = []
        for module in (narrow, kernels.C):
            out = np.empty((4, 2, width))
            module.uniform(out, seeds, 2**40 + 1, 6, row)
            results.append(out.tobytes())
        assert results[0] == results[1]
