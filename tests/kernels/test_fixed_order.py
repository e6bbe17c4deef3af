"""Products and functions with the same bits on every processor."""

import importlib.machinery
import importlib.util
import subprocess
import sysconfig

import numpy as np
import pytest
from scipy import special
from support import ROOT_OF_REPOSITORY

from mpi_gt import kernels
from mpi_gt.errors import UserError
from mpi_gt.kernels import fixed_order
from mpi_gt.kernels.build import FLAGS

pytestmark = pytest.mark.usefixtures("kernels_built")

SHAPES = [
    (1, 1, 1),
    (3, 5, 7),
    (32, 784, 10),
    (10, 32, 784),
    (1, 300, 90),
    (260, 513, 270),
    (5, 0, 3),
]


def one_after_the_other(a, b):
    """Return a @ b, each entry added up from its first term to its last."""
    out = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for k in range(a.shape[1]):
        out += a[:, k, np.newaxis] * b[k]
    return out


def matrices(m, k, n, dtype):
    random = np.random.default_rng([m, k, n])
    return (random.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_add_up_one_term_after_the_other(shape, dtype):
    a, b = matrices(*shape, dtype)
    expected = one_after_the_other(a, b)
    assert fixed_order.multiply(a, b).tobytes() == expected.tobytes()
    transposed = fixed_order.multiply(b.T, a.T).T
    assert transposed.tobytes() == expected.tobytes()
    np.testing.assert_array_equal(fixed_order.multiply(np.asfortranarray(a), b), expected)
    stack = fixed_order.multiply(np.stack([a, -a, 2 * a]), np.stack([b, b, b])[:, ::1])
    np.testing.assert_array_equal(stack, [expected, -expected, 2 * expected])


def test_products_are_added_to_what_is_there():
    a, b = matrices(6, 600, 9, np.float64)
    first, second = slice(0, 300), slice(300, 600)
    out = fixed_order.multiply(a[:, first], b[first])
    fixed_order.multiply(a[:, second], b[second], out)
    np.testing.assert_array_equal(out, one_after_the_other(a, b))


def test_products_of_different_dtypes_are_those_of_the_wider():
    a, b = matrices(4, 5, 6, np.float32)
    made = fixed_order.multiply(a, b.astype(np.float64))
    np.testing.assert_array_equal(made, one_after_the_other(a.astype(np.float64), b))


def test_matrices_that_do_not_fit_are_refused():
    for shapes in [((2, 3), (4, 5)), ((2, 3), (3,))]:
        with pytest.raises((ValueError, IndexError)):
            fixed_order.multiply(*map(np.zeros, shapes))


def test_functions_are_accurate():
    random = np.random.default_rng(0)
    x = -np.abs(random.standard_normal(20000)) * 60
    np.testing.assert_allclose(fixed_order.exp(x), np.exp(x), rtol=5e-16)
    assert fixed_order.exp(np.array([0.0, -701.0, -np.inf])).tolist() == [1, 0, 0]
    y = np.append(np.exp(random.uniform(-740, 700, 20000)), random.uniform(0.5, 2, 20000))
    np.testing.assert_allclose(kernels.C.elementary(1, y), np.log(y), rtol=3e-16)
    z = random.uniform(-7, 7, 20000)
    np.testing.assert_allclose(fixed_order.erf(z), special.erf(z), rtol=4e-15)
    p = np.append(random.uniform(0, 1, 20000), 10 ** -random.uniform(1, 300, 2000))
    np.testing.assert_allclose(fixed_order.quantile(p), special.ndtri(p), rtol=3e-15)
    assert fixed_order.quantile(np.array([0.0, 0.5, 1.0])).tolist() == [-np.inf, 0, np.inf]


def test_orthogonal_matrices_are_those_of_lapack():
    z = np.random.default_rng(0).standard_normal((30, 30))
    q, r = np.linalg.qr(z)
    made = fixed_order.orthogonal(z)
    np.testing.assert_allclose(made, q * np.sign(np.diag(r)), rtol=0, atol=1e-13)
    np.testing.assert_allclose(made.T @ made, np.eye(30), rtol=0, atol=1e-14)


def test_without_the_kernels_there_is_one_message(by_numpy, monkeypatch):
    with pytest.raises(UserError, match="compiled kernels: install"):
        by_numpy(fixed_order.require_kernels)
    monkeypatch.setenv("MPI_GT_KERNELS", "numpy")
    with pytest.raises(UserError, match="unset MPI_GT_KERNELS"):
        by_numpy(fixed_order.require_kernels)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """The extension without its loops for AVX2, as an old processor would run it."""
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


@pytest.mark.usefixtures("compiler")
def test_processors_without_avx2_give_the_same_bits(narrow):
    random = np.random.default_rng(1)
    assert narrow.multiply is not kernels.C.multiply
    for dtype in (np.float64, np.float32):
        a, b = matrices(37, 301, 43, dtype)
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
