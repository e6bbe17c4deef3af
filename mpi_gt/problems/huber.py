"""Robust linear regression: the Huber loss of noisy linear measurements of a common x*."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import kernels
from ..array_files import cast, read_arrays
from ..errors import UserError
from ..kernels import fixed_order
from ..memory import VECTORS
from .base import Array, Constant, Constants, Draws, Place, Problem, require
from .truncated_normal import TruncatedNormal, mass_within, odd_coefficients


class Quantile(NamedTuple):
    """The part of a node without a data file: the quantile function of the noise."""

    coefficients: list[float] | None  # as in TruncatedNormal


class Measurements(NamedTuple):
    """One node's part of a data file."""

    phi: Array  # (d, d)
    theta: Array  # (d,)
    x_star: Array | None  # (d,), if the file has it instead of theta


class Huber(Problem):
    """Robust linear regression with the Huber loss.

        f_i(x) = E sum_j H_k([theta_i + noise - Phi_i x]_j), theta_i = Phi_i x*_i

    H_k(z) is z²/2 for |z| <= k (`threshold`) and k (|z| - k/2) beyond. Phi_i = Q diag(U[0.05, 1])
    Q' with Q a random orthogonal matrix (`phi=diagonal`: Q = I), x* uniform in [-1, 1]^d and
    the same for every node, x*_i = x* + U[-spread, spread]. The noise is N(0, `noise`²) truncated
    to [-`truncate`, `truncate`] (0: none). The paper's H is vector-valued: `reduce` sums it
    or takes its mean. `data` is an .npz file with Phi and either x_star or theta.

    Options:
        dim >= 1, default 10 or that of data: length d of x
        threshold > 0: k, where H turns from quadratic to linear
        reduce: sum or mean of H over the entries of the residual
        spread >= 0: largest distance of a node's x*_i from x*, per entry; 0: one x* for all nodes
        noise >= 0: standard deviation of the noise before it is truncated; 0: no noise
        truncate > 0: bound of the noise, at least noise/1000
        phi: dense for a d x d matrix Phi_i, diagonal for d numbers, which suits a large d
        data FILE.npz, default none: measurements of your own, see `mpi-gt manual data`
    """

    # purposes of random numbers
    X_STAR, PHI, SPREAD, NOISE = range(1, 5)
    SMALL = 64  # largest dense Phi for the compiled gradient: BLAS is faster for a larger one

    def __init__(
        self,
        place: Place,
        *,
        dim: int | None = None,
        threshold: float = 1.0,
        reduce: Literal["sum", "mean"] = "sum",
        spread: float = 0.0,
        noise: float = 0.2,
        truncate: float = 0.1,
        phi: Literal["dense", "diagonal"] = "dense",
        data: str | None = None,
    ) -> None:
        require(dim is None or dim >= 1, f"dim must be at least 1, not {dim}")
        require(0 < threshold < math.inf, f"threshold must be > 0, not {threshold}")
        require(0 <= spread <= 1e100, f"spread must be in [0, 1e100], not {spread}")
        usable = noise == 0 or 1e-100 <= noise <= 1e100
        require(usable, f"noise must be 0, or in [1e-100, 1e100], not {noise}")
        require(0 < truncate <= 1e100, f"truncate must be in (0, 1e100], not {truncate}")
        # below this bound the noise is practically uniform, and cancellation ruins its variance
        require(truncate >= noise / 1000, f"truncate must be at least noise/1000 = {noise / 1000}")
        self.threshold = threshold
        self._multiply = fixed_order.multiply if place.reproducible else np.matmul
        if data is None:
            self.dim = 10 if dim is None else dim
            self._phi, theta = self._generate(place, phi, spread)
        else:
            require(spread == 0, "spread cannot be used with data: put it into the file's x_star")
            require(phi == "dense", "phi=diagonal cannot be used with data")
            self.dim = len(place.part.theta)
            require(dim in (None, self.dim), f"dim is {dim}, but {data} has {self.dim}")
            self._phi, theta = place.part.phi[np.newaxis], place.part.theta
            if place.reproducible and place.part.x_star is not None:
                theta = self._multiply(place.part.phi, place.part.x_star[:, np.newaxis])[:, 0]
            theta = np.repeat(theta[np.newaxis], len(place.seeds), axis=0)
        self._phi = cast("Phi", self._phi, place.dtype)
        self._theta = cast("theta", theta, place.dtype)
        self._common = spread == 0 and data is None  # all nodes have the same minimiser
        self._solvable = data is None  # there is an x without residual
        self._scale = 1 / self.dim if reduce == "mean" else 1.0
        self._distribution = None
        if noise > 0:
            known = place.part.coefficients if isinstance(place.part, Quantile) else None
            self._distribution = TruncatedNormal(noise, truncate, place.reproducible, known)
        self._noise: Draws | None = None
        if self._distribution:
            sample = self._distribution.sample
            if place.dtype != np.float64:
                sample = partial(_rounded, sample, place.dtype)
            self._noise = Draws(place, self.NOISE, self.dim, sample)
        self._compiled = self._compile(place.reproducible)
        if self._compiled is not None and type(self).gradient is Huber.gradient:
            self._kernel = self._compiled  # a subclass may have a gradient of its own

    def _compile(self, reproducible: bool) -> Any:
        """Return the compiled gradient and evaluation; None for a large or diagonal Phi."""
        if kernels.C is None or self._phi.ndim != 3 or self.dim > self.SMALL:
            return None
        return kernels.C.Huber(
            self._phi.transpose(0, 2, 1).copy(),
            self._phi,
            self._theta,
            self.threshold,
            -self._scale,
            self._distribution.numbers if self._distribution else (0.0, 0.0, 1.0, 0.0),
            self._noise,
            self._by_numpy,
            reproducible,
        )

    def _generate(
        self, place: Place, phi: Literal["dense", "diagonal"], spread: float
    ) -> tuple[Array, Array]:
        """Return Phi, (seeds, d, d) or its diagonals (seeds, d), and theta (seeds, d)."""
        uniform = fixed_order.uniform if place.reproducible else np.random.Generator.uniform
        matrices, targets = [], []
        for seed in place.seeds:
            x_star = uniform(place.random(seed, self.X_STAR, shared=True), -1, 1, self.dim)
            if spread > 0:
                random = place.random(seed, self.SPREAD)
                x_star = x_star + uniform(random, -spread, spread, self.dim)
            random = place.random(seed, self.PHI)
            spectrum = uniform(random, 0.05, 1, self.dim)
            if phi == "diagonal":
                matrices.append(spectrum)
                targets.append(spectrum * x_star)
            else:
                q = _random_orthogonal(random, self.dim, place.reproducible)
                matrices.append(self._multiply(q * spectrum, q.T))
                targets.append(self._multiply(matrices[-1], x_star[:, np.newaxis])[:, 0])
        return np.stack(matrices), np.stack(targets)

    def gradient(self, t: int, x: Array) -> Array:
        compute = self._by_numpy if self._compiled is None else self._compiled
        return compute(t, x)

    def _by_numpy(self, t: int, x: Array) -> Array:
        target = self._theta if self._noise is None else self._theta + self._noise.at(t)
        residual = target - self._times_phi(x)
        np.minimum(residual, self.threshold, out=residual)
        np.maximum(residual, -self.threshold, out=residual)
        return self._descent(residual)

    def evaluate(self, x: Array) -> tuple[Array, Array]:
        """Return loss and gradient in closed form: the expectation over the noise is exact."""
        if self._compiled is not None and (result := self._compiled.evaluate(x)) is not None:
            return result
        loss, slope = self._expected_huber(self._theta - self._times_phi(x))
        return self._scale * loss.sum(axis=-1), self._descent(slope)

    def constants(self) -> Constants:
        """Return the constants, exact if f_i is quadratic near an x without residual.

        It is if the noise cannot move a zero residual past the kink of H.
        """
        if self._phi.ndim == 2:
            norm2 = float(np.square(self._phi, dtype=np.float64).max())
        else:
            norm2 = float(np.linalg.norm(self._phi.astype(np.float64), ord=2, axis=(1, 2)).max())
            norm2 *= norm2
        entries = np.square(self._phi, dtype=np.float64).reshape(len(self._phi), -1)
        frobenius2 = float(entries.sum(axis=1).max())
        noise = self._distribution
        quadratic = self._solvable and (noise is None or self.threshold >= noise.c)
        slope = self.threshold * math.sqrt(self.dim * norm2)
        variance = noise.variance * frobenius2 if noise else 0.0
        return Constants(
            L=Constant(self._scale * norm2, quadratic),
            G=Constant(self._scale * slope, self.dim == 1),
            sigma2=Constant(self._scale**2 * variance, quadratic or noise is None),
            f_min=Constant(self._least, self._common),
        )

    def least_value(self) -> float | None:
        """Return the mean loss of the noise alone, if all nodes have the same minimiser."""
        return self._least if self._common else None

    @property
    def _least(self) -> float:
        """The value of f_i at an x without residual."""
        return self._scale * (float(self._expected_huber(np.zeros(1))[0][0]) * self.dim)

    def _times_phi(self, x: Array) -> Array:
        if self._phi.ndim == 2:
            return self._phi * x
        return self._multiply(self._phi, x[..., np.newaxis])[..., 0]

    def _descent(self, slope: Array) -> Array:
        """Return -Phi' slope, scaled."""
        if self._phi.ndim == 2:
            product = self._phi * slope
        else:
            product = self._multiply(slope[..., np.newaxis, :], self._phi)[..., 0, :]
        return product * -self._scale

    def _expected_huber(self, r: Array) -> tuple[Array, Array]:
        """Return E H(r + noise) and E H'(r + noise), entrywise."""
        k = self.threshold
        distance = np.abs(r)
        if self._distribution is None:
            inside = distance <= k
            loss = np.where(inside, 0.5 * r * r, k * (distance - 0.5 * k))
            return loss, np.clip(r, -k, k)
        c = self._distribution.c
        # if the noise cannot reach the kink, one branch of H gives the expectation
        loss = np.where(
            distance <= k - c,
            0.5 * (r * r + self._distribution.variance),
            k * (distance - 0.5 * k),
        )
        slope = np.clip(r, -k, k)
        kink = np.abs(distance - k) < c
        if kink.any():
            loss[kink], slope[kink] = self._expected_at_kink(r[kink])
        return loss, slope

    def _expected_at_kink(self, r: Array) -> tuple[Array, Array]:
        """Return the same for residuals that the noise may move past the kink."""
        assert self._distribution is not None
        k, c = self.threshold, self._distribution.c
        low, high = np.clip(-k - r, -c, c), np.clip(k - r, -c, c)
        end = np.full_like(r, c)
        inner0, inner1, inner2 = self._distribution.moments(low, high)
        above0, above1, _ = self._distribution.moments(high, end)
        below0, below1, _ = self._distribution.moments(-end, low)
        loss = 0.5 * (r * r * inner0 + 2 * r * inner1 + inner2)
        loss += k * ((r - 0.5 * k) * above0 + above1) + k * ((-r - 0.5 * k) * below0 - below1)
        slope = r * inner0 + inner1 + k * above0 - k * below0
        return loss, slope

    @classmethod
    def least_memory(cls, nodes: int, here: int, seeds: int, itemsize: int, **options: Any) -> int:
        """Return the bytes of Phi and of the vectors."""
        dim = max(0, options.get("dim") or 0)
        if options.get("phi") == "diagonal" or options.get("data") is not None:
            return itemsize * here * seeds * dim * (VECTORS + 2)
        # while the last of the nodes is made: the others', its earlier seeds', and three factors
        return dim * dim * (itemsize * (here - 1) * seeds + 8 * (seeds - 1) + 3 * 8)

    @classmethod
    def parts(
        cls,
        nodes: int,
        *,
        data: str | None = None,
        noise: float = 0.2,
        truncate: float = 0.1,
        **options: Any,
    ) -> list[Any] | None:
        """Return one part per node of the file `data`; without one, what all nodes need alike.

        On each rank that would take as long as importing a quarter of numpy.
        """
        if data is not None:
            return _read(Path(data), nodes)
        if not noise > 0:
            return None
        return [Quantile(odd_coefficients(mass_within(noise, truncate)))] * nodes


