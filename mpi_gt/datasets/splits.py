"""Splits of the rows of a dataset among the nodes."""

import math

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Labels = NDArray[np.integer]


def parse_split(text: str) -> tuple[str, float]:
    """Parse iid, label or dirichlet:CONCENTRATION into a name and the concentration."""
    name, _, number = text.partition(":")
    if name in ("iid", "label") and not number:
        return name, 0.0
    try:
        concentration = float(number)
    except ValueError:
        concentration = math.nan
    if name != "dirichlet" or not 0 < concentration < math.inf:
        raise ValueError(f"split must be iid, label or dirichlet:CONC with CONC > 0, not '{text}'")
    return name, concentration


def rows_of_node(text: str, labels: Labels, node: int, nodes: int, seed: int) -> Rows:
    """Return the rows of one node, ascending.

    All nodes have the same number of rows, no row belongs to two nodes, and the remainder is
    dropped. The split depends on the arguments alone, so all ranks compute the same one.
    """
    name, concentration = parse_split(text)
    size = len(labels) // nodes
    if size == 0:
        raise ValueError(f"{len(labels)} rows are too few for {nodes} nodes")
    random = np.random.Generator(np.random.Philox(key=[seed, 0]))
    if name == "label":
        order = np.argsort(labels, kind="stable")
    elif name == "iid":
        order = random.permutation(len(labels))
    else:
        order = _by_drawn_shares(labels, nodes, size, concentration, random)
    return np.sort(order[node * size : (node + 1) * size])


def _by_drawn_shares(
    labels: Labels, nodes: int, size: int, concentration: float, random: np.random.Generator
) -> Rows:
    """Return all rows, node by node, with class shares drawn from a Dirichlet distribution.

    If too few rows of a class are left, the other classes fill the gap in proportion to their
    remaining rows.
    """
    stock = [random.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
    left = np.array([len(rows) for rows in stock])
    order = []
    for _ in range(nodes):
        shares = random.dirichlet(np.full(len(stock), concentration))
        counts = np.minimum(random.multinomial(size, shares), left)
        missing = size - int(counts.sum())
        counts = counts + random.multivariate_hypergeometric(left - counts, missing)
        for label, count in enumerate(counts):
            begin = len(stock[label]) - left[label]
            order.append(stock[label][begin : begin + count])
        left = left - counts
    return np.concatenate(order)
