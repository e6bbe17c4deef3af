"""The theory measured on a run: every sum of the lemmas, at every iteration, over all nodes."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms.gt_adaptive import GTAdaptive
from ..comm.base import NodeLike
from ..config import RunConfig
from . import DIFFERENCES, FORMS, Form, Setting, Start, Sums
from .constants import ProblemConstants, audited_algorithm, combine, setting_of
from .verdicts import Curve, Step, curves, verdicts

Array = NDArray[Any]

IDENTITIES = {
    "a": "mean s = mean g",
    "b": "xbar+ - xbar = -alpha mean(V+^(-1/2) (beta1 m + (1-beta1) s))",
    "c": "zbar+ - zbar = -alpha mean(beta1/(1-beta1) (V+^(-1/2) - V^(-1/2)) m + V+^(-1/2) s)",
    "d": "zbar - xbar = -alpha beta1/(1-beta1) mean(V^(-1/2) m)",
}
TOLERANCES = {"float64": 1e-10, "float32": 1e-4}  # of the identities, relative to 1 + their size


def make_audit(
    config: RunConfig,
    node: NodeLike,
    problem: Any,
    constants: Array | None,
    graph: Mapping[str, Any],
    on_root: Callable[[Callable[[], Any]], Any],
) -> "Audit":
    """Every rank's; `constants` are this node's, `graph` is root's facts of it."""
    assert constants is not None
    algorithm = audited_algorithm(config)
    nodes = node.gather(constants)

    def ask() -> tuple[Setting, ProblemConstants]:
        assert nodes is not None
        known = combine(config, nodes)
        return setting_of(algorithm, known, node.nodes, graph["rho_A"]), known

    return Audit(node, problem, algorithm, config.seed_list, on_root(ask))


class Audit:
    """Looks at each step of a run. All ranks measure, root keeps; the report is root's."""

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
        self._dtype = np.dtype(np.float64)  # that of the run
        self._forms = [form(root[0]) for form in FORMS] if root else []
        self._rows: list[Array] = []  # means over seeds, one row an iteration
        self._steps: dict[str, Step] = {}  # Lemma 1 at its tightest, by form
        self._identities = dict.fromkeys(IDENTITIES, (0.0, 0.0))  # largest error, and relative

    def observe(self, t: int, before: Any, after: Any) -> None:
        """The sums of iteration t, from the states at t and t + 1."""
        b1, node = self._algorithm.beta1, self._node
        if t == 1:
            self._xbar = self._zbar = self._mean(before.x)
            self._dtype = before.x.dtype
        x, s, m, v, g = (array.astype(np.float64) for array in before)
        root = 1 / np.sqrt(after.v.astype(np.float64))
        # m is zero at first, and v, not clipped yet, may be as well
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
        told = node.mean(np.concatenate([scalars, gradient], axis=-1), everywhere=False)
        if told is not None:
            self._keep(t, told, means[2])
            self._check_identities((xbar, zbar), means)

    def _mean(self, z: Array) -> Array:
        mean = self._node.mean(z)
        assert mean is not None
        return mean

    def _keep(self, t: int, told: Array, mbar: Array) -> None:
        """One row of what was measured, and Lemma 1 for each seed."""
        n = self._node.nodes
        x, s, m, v, v_next, noise, *sizes = n * told[:, :10].T
        loss, next_loss = told[:, 10], told[:, 11]
        gradient = _square(told[:, 12:])
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
        found = Step(
            t, self._seeds[at], float(left[at]), float(right[at]), bool(curve.violated[at])
        )
        kept = self._steps.get(form.name)
        if kept is None or _tightness(found) > _tightness(kept):
            self._steps[form.name] = found

    @property
    def _rounding(self) -> float:
        """What rounding may do to a vector, relative to its size."""
        return 100 * float(np.finfo(self._dtype).eps)

    def _check_identities(self, now: tuple[Array, Array], means: list[Array]) -> None:
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
        """What audit.json says, and both sides of every statement by form; on root."""
        if self._root is None:
            return None
        setting, known = self._root
        rows = np.cumsum(self._rows, axis=0).T
        sums, fall, sizes = Sums(*rows[:9]), rows[9], rows[10:]
        floors = self._rounding**2 * sizes
        rounding = sums._replace(**dict(zip("xsmv", floors, strict=True)))
        loss, *deltas = (float(values.mean()) for values in self._start)
        start = Start(loss - known.values["f_star"], *deltas)
        found = {form.name: curves(form, sums, start, fall, rounding) for form in self._forms}
        by_form = {
            form.name: verdicts(form, found[form.name], self._steps[form.name])
            for form in self._forms
        }
        told = {
            name: {form: statements[name] for form, statements in by_form.items()}
            for name in by_form["paper"]
        }
        lasts = dict(zip(Sums._fields, rows[:9, -1].tolist(), strict=True))
        return {
            "setting": vars(setting),
            "constants": known.table(),
            "start": {**start._asdict(), "delta": start.delta},
            "sums": {**lasts, "T": len(self._rows)},
            "identities": self._told_identities(),
            "lemmas": {name: told[name] for name in "123456"},
            "theorem": told["theorem"],
            "corollary": told["corollary"],
            "differences": list(DIFFERENCES),
        }, found

    def _told_identities(self) -> dict[str, dict[str, Any]]:
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
    """A violation before any other step, then by the ratio of the sides."""
    ratio = step.ratio
    return step.violated, -np.inf if ratio is None else ratio
