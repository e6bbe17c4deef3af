"""The commands that need no ranks: graphs, datasets, lists of hosts, looking at runs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UserError
from ..spec import convert, integer, nearest

if TYPE_CHECKING:
    from ..datasets import Dataset


def describe_graph(
    graph: str,
    n: str,
    weights: str | None = None,
    plot: str | None = None,
    out: str | None = None,
    quiet: bool = False,
) -> int:
    """The command `graph`."""
    from .. import plots
    from ..display.results import show_graph
    from ..graphs import build_network, rho
    from ..plots.metrics import draw_graph

    nodes = integer("-n", n)
    if not 1 <= nodes <= 20000:  # the matrix is dense
        raise UserError(f"-n must be in [1, 20000], not {n}")
    if plot is not None and not plots.available():
        raise UserError("--plot needs matplotlib: pip install 'mpi-gt[plot]'")
    network = build_network(graph, weights, nodes)
    if not quiet:
        show_graph(graph, weights or "metropolis", network)
    if plot is not None:
        name = "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(graph).name)
        target = Path(out or ".") / (plot or f"graph-{name}-{nodes}.png")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            draw_graph(
                network.graph, f"{graph}, {nodes} nodes, rho_A {rho(network.matrix):.4f}", target
            )
        except (OSError, ValueError) as error:
            raise UserError(f"cannot write {target}: {error}") from None
        if not quiet:
            print(f"wrote {target}")
    return 0


def write_hostfile(nodes: str, mpi: str, out: str | None = None) -> int:
    """The command `hostfile`."""
    from ..launch.hostfile import hostfile_text, parse_nodes

    text = hostfile_text(parse_nodes(nodes), mpi)
    if out is None:
        print(text, end="")
        return 0
    try:
        Path(out).write_text(text.replace("THIS_FILE", out), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}") from None
    print(f"wrote {out}")
    return 0


def manage_data(
    action: str,
    name: str | None = None,
    data_dir: str | None = None,
    out: str | None = None,
    quiet: bool = False,
) -> int:
    """The command `data`."""
    from ..datasets import DATASETS

    if action == "list" and name is not None:
        raise UserError(f"`data list` lists them all; it takes no name '{name}'")
    if action != "list" and name is None:
        raise UserError(f"data {action} what? (known: {', '.join(DATASETS)})")
    if name is not None and name not in DATASETS:
        raise UserError(f"unknown dataset '{name}'{nearest(name, DATASETS)}")
    chosen = [DATASETS[name]] if name is not None else list(DATASETS.values())
    act = {"list": _list_dataset, "prepare": _prepare_dataset, "verify": _verify_dataset}[action]
    lines = [line for dataset in chosen for line in act(dataset, data_dir, quiet)]
    if out is not None:
        try:
            Path(out).write_text("\n".join(lines) + "\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {out}: {error.strerror}") from None
    if not quiet:
        print("\n".join(lines))
    return 0


def _list_dataset(dataset: "Dataset", data_dir: str | None, quiet: bool) -> list[str]:
    from ..datasets import store

    lines = [
        f"{dataset.name}: {dataset.about}",
        f"  {dataset.rows} rows, {dataset.features} features, {dataset.classes} classes",
    ]
    for file in dataset.files:
        found = store.find_raw(dataset, file, data_dir)
        lines.append(
            f"  {file.name}: {found or 'not here; would be downloaded from ' + file.urls[0]}"
        )
    ready = store.is_prepared(dataset)
    lines.append(f"  prepared: {store.prepared_folder(dataset) if ready else 'no'}")
    return lines


def _prepare_dataset(dataset: "Dataset", data_dir: str | None, quiet: bool) -> list[str]:
    from ..datasets import store

    folder = store.prepare(
        dataset,
        data_dir,
        (lambda text: None) if quiet else (lambda text: print(f"mpi-gt: {text}", file=sys.stderr)),
        progress=not quiet and sys.stderr.isatty(),
    )
    return [f"{dataset.name} is prepared in {folder}"]


def _verify_dataset(dataset: "Dataset", data_dir: str | None, quiet: bool) -> list[str]:
    from ..datasets import store

    lines = []
    for file in dataset.files:
        path = store.find_raw(dataset, file, data_dir)
        if path is None:
            places = ", ".join(str(folder / dataset.name) for folder in store.raw_folders(data_dir))
            raise UserError(f"{file.name} of {dataset.name} is in none of: {places}")
        store.read_verified(file, path)
        lines.append(f"{path}: sha256 {file.sha256}, as published")
    return lines


def show_status(directories: list[str]) -> int:
    """The command `status`."""
    from ..display.results import show_runs
    from ..rundir.status import status_row

    show_runs([status_row(Path(directory)) for directory in directories])
    return 0


def write_report(directories: list[str], out: str = "report.html", quiet: bool = False) -> int:
    """The command `report`."""
    from ..report.page import write_page

    size = write_page([Path(directory) for directory in directories], Path(out))
    if not quiet:
        print(f"wrote {out} ({size / 1e6:.1f} MB)")
    return 0


def watch_run(directory: str, once: bool = False, every: str = "1") -> int:
    """The command `watch`."""
    from .watch import watch

    pause = convert("--every", float, every)
    if not 0.05 <= pause <= 86400:
        raise UserError(f"--every must be in [0.05, 86400] seconds, not {every}")
    return watch(Path(directory), once, pause)
