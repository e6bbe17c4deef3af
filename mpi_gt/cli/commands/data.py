"""`mpi-gt data`: list, prepare and verify datasets."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UserError
from ...spec import nearest
from . import SETTING, Command

if TYPE_CHECKING:
    from ...datasets import Dataset
    from ..parser import Parser

HELP = """\
List the datasets, download and prepare them, or check their files.

examples:
  mpi-gt data list
  mpi-gt data prepare mnist                     find or download it, parse it once
  mpi-gt data verify a9a --data-dir /data       check the sha256 of the raw files
"""


def _add_arguments(parser: "Parser") -> None:
    from ..parser import add_options

    parser.add_argument("action", choices=("list", "prepare", "verify"))
    parser.add_argument("name", nargs="?", metavar="NAME", help="the dataset")
    add_options(parser, "--data-dir")
    parser.add_argument("--out", metavar="FILE", help="also write the output to this file")
    add_options(parser, "--quiet")


def data(
    action: str,
    name: str | None = None,
    data_dir: str | None = None,
    out: str | None = None,
    quiet: bool = False,
) -> int:
    """List, prepare or verify datasets; return the exit code."""
    from ...datasets import DATASETS

    if action == "list" and name is not None:
        raise UserError(f"`data list` lists all datasets; it takes no name '{name}'")
    if action != "list" and name is None:
        raise UserError(f"data {action} what? (known: {', '.join(DATASETS)})")
    if name is not None and name not in DATASETS:
        raise UserError(f"unknown dataset '{name}'{nearest(name, DATASETS)}")
    chosen = [DATASETS[name]] if name is not None else list(DATASETS.values())
    act = {"list": _list, "prepare": _prepare, "verify": _verify}[action]
    lines = [line for dataset in chosen for line in act(dataset, data_dir, quiet)]
    if out is not None:
        try:
            # a path may hold bytes that are no text
            Path(out).write_text("\n".join(lines) + "\n", encoding="utf-8", errors="replace")
        except OSError as error:
            raise UserError(f"cannot write {out}: {error.strerror}") from None
    if not quiet:
        print("\n".join(lines))
    return 0


def _list(dataset: "Dataset", data_dir: str | None, quiet: bool) -> list[str]:
    from ...datasets import folders, raw, store

    lines = [
        f"{dataset.name}: {dataset.about}",
        f"  {dataset.rows} rows, {dataset.features} features, {dataset.classes} classes",
    ]
    for file in dataset.files:
        found = raw.find_raw(dataset, file, data_dir)
        lines.append(
            f"  {file.name}: {found or 'not here; would be downloaded from ' + file.urls[0]}"
        )
    ready = store.is_prepared(dataset)
    lines.append(f"  prepared: {folders.prepared_folder(dataset) if ready else 'no'}")
    return lines


def _prepare(dataset: "Dataset", data_dir: str | None, quiet: bool) -> list[str]:
    from ...datasets import store

    folder = store.prepare(
        dataset,
        data_dir,
        (lambda text: None) if quiet else (lambda text: print(f"mpi-gt: {text}", file=sys.stderr)),
        progress=not quiet and sys.stderr.isatty(),
    )
    return [f"{dataset.name} is prepared in {folder}"]


def _verify(dataset: "Dataset", data_dir: str | None, quiet: bool) -> list[str]:
    from ...datasets import folders, raw

    lines = []
    for file in dataset.files:
        path = raw.find_raw(dataset, file, data_dir)
        if path is None:
            searched = folders.raw_folders(data_dir)
            places = ", ".join(str(folder / dataset.name) for folder in searched)
            raise UserError(f"{file.name} of {dataset.name} is in none of: {places}")
        raw.read_verified(file, path)
        lines.append(f"{path}: sha256 {file.sha256}, as published")
    return lines


DATA = Command(
    name="data",
    group=SETTING,
    summary="list, prepare or verify datasets",
    help=HELP,
    add_arguments=_add_arguments,
    alone=data,
)
