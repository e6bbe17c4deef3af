"""The part of bench.png about compressed exchanges."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import plain

STAGES = {
    "encode": ("encode", "#aa3377"),
    "wire": ("exchange", "#ee8866"),
    "decode": ("decode", "#228833"),
}
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "+++", "***")
HIGHEST = 4.0  # the ratio at which bars end, with their number above
GROUP = 0.8  # the share of a group's place that its bars fill


def draw_stages(figure: Any, panels: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw the stages of the first exchange by size, one panel per graph.

    Bars are times divided by that of the uncompressed exchange: below 1, compression pays.
    """
    kinds = list(dict.fromkeys(row["compress"] for row in rows))
    first = rows[0]["exchange"]
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    for axes, graph in zip(panels, graphs, strict=True):
        own = [row for row in rows if (row["graph"], row["exchange"]) == (graph, first)]
        sizes = sorted({row["bytes"] for row in own})
        for number, compress in enumerate(kinds):
            by_size = {row["bytes"]: row for row in own if row["compress"] == compress}
            places = np.arange(len(sizes)) + GROUP * ((number + 0.5) / len(kinds) - 0.5)
            bottom = np.zeros(len(sizes))
            for stage, (_, colour) in STAGES.items():
                height = np.array([by_size[s][stage] / by_size[s]["uncompressed"] for s in sizes])
                axes.bar(
                    places,
                    height,
                    GROUP / len(kinds) * 0.92,
                    bottom=bottom,
                    color=colour,
                    hatch=HATCHES[number % len(HATCHES)],
                    edgecolor="white",
                    linewidth=0,
                )
                bottom += height
            for place, total in zip(places, bottom, strict=True):
                if total > HIGHEST:
                    axes.text(place, HIGHEST, f"{total:.0f}", ha="center", va="bottom", fontsize=7)
        axes.axhline(1, color="black", linewidth=1)
        axes.set_xticks(np.arange(len(sizes)), [f"{size:,}" for size in sizes], fontsize=8)
        axes.set_xlabel("bytes of the vectors, before compression")
        axes.set_title(f"{plain(graph)}, {first}: compressed / uncompressed", pad=14)
        axes.grid(axis="y", alpha=0.3)
        if axes.get_ylim()[1] > HIGHEST:
            axes.set_ylim(0, HIGHEST)
    panels[0].set_ylabel("time / time of the uncompressed exchange\n(line: equal; below it pays)")
    _add_legend(figure, kinds)


def _add_legend(figure: Any, kinds: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=colour, label=name) for name, colour in STAGES.values()]
    handles += [
        Patch(facecolor="0.6", edgecolor="white", hatch=HATCHES[number % len(HATCHES)], label=kind)
        for number, kind in enumerate(map(plain, kinds))
    ]
    figure.legend(handles=handles, loc="outside right lower", fontsize=8)
