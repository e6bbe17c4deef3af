"""One node's rows of a dataset, for problems that users write."""

import contextlib
import fcntl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import datasets
from ..errors import UserError
from ..spec import nearest
from .softmax_data import SYNTHETIC

if TYPE_CHECKING:
    from .base import Place

Array = NDArray[Any]

PARTS = ("train", "test")


def rows_of_dataset(
    place: "Place", name: str, split: str, part: str, split_seed: int
) -> tuple[Array, Array]:
    """Return the features and labels of `place.dataset`, which describes the arguments."""
    if part not in PARTS:
        raise UserError(f"the part of a dataset must be train or test, not {part!r}")
    if not isinstance(split_seed, int) or not 0 <= split_seed < 2**63:
        raise UserError(f"split_seed must be in [0, 2^63), not {split_seed!r}")
    try:
        datasets.parse_split(split)
    except (ValueError, AttributeError):
        hint = f"; for that part give part='{split}'" if split in PARTS else ""
        raise UserError(
            f"split must be iid, label or dirichlet:CONC with CONC > 0, not {split!r}{hint}"
        ) from None
    source = _open(place, name, part, split_seed)
    labels = source.labels()
    try:
        mine = datasets.rows_of_node(split, labels, place.node, place.nodes, split_seed)
    except (ValueError, OverflowError) as error:
        raise UserError(f"dataset {name}: {error}") from None
    features = source.read(mine).astype(place.dtype)
    features *= place.dtype.type(source.scale)
    return features, labels[mine].astype(np.intp)


def _open(place: "Place", name: str, part: str, seed: int) -> datasets.Source:
    """Return one part of a dataset, prepared if it was not."""
    if name == "synthetic":
        rows = SYNTHETIC["rows"] if part == "train" else SYNTHETIC["rows"] // 4
        features, classes = SYNTHETIC["features"], SYNTHETIC["classes"]
        return datasets.Synthetic(rows, features, classes, seed, part=PARTS.index(part))
    if name not in datasets.DATASETS:
        known = [*datasets.DATASETS, "synthetic"]
        raise UserError(f"unknown dataset {name!r}{nearest(str(name), known)}")
    dataset = datasets.DATASETS[name]
    _prepare(dataset, place.data_dir)
    source = datasets.Prepared.of(dataset, part)
    if not source.exists():
        raise UserError(f"dataset {name} has no {part} part")
    return source


def _prepare(dataset: datasets.Dataset, data_dir: str | None) -> None:
    """Prepare a dataset that is not in the cache: one process of this host, while others wait."""
    from ..datasets.store import is_prepared, prepare

    if is_prepared(dataset):
        return
    with alone(datasets.prepared_folder(dataset)):
        if not is_prepared(dataset):
            prepare(dataset, data_dir, _say)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a lock beside the folder, so that no other process of this host prepares it."""
    path = folder.with_name(f".{folder.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise UserError(f"cannot prepare {folder}: {error.strerror or error}") from None
    with file:
        with contextlib.suppress(OSError):  # a file system without locks: all of them prepare it
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(f"mpi-gt: {text}", file=sys.stderr, flush=True)
