"""Small figures of the zoo: one strip per method, with a panel per problem."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from trials import LEAST, Curve, Setting, Trial

Trials = Mapping[str, Sequence[Trial | None]]

COLOURS = 24  # of the palette: enough for two hues, greys, and letters with soft edges
OTHERS = "0.87"  # the grey of the other methods
NOT_HERE = "takes no\nsuch graph"


def draw_strips(folder: Path, settings: Sequence[Setting], trials: Trials) -> list[Path]:
    """Draw NAME.png for every method, and remove the pictures of methods that are no more."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.png"):
        if old.stem not in trials:
            old.unlink()
    spans = [_span([own[k] for own in trials.values()]) for k in range(len(settings))]
    return [_draw_strip(folder / f"{name}.png", name, settings, trials, spans) for name in trials]


def _draw_strip(
    target: Path,
    name: str,
    settings: Sequence[Setting],
    trials: Trials,
    spans: Sequence[tuple[float, float]],
) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 1.5), dpi=110)
    figure.set_layout_engine("constrained", w_pad=0.02, h_pad=0.02, wspace=0.03)
    for k, (panel, setting) in enumerate(
        zip(figure.subplots(1, len(settings)), settings, strict=True)
    ):
        others = [own[k] for other, own in trials.items() if other != name]
        _draw_panel(panel, trials[name][k], others, spans[k])
        panel.set_xlim(0, setting.iterations)
        panel.set_title(f"{k + 1} {setting.title}", fontsize=7.5, pad=2)
    _save(figure, target)
    return target


def _draw_panel(
    panel: Any, own: Trial | None, others: Sequence[Trial | None], span: tuple[float, float]
) -> None:
    """Draw the curve of a method, shaded over seeds, above those of all others in grey."""
    panel.set_yscale("log")
    panel.set_ylim(*span)
    panel.tick_params(labelsize=6.5, length=2, pad=1.5, width=0.5)
    panel.tick_params(which="minor", length=0)
    for spine in panel.spines.values():
        spine.set_linewidth(0.5)
    for other in others:
        if other and other.curve:
            # below the shade, and without soft edges, which would double the bytes
            panel.plot(
                other.curve.iterations, _shown(other.curve), color=OTHERS, linewidth=0.7,
                zorder=0.5, antialiased=False,
            )  # fmt: skip
    if own is None or own.curve is None:
        text = NOT_HERE if own is None else "diverges"
        panel.text(0.5, 0.5, text, transform=panel.transAxes, ha="center", va="center", fontsize=7)
        return
    curve = own.curve
    least, most = (np.maximum(of(curve.gaps, axis=1), LEAST) for of in (np.min, np.max))
    panel.fill_between(curve.iterations, least, most, color="#a8c8e6", linewidth=0)
    panel.plot(curve.iterations, _shown(curve), color="#1f4e8c", linewidth=1.2, zorder=3)


def _shown(curve: Curve) -> Any:
    return np.maximum(curve.mean, LEAST)


def _span(trials: Sequence[Trial | None]) -> tuple[float, float]:
    """Return the common range of a column, in whole decades."""
    shown = np.concatenate([_shown(each.curve) for each in trials if each and each.curve])
    low, high = np.log10(shown.min()), np.log10(shown.max())
    return 10 ** (np.floor(low) - 0.3), 10 ** (np.ceil(high) + 0.3)


def _save(figure: Any, target: Path) -> None:
    """Write the figure with a small palette: a third of the bytes."""
    from PIL import Image

    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    with Image.open(stream) as image:
        reduced = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        reduced.save(target, optimize=True)
