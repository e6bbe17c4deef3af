"""The start of each node: its part of the problem, and x_1 of a file or of the problem."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..array_files import cast, read_array
from ..config import RunConfig
from ..errors import UserError
from ..problems import Problem
from ..user_classes import call_user_code, is_custom
from .user_code.checks import require_like, require_parts

Array = NDArray[Any]


def problem_parts(config: RunConfig, nodes: int) -> list[Any]:
    """Return the data that root sends to each node's problem, None each if there is none."""
    name, kind, options = config.parse_problem()
    if not hasattr(kind, "parts"):
        return [None] * nodes
    parts = call_user_code(
        f"problem {name}: parts",
        lambda: kind.parts(nodes, **options),
        is_custom(config.problem),
    )
    return require_parts(name, parts, nodes)


def require_start_shape(name: str, shape: tuple[int, ...], nodes: int, seeds: int) -> None:
    """Raise UserError unless an array of this shape can be the start of these nodes and seeds."""
    if not shape or shape[:-1] not in ((), (nodes,), (seeds,), (nodes, seeds)):
        shapes = dict.fromkeys(["(d,)", f"({nodes}, d)", f"({seeds}, d)", f"({nodes}, {seeds}, d)"])
        *first, last = shapes
        expected = f"{', '.join(first)} or {last}"
        raise UserError(f"{name} has shape {shape}, not {expected} ({nodes} nodes, {seeds} seeds)")


def read_starts(config: RunConfig, nodes: int, warnings: list[str]) -> list[Array | None]:
    """Return each node's x_1 from the file of --x1, (d,) or (seeds, d); None each without a file.

    The rows of a table are the nodes' if there are as many, and else the seeds'. Called on root.
    """
    if config.x1 is None:
        return [None] * nodes
    x1, seeds = read_array(Path(config.x1)), config.seeds
    require_start_shape(config.x1, x1.shape, nodes, seeds)
    if x1.ndim == 2 and len(x1) == nodes == seeds > 1:
        warnings.append(
            f"{config.x1} has one row per node, and as many as there are seeds: row i is the "
            f"start of node i (for one row per seed, give shape ({nodes}, {seeds}, d))"
        )
    of_nodes = x1.ndim == 3 or (x1.ndim == 2 and len(x1) == nodes)
    return list(x1) if of_nodes else [x1] * nodes


def first_estimate(config: RunConfig, name: str, problem: Any, start: Array | None) -> Array:
    """Return x_1 of one node, (seeds, dim): `start` of a file, else the problem's, else zeros."""
    dim, dtype = int(problem.dim), config.numpy_dtype
    x1 = np.zeros((config.seeds, dim), dtype)
    if start is not None and start.shape[-1] != dim:
        raise UserError(
            f"{config.x1} is for {start.shape[-1]} dimensions, but the problem has {dim}"
        )
    if start is not None:
        x1[:] = cast(str(config.x1), start, dtype)
    elif has_own_start(problem):
        for row, seed in enumerate(config.seed_list):
            x1[row] = _start(f"{name}.start", problem, seed, dim, dtype)
    x1.flags.writeable = False  # in a comparison all algorithms start from this array
    return x1


def _start(what: str, problem: Any, seed: int, dim: int, dtype: np.dtype[Any]) -> Array:
    """Return the problem's x_1 of one seed, checked."""
    start = call_user_code(what, lambda: problem.start(seed))
    require_like(what, start, (dim,))
    bad = np.flatnonzero(~np.isfinite(start))
    if len(bad):
        raise UserError(f"{what}({seed}): entry {bad[0]} is {start[bad[0]]}: x_1 must be finite")
    return cast(f"{what}({seed})", start, dtype)


def has_own_start(problem: Any) -> bool:
    """Return whether the problem has a start that is not the zeros of the base class."""
    return getattr(type(problem), "start", Problem.start) is not Problem.start


def shared_start(config: RunConfig, problem: Any, x1: Array) -> str:
    """Return the digest of an x_1 that must be the same on every node; "": it may differ."""
    if config.x1 is not None or not has_own_start(problem):
        return ""
    if getattr(problem, "start_differs", False):
        return ""
    return hashlib.sha256(x1.tobytes()).hexdigest()