def _random_orthogonal(random: np.random.Generator, dim: int, reproducible: bool) -> Array:
    """Return a matrix drawn uniformly from all orthogonal ones."""
    if reproducible:
        return fixed_order.orthogonal(fixed_order.standard_normal(random, (dim, dim)))
    q, r = np.linalg.qr(random.standard_normal((dim, dim)))
    q *= np.sign(np.diag(r))  # uniform, whatever signs LAPACK chooses
    return q


def _rounded(sample: Callable[[Array], Array], dtype: np.dtype[Any], uniform: Array) -> Array:
    return sample(uniform).astype(dtype)


def _read(path: Path, nodes: int) -> list[Measurements]:
    """Return Phi and theta of every node from an .npz file, checked."""
    arrays = read_arrays(path, ("Phi", "x_star", "theta"))
    phi = arrays.get("Phi")
    if phi is None or ("x_star" in arrays) == ("theta" in arrays):
        raise UserError(
            f"{path} must hold Phi and either x_star or theta; it holds "
            f"{', '.join(sorted(arrays)) or 'nothing'}"
        )
    if phi.ndim != 3 or phi.shape[1] != phi.shape[2] or phi.shape[1] < 1:
        raise UserError(f"{path}: Phi must have shape (nodes, d, d), not {phi.shape}")
    if len(phi) != nodes:
        raise UserError(f"{path}: Phi is for {len(phi)} nodes, but there are {nodes}")
    name = "theta" if "theta" in arrays else "x_star"
    given = arrays[name]
    expected = [(nodes, phi.shape[1])] + ([(phi.shape[1],)] if name == "x_star" else [])
    if given.shape not in expected:
        shapes = " or ".join(map(str, expected))
        raise UserError(f"{path}: {name} must have shape {shapes}, not {given.shape}")
    given = np.broadcast_to(given, expected[0])
    if name == "theta":
        return [Measurements(a.copy(), b.copy(), None) for a, b in zip(phi, given, strict=True)]
    with np.errstate(over="ignore", invalid="ignore"):
        theta = np.matmul(phi, given[..., np.newaxis])[..., 0]
    theta = cast(f"{path}: Phi x_star", theta, np.float64)
    return [
        Measurements(a.copy(), b.copy(), c.copy())
        for a, b, c in zip(phi, theta, given, strict=True)
    ]
