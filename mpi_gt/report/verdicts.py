"""The page's tables of verdicts: claims of the paper, and statements of its theory."""

from typing import Any

from .directories import Folder
from .figures import Figure
from .html import Html, badge, show, table, tag

Figures = dict[str, Figure]


def claims(folder: Folder, number: int) -> tuple[Html, Figures]:
    rows = []
    for claim in folder.parts["claims"]:
        span = claim["interval"]
        measured = f"{claim['estimate']:.3g}" if claim["estimate"] is not None else "-"
        inside = f" [{span[0]:.3g}, {span[1]:.3g}]" if span else ""
        verdict = badge(str(claim["verdict"]))
        rows.append(
            [claim["claim"], verdict, claim["measure"], measured + inside, claim["against"]]
        )
    names = ("claim of the paper", "verdict", "measure", "difference [95%]", "against")
    return tag(
        "article", tag("h3", folder.name), table("Differences are paired over seeds", names, rows)
    ), {}


def audit(folder: Folder, number: int) -> tuple[Html, Figures]:
    found = folder.parts["audit"]
    statements = {f"Lemma {name}": forms for name, forms in found["lemmas"].items()}
    statements.update({name.capitalize(): found[name] for name in ("theorem", "corollary")})
    rows = [
        [name, form, one["left"], one["right"], one["ratio"], _verdict(one)]
        for name, forms in statements.items()
        for form, one in forms.items()
    ]
    rows += [
        [f"identity ({name}): {one['says']}", "", one["error"], None, None, _verdict(one)]
        for name, one in found.get("identities", {}).items()
    ]
    names = ("statement", "form", "measured", "bound", "ratio", "verdict")
    return tag(
        "article", tag("h3", folder.name), table("Both sides at the last iteration", names, rows)
    ), {}


def _verdict(one: dict[str, Any]) -> Html:
    return badge("no claim") if one.get("applies") is False else badge(show(one["verdict"]))
