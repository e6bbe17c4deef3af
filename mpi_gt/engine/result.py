"""The result of a run: as `run` returns it on each rank, or read from a run directory."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..rundir.metrics_csv import parse_rows, read_rows
from ..rundir.run_json import read_profile, require_facts
from .result_tables import ResultTables

Array = NDArray[Any]


@dataclass(frozen=True)
class Result(ResultTables):
    """The result of `run`, on every rank, and of `launch`.

    Attributes
    ----------
    outputs : dict[str, Array]
        This node's x_{T+1} by algorithm, of shape (seeds, dim). In a stacked run and in a result
        of `launch` it holds all nodes: (nodes, seeds, dim). An algorithm that an earlier run has
        finished is not in it, except with `launch`.
    metrics : list[dict[str, Any]]
        The rows of metrics.csv on root; empty on the other ranks.
    facts : dict[str, Any]
        The content of run.json on root; empty on the other ranks.
    profile : dict[str, Any]
        The content of profile.json on root, if the run was profiled; else empty.
    directory : Path or None
        The run directory, if the run has one.
    node : int or None
        The node that this rank was, whose output it has: its rank, unless the option `place` says
        otherwise. None in a stacked run and in a result of `launch`.
    """

    outputs: dict[str, Array]
    metrics: list[dict[str, Any]]
    facts: dict[str, Any]
    profile: dict[str, Any] = field(default_factory=dict)
    directory: Path | None = None
    node: int | None = None

    @property
    def x(self) -> Array:
        """Return the output of the only algorithm; raise UserError if there are several."""
        if len(self.outputs) == 1:
            (only,) = self.outputs.values()
            return only
        if not self.outputs:
            raise UserError("this run has no output x: an earlier one has finished its algorithms")
        names = ", ".join(map(repr, self.outputs))
        raise UserError(
            f"x is for a run of one algorithm, and this is a comparison of {len(self.outputs)}: "
            f"take outputs[NAME] with one of {names}"
        )

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {x.shape}" for name, x in self.outputs.items())
        where = f", directory {self.directory}" if self.directory else ""
        return f"<Result with outputs {{{shapes}}}, {len(self.metrics)} rows of metrics{where}>"


def read_result(directory: Path) -> Result:
    """Return the result of a finished run from its directory, with the outputs of all nodes."""
    facts = require_facts(directory, ("config.iterations",))
    if not facts:
        raise UserError(f"{directory} holds no run: there is no run.json to read")
    table = directory / "metrics.csv"
    read_rows(table)  # raises UserError if it is damaged
    profile = read_profile(directory) if (directory / "profile.json").exists() else {}
    return Result(
        _read_outputs(directory, facts),
        parse_rows(table.read_bytes()),
        facts,
        profile,
        directory.absolute(),
    )


def _read_outputs(directory: Path, facts: dict[str, Any]) -> dict[str, Array]:
    """Return the arrays of final.npz by algorithm; the only one of a run is `x` there."""
    path = directory / "final.npz"
    if not path.exists():  # all algorithms have diverged
        return {}
    from zipfile import BadZipFile  # here: only a run that is read back needs it

    try:
        with np.load(path, allow_pickle=False) as file:
            outputs = {name: file[name] for name in file.files}
    except (OSError, ValueError, BadZipFile) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    if facts["config"].get("algorithms") is None and list(outputs) == ["x"]:
        (label,) = facts.get("results", {"x": None})
        return {label: outputs["x"]}
    return outputs
