"""The figure of an audit: measured values and the bounds on them."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..theory.verdicts import STATEMENTS, Curve
from . import save


def draw_audit(directory: Path, curves: Mapping[str, Mapping[str, Curve]]) -> Path:
    """Draw audit.png: one panel per statement, both its sides against t on a log scale."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 7), dpi=150, layout="constrained")
    styles = {"paper": ("C3", "--"), "corrected": ("C2", "-.")}
    for axes, (name, title) in zip(figure.subplots(2, 4).flat, STATEMENTS.items(), strict=True):
        measured = curves["corrected"][name].left
        t = np.arange(1, len(measured) + 1)
        drawn = {"measured": (measured, "C0", "-")}
        for form, (colour, dashes) in styles.items():
            drawn[form] = (curves[form][name].right, colour, dashes)
        for label, (values, colour, dashes) in drawn.items():
            # a log scale can show neither infinite values nor those that are not positive
            shown = np.where(np.isfinite(values) & (values > 0), values, np.nan)
            text = label if label == "measured" else f"bound, {label}"
            axes.plot(t, shown, color=colour, linestyle=dashes, linewidth=1.4, label=text)
            if np.isnan(shown).all():
                reason = "not positive" if label == "measured" else "no bound"
                place = (0.97, {"measured": 0.05, "paper": 0.92, "corrected": 0.84}[label])
                axes.annotate(
                    f"{label}: {reason}", place, xycoords="axes fraction", ha="right", color=colour
                )
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high < 10 * low:  # else the axis would magnify rounding errors
            axes.set_ylim(low / 3, high * 3)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("t")
        axes.grid(visible=True, which="major", alpha=0.3)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3)
    return save(figure, directory / "audit.png")
