"""`mpi-gt graph`: describe a graph and its mixing matrix, and draw it."""

from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import StorageError, UserError
from ...spec import integer
from . import SETTING, Command

if TYPE_CHECKING:
    from ..parser import Parser

HELP = """\
Describe a graph and its mixing matrix: degrees, diameter, rho_A and spectral gap.

examples:
  mpi-gt graph er:p=0.7 -n 16
  mpi-gt graph torus -n 64 --weights laplacian --plot
  mpi-gt graph edges.txt -n 10 --plot picture.png
  mpi-gt graph nx.circulant_graph:offsets=[1,3] -n 12
"""
EPILOG = """\
`mpi-gt describe graph` lists the graphs, `mpi-gt describe weights` the rules.
"""


def _add_arguments(parser: "Parser") -> None:
    from ..parser import OPTIONS, add_options

    parser.add_argument("graph", metavar="SPEC", help=OPTIONS["--graph"].help)
    parser.add_argument("-n", required=True, metavar="N", help="number of nodes")
    add_options(parser, "--weights")
    parser.add_argument("--plot", nargs="?", const="", metavar="FILE.png", help="draw the graph")
    parser.add_argument("--out", metavar="DIR", help="folder for the picture (default this one)")
    add_options(parser, "--quiet")


def graph(
    graph: str,
    n: str,
    weights: str | None = None,
    plot: str | None = None,
    out: str | None = None,
    quiet: bool = False,
) -> int:
    """Show a graph's properties and draw it where asked; return the exit code."""
    from ... import plots
    from ...display.results import show_graph
    from ...graphs import build_network
    from ...plots.metrics import draw_graph

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
                network.graph, f"{graph}, {nodes} nodes, rho_A {network.rates['A']:.4f}", target
            )
        except StorageError as error:
            raise UserError(str(error)) from None
        except (OSError, ValueError) as error:
            raise UserError(f"cannot write {target}: {error}") from None
        if not quiet:
            print(f"wrote {target}")
    return 0


GRAPH = Command(
    name="graph",
    group=SETTING,
    summary="describe and draw a graph",
    help=HELP,
    epilog=EPILOG,
    add_arguments=_add_arguments,
    alone=graph,
)
