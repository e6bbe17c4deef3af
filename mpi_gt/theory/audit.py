"""Audit of the theory on a run: every sum of the lemmas, measured at every iteration."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms.gt_adaptive import GTAdaptive
from ..comm.base import NodeLike
from ..config import RunConfig
from . import DIFFERENCES, FORMS, Form, Setting, Start, Sums
from .constants import ProblemConstants, audited_algorithm, combine, rho_of, setting_of
from .verdicts import Curve, Step, curves, verdicts

Array = NDArray[Any]

IDENTITIES = {
    "a": "mean s = mean g",
    "b": "xbar+ - xbar = -alpha mean(V+^(-1/2) (beta1 m + (1-beta1) s))",
    "c": "zbar+ - zbar = -alpha mean(beta1/(1-beta1) (V+^(-1/2) - V^(-1/2)) m + V+^(-1/2) s)",
    "d": "zbar - xbar = -alpha beta1/(1-beta1) mean(V^(-1/2) m)",
}
TOLERANCES = {"float64": 1e-10, "float32": 1e-4}  # relative to 1 + the size of both sides


def make_audit(
    config: RunConfig,
    node: NodeLike,
    problem: Any,
    constants: Array | None,
    graph: Mapping[str, Any],
    on_root: Callable[[Callable[[], Any]], Any],
) -> "Audit":
    """Return the audit of a run. Collective: every rank calls it.

    `constants` are those of this node's f_i; `graph` holds the facts of the graph, on root only.
    """
    assert constants is not None
    algorithm = audited_algorithm(config)
    nodes = node.gather(constants)

    def make_setting() -> tuple[Setting, ProblemConstants]:
        assert nodes is not None
        known = combine(config, nodes)
        return setting_of(algorithm, known, node.nodes, rho_of(graph)), known

    return Audit(node, problem, algorithm, config.seed_list, on_root(make_setting))


class Audit:
    """An observer of every step of a run. All ranks measure; only root keeps the sums."""

    def __init__(
        self,
        node: NodeLike,
        problem: Any,
        algorithm: GTAdaptive,
        seeds: tuple[int, ...],
        root: tuple[Setting, ProblemConstants] | None,
    ) -> None:
        self._node = node
        self._problem = problem
        self._algorithm = algorithm
        self._seeds = seeds
        self._root = root
        self._dtype = np.dtype(np.float64)  # of the states; known at the first step
        self._forms = [form(root[0]) for form in FORMS] if root else []
        self._rows: list[Array] = []  # means over seeds, one row per iteration
        self._steps: dict[str, Step] = {}  # by form, the step at which Lemma 1 is tightest
        # the largest error of each, absolute and relative
        self._identities = dict.fromkeys(IDENTITIES, (0.0, 0.0))

    def observe(self, t: int, before: Any, after: Any) -> None:
        """Measure the sums of iteration t from the states at t and t + 1. Collective."""
        b1, node = self._algorithm.beta1, self._node
        if t == 1:
            self._xbar = self._zbar = self._mean(before.x)
            self._dtype = before.x.dtype
        x, s, m, v, g = (array.astype(np.float64) for array in before)
        root = 1 / np.sqrt(after.v.astype(np.float64))
        # at t = 1 m is zero, and v, which is not clipped yet, may be zero too
        old_m = m / np.sqrt(v) if t > 1 else np.zeros_like(m)
        vectors = [after.x, s, m, v, after.v, g, root * (b1 * m + (1 - b1) * s), root * s]
        vectors += [root * m - old_m, old_m]
        means = np.split(self._mean(np.concatenate(vectors, axis=-1)), len(vectors), axis=-1)
        xbar, self._xbar = self._xbar, means[0]
        zbar, self._zbar = self._zbar, (means[0] - b1 * xbar) / (1 - b1)

        loss, gradient = self._problem.evaluate(xbar)
        next_loss, _ = self._problem.evaluate(self._zbar)
        eta = g - self._problem.evaluate(x)[1]
        pairs = [(x, xbar), (s, means[1]), (m, means[2]), (v, means[3]), (after.v, means[4])]
        squares = [_square(one - mean) for one, mean in pairs]
        squares += [_square(one) for one in (eta, x, s, m, v)]
        scalars = np.stack([*squares, loss, next_loss], axis=-1)
        measured = node.mean(np.concatenate([scalars, gradient], axis=-1), everywhere=False)
        if measured is not None:
            self._keep(t, measured, means[2])
            self._check_identities((xbar, zbar), means)

    def _mean(self, z: Array) -> Array:
        mean = self._node.mean(z)
        assert mean is not None
        return mean

    def _keep(self, t: int, measured: Array, mbar: Array) -> None:
        """Append one row of sums, and check Lemma 1 for each seed."""
        n = self._node.nodes
        x, s, m, v, v_next, noise, *sizes = n * measured[:, :10].T
        loss, next_loss = measured[:, 10], measured[:, 11]
        gradient = _square(measured[:, 12:])
        if t == 1:
            self._start = loss, x, v, s
            self._loss = loss
        one = np.ones(len(loss))
        sums = Sums(one, x, s, m, n * _square(mbar), v, v_next, gradient, noise)
        fall = next_loss - self._loss
        floor = self._rounding * (np.abs(self._loss) + np.abs(next_loss))
        for form in self._forms:
            self._tighten(t, form, fall + form.descent * gradient, form.lemma1(sums), floor)
        self._loss = next_loss
        self._rows.append(np.array([*sums, fall, *sizes]).mean(axis=1))

    def _tighten(self, t: int, form: Form, left: Array, right: Any, floor: Array) -> None:
        """Keep the step at which Lemma 1 is nearest to failing."""
        curve = Curve(left, right, floor)
        at = curve.worst()
        step = Step(t, self._seeds[at], float(left[at]), float(right[at]), bool(curve.violated[at]))
        tightest = self._steps.get(form.name)
        if tightest is None or _tightness(step) > _tightness(tightest):
            self._steps[form.name] = step

    @property
    def _rounding(self) -> float:
        """A bound on the rounding error of a vector, relative to its size."""
        return 100 * float(np.finfo(self._dtype).eps)

    def _check_identities(self, now: tuple[Array, Array], means: list[Array]) -> None:
        """Keep the largest error of each identity; `now` is xbar and zbar at t."""
        a, b1 = self._algorithm.lr, self._algorithm.beta1
        xbar, zbar = now
        share = b1 / (1 - b1)
        step, along, turn, momentum = means[6:]
        size = 1 + np.linalg.norm(xbar, axis=-1) + np.linalg.norm(self._xbar, axis=-1)
        errors = {
            "a": (means[1] - means[5], 1 + np.linalg.norm(means[5], axis=-1)),
            "b": (self._xbar - xbar + a * step, size),
            "c": (self._zbar - zbar + a * (share * turn + along), size / (1 - b1)),
            "d": (zbar - xbar + a * share * momentum, size / (1 - b1)),
        }
        for name, (vector, scale) in errors.items():
            error = np.linalg.norm(vector, axis=-1)
            worst, relative = self._identities[name]
            self._identities[name] = (
                max(worst, float(error.max())),
                max(relative, float((error / scale).max())),
            )

    def report(self) -> tuple[dict[str, Any], dict[str, dict[str, Curve]]] | None:
        """Return the content of audit.json, and the curves of every statement by form.

        None on ranks other than root.
        """
        if self._root is None:
            return None
        setting, known = self._root
        rows = np.cumsum(self._rows, axis=0).T
        sums, fall, sizes = Sums(*rows[:9]), rows[9], rows[10:]
        floors = self._rounding**2 * sizes
        rounding = sums._replace(**dict(zip("xsmv", floors, strict=True)))
        loss, *deltas = (float(values.mean()) for values in self._start)
        start = Start(loss - known.values["f_star"], *deltas)
        curves_by_form = {
            form.name: curves(form, sums, start, fall, rounding) for form in self._forms
        }
        by_form = {
            form.name: verdicts(form, curves_by_form[form.name], self._steps[form.name])
            for form in self._forms
        }
        by_statement = {
            name: {form: statements[name] for form, statements in by_form.items()}
            for name in by_form["paper"]
        }
        lasts = dict(zip(Sums._fields, rows[:9, -1].tolist(), strict=True))
        return {
            "setting": vars(setting),
            "constants": known.table(),
            "start": {**start._asdict(), "delta": start.delta},
            "sums": {**lasts, "T": len(self._rows)},
            "identities": self._identity_verdicts(),
            "lemmas": {name: by_statement[name] for name in "123456"},
            "theorem": by_statement["theorem"],
            "corollary": by_statement["corollary"],
            "differences": list(DIFFERENCES),
        }, curves_by_form

    def _identity_verdicts(self) -> dict[str, dict[str, Any]]:
        tolerance = TOLERANCES[self._dtype.name]
        return {
            name: {
                "says": IDENTITIES[name],
                "error": error,
                "verdict": "holds" if relative <= tolerance else "violated",
            }
            for name, (error, relative) in self._identities.items()
        }


def _square(vectors: Array) -> Array:
    return np.asarray(np.square(vectors).sum(axis=-1))


def _tightness(step: Step) -> tuple[bool, float]:
    """Return a sort key: a violation is tighter than any other step, then the ratio decides."""
    ratio = step.ratio
    return step.violated, -np.inf if ratio is None else ratio
