"""`mpi-gt graph`: describe a graph and its mixing matrices, and draw it."""

from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import StorageError, UserError
from ...spec import integer
from . import SETTING, Command

if TYPE_CHECKING:
    from ..parser import Parser

HELP = """\
Describe a graph and its mixing matrix: degrees, diameter, rho_A and spectral gap.

rho_A is the factor by which a mixing step brings the nodes closer, at least. A directed graph has
weights of two kinds: `pull`, whose rows sum to one, and `push`, whose columns do. A changing graph
has several layers, one for each step in turn; its rho_A is that of all of them together, per step.

examples:
  mpi-gt graph er:p=0.7 -n 16
  mpi-gt graph torus -n 64 --weights laplacian --plot
  mpi-gt graph edges.txt -n 10 --plot picture.png
  mpi-gt graph nx.circulant_graph:offsets=[1,3] -n 12
  mpi-gt graph digraph:arcs=12 -n 16 --plot          directed
  mpi-gt graph one-peer-exponential -n 16 --plot     changing: all layers are drawn
  mpi-gt graph ring+star -n 8                        two graphs in turn
  mpi-gt graph er:p=0.7 -n 16 --matchings random     pairs of neighbours, drawn for each step
  mpi-gt graph torus -n 100000                       by sparse matrices
"""
EPILOG = """\
`mpi-gt describe graph` lists the graphs, `mpi-gt describe weights` the rules.
"""
MOST = 10**6  # nodes


def _add_arguments(parser: "Parser") -> None:
    from ..parser import OPTIONS, add_options

    parser.add_argument("graph", metavar="SPEC", help=OPTIONS["--graph"].help)
    parser.add_argument("-n", required=True, metavar="N", help="number of nodes")
    add_options(parser, "--weights", "--matchings")
    parser.add_argument("--plot", nargs="?", const="", metavar="FILE.png", help="draw the graph")
    parser.add_argument("--out", metavar="DIR", help="folder for the picture (default this one)")
    add_options(parser, "--quiet")


def graph(
    graph: str,
    n: str,
    weights: str | None = None,
    matchings: str | None = None,
    plot: str | None = None,
    out: str | None = None,
    quiet: bool = False,
) -> int:
    """Show a graph's properties and draw it where asked; return the exit code."""
    from ... import plots
    from ...display.graphs import describe_rates, show_graph
    from ...graphs import build_network
    from ...plots.graphs import draw_network, why_not_drawn

    nodes = integer("-n", n)
    if not 1 <= nodes <= MOST:
        raise UserError(f"-n must be in [1, {MOST}], not {n}")
    if plot is not None and not plots.available():
        raise UserError("--plot needs matplotlib: pip install 'mpi-gt[plot]'")
    network = build_network(graph, weights, nodes, matchings)
    how = "" if matchings is None else f", matchings {matchings}"
    if not quiet:
        show_graph(graph + how, weights, network)
    if plot is not None and (why := why_not_drawn(network)):
        if not quiet:
            print(why)
    elif plot is not None:
        name = "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(graph).name + how)
        target = Path(out or ".") / (plot or f"graph-{name}-{nodes}.png")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            draw_network(
                network, f"{graph}{how}, {nodes} nodes, {describe_rates(network, 4)}", target
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
