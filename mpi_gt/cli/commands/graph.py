"""`mpi-gt graph`: describe a graph and its mixing matrices, and draw it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import StorageError, UserError
from ...spec import integer
from . import SETTING, Command

if TYPE_CHECKING:
    from ...graphs import Network
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
  mpi-gt graph ring -n 8 --json                      for a script: jq .rho_A
  mpi-gt graph torus -n 16 --hosts 4x4               edges between 4 hosts of 4 ranks each
"""
EPILOG = """\
`mpi-gt describe graph` lists the graphs, `mpi-gt describe weights` the rules.
"""
MOST = 10**6  # nodes
MOST_PLACED = 10**5  # nodes to be placed on hosts, which takes a minute


def _add_arguments(parser: "Parser") -> None:
    from ..parser import OPTIONS, add_options

    parser.add_argument("graph", metavar="SPEC", help=OPTIONS["--graph"].help)
    parser.add_argument("-n", required=True, metavar="N", help="number of nodes")
    add_options(parser, "--weights", "--matchings")
    parser.add_argument(
        "--hosts",
        metavar="HxR",
        help="count the edges between H hosts of R ranks each, or of 2x4,1x8, in rank order and "
        "with --place graph",
    )
    parser.add_argument("--plot", nargs="?", const="", metavar="FILE.png", help="draw the graph")
    parser.add_argument("--out", metavar="DIR", help="folder for the picture (default this one)")
    parser.add_argument("--json", dest="as_json", action="store_true", help="print JSON")
    add_options(parser, "--quiet")


def graph(
    graph: str,
    n: str,
    weights: str | None = None,
    matchings: str | None = None,
    hosts: str | None = None,
    plot: str | None = None,
    out: str | None = None,
    as_json: bool = False,
    quiet: bool = False,
) -> int:
    """Show a graph's properties and draw it where asked; return the exit code."""
    from ... import plots
    from ...display.graphs import placement_sentence, show_graph
    from ...graphs import build_network
    from ...graphs.placement import parse_host_sizes, parse_placement, placement_facts
    from ...plots.graphs import why_not_drawn

    nodes = integer("-n", n)
    if not 1 <= nodes <= MOST:
        raise UserError(f"-n must be in [1, {MOST}], not {n}")
    if plot is not None and not plots.available():
        raise UserError("--plot needs matplotlib: pip install 'mpi-gt[plot]'")
    by_rank = None if hosts is None else parse_host_sizes(hosts, nodes)
    if by_rank and nodes > MOST_PLACED:
        raise UserError(f"--hosts is for at most {MOST_PLACED} nodes, not {nodes}")
    network = build_network(graph, weights, nodes, matchings)
    how = "" if matchings is None else f", matchings {matchings}"
    if not quiet and not as_json:
        show_graph(graph + how, weights, network)
    placement = None
    if by_rank:
        placed = parse_placement("graph")(network, by_rank)
        placement = placement_facts("graph", network, by_rank, placed)
    if placement and not quiet and not as_json:
        print(placement_sentence(placement))
    picture, why = None, "" if plot is None else why_not_drawn(network)
    if plot is not None and not why:
        picture = _draw(network, graph + how, plot, Path(out or "."))
    if as_json:
        from ...files import json_text

        named = {"graph": graph, "weights": weights, "matchings": matchings}
        drawn = {} if plot is None else {"picture": picture and str(picture), "note": why}
        where = {} if placement is None else {"placement": placement}
        print(json_text("graph", {**named, **_facts(network), **where, **drawn}))
    elif not quiet and plot is not None:
        print(why or f"wrote {picture}")
    return 0


def _draw(network: "Network", title: str, plot: str, folder: Path) -> Path:
    """Draw the graph to the file that was named, or to one named after the graph; return it."""
    from ...display.graphs import describe_rates
    from ...plots.graphs import draw_network

    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(title).name)
    target = folder / (plot or f"graph-{name}-{network.nodes}.png")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        rates = describe_rates(network, 4)
        draw_network(network, f"{title}, {network.nodes} nodes, {rates}", target)
    except StorageError as error:
        raise UserError(str(error)) from None
    except (OSError, ValueError) as error:
        raise UserError(f"cannot write {target}: {error}") from None
    return target


def _facts(network: "Network") -> dict[str, Any]:
    """Return the facts of the graph as in run.json, and those that the table has beside them."""
    facts = network.facts()
    length, sure = network.diameter()
    facts.update(diameter=length, diameter_is_exact=sure)
    rate = network.rates.get("A")
    if rate is not None and not network.changes:
        facts["spectral_gap"] = 1 - rate
    if network.directed and not network.changes:
        heard = network.union.in_degrees
        smallest, mean, largest = int(heard.min()), float(heard.mean()), int(heard.max())
        facts.update(in_degree_min=smallest, in_degree_mean=mean, in_degree_max=largest)
    return facts


GRAPH = Command(
    name="graph",
    group=SETTING,
    summary="describe and draw a graph",
    help=HELP,
    epilog=EPILOG,
    add_arguments=_add_arguments,
    alone=graph,
)
