"""Products and functions with the same bits on every processor."""

import numpy as np
import pytest
from scipy import special

from mpi_gt import kernels
from mpi_gt.errors import UserError
from mpi_gt.kernels import fixed_order

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
