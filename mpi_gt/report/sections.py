"""The sections of the page that have to do with single directories, each from what it finds."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..graphs import MOST_EDGES
from . import figures
from .directories import ReportedDirectory
from .figures import Figure
from .html import Html, badge, listed, pairs, plot, show, table, tag

Figures = dict[str, Figure]
KINDS = {"bench": "what an exchange costs", "scale": "the same on more and more ranks"}
BROKEN = (KeyError, IndexError, TypeError, ValueError, AttributeError, ZeroDivisionError)


def card(folder: ReportedDirectory, index: int) -> Html:
    """What ran, where, with which MPI, how it ended, and what to beware of."""
    facts, config = folder.facts, folder.table("config")
    hosts = facts.get("hosts")
    where = Counter(map(str, hosts)) if isinstance(hosts, list) else Counter()
    library = str(folder.table("mpi").get("library", "")).partition(", package")[0]
    command = facts.get("command")
    words = [str(word) for word in command[1:]] if isinstance(command, list) else []
    # what the launcher added for its ranks is no part of what was typed
    words = [w for w in words if w != "--reserved" and not ("--out" in words and w[:6] == "--out=")]
    kinds = [KINDS[part] for part in KINDS if part in folder.parts]
    title = facts.get("title") or config.get("problem") or ", ".join(kinds)
    methods = config.get("algorithms") or (config.get("algorithm") if config else None)
    counts = {key: config[key] for key in ("iterations", "seeds") if config.get(key)}
    size = [f"{count} {key if count != 1 else key[:-1]}" for key, count in counts.items()]
    crowd = facts.get("ranks_per_core")
    versions = folder.table("versions")
    rows = [
        ("what", " · ".join(map(str, filter(None, [title, methods])))),
        ("size", ", ".join(size) or facts.get("note")),
        ("exchange", folder.table("exchange").get("name") or config.get("exchange")),
        ("where", ", ".join(f"{host} x {count}" for host, count in where.items())),
        ("ranks per core", crowd if isinstance(crowd, int | float) else None),
        ("MPI", library or ("none: all nodes in one process" if config.get("stacked") else "")),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("started", str(facts.get("started", "")).replace("T", " ")),
        ("ended", str(facts.get("finished", "")).replace("T", " ")),
        ("command", " ".join(["mpi-gt", *words]) if words else str(command or "")),
    ]
    alarms = warnings(folder)
    return tag(
        "article",
        tag("h3", folder.name, " ", badge(folder.status)),
        tag("p", folder.note) if folder.note else "",
        listed(alarms, class_="warnings") if alarms else "",
        pairs(rows),
        tag("details", tag("summary", "configuration"), pairs(sorted(config.items())))
        if config
        else "",
        id=f"run-{index}",
    )


def warnings(folder: ReportedDirectory) -> list[str]:
    """In plain words: crowded, resumed, diverged, unreadable."""
    facts = folder.facts
    told = facts.get("warnings")
    found = [str(each) for each in told] if isinstance(told, list) else []
    crowd = facts.get("ranks_per_core")
    if isinstance(crowd, int | float) and crowd > 1 and not found:
        found.append(f"{crowd:g} ranks share a core: the times say little about a cluster")
    resumes = facts.get("resumes")
    if isinstance(resumes, list) and resumes:
        count = "once" if len(resumes) == 1 else f"{len(resumes)} times"
        found.append(f"resumed {count}: its seconds come from several launches")
    for label, result in {**folder.table("results"), **folder.table("methods")}.items():
        if isinstance(result, dict) and result.get("error"):
            found.append(f"{label} diverged: {result['error']}")
    return found + folder.troubles


def attempt(folder: ReportedDirectory, part: str, make: Callable[[], Any]) -> Any:
    """What `make` makes of that file; None, and a note, where the file is not as it should be."""
    if part not in folder.parts:
        return None
    try:
        with np.errstate(all="ignore"):
            made = make()
        json.dumps(made, allow_nan=False)  # what the script could not read
        return made
    except BROKEN as error:
        folder.troubles.append(f"{part}.json is not as expected: {type(error).__name__} {error}")
        return None


def graphs(folders: Iterable[ReportedDirectory]) -> tuple[list[Html], Figures]:
    """Every graph once, with the directories that ran on it."""
    by_graph: dict[tuple[str, str], tuple[dict[str, Any], list[str], str]] = {}
    for folder in folders:
        facts = folder.table("graph")
        if not facts:
            continue
        config = folder.table("config")
        spec = f"{config.get('graph') or 'er'}, {config.get('weights') or 'metropolis'} weights"
        key = (str(sorted(facts.items(), key=str)), spec if config else "")
        by_graph.setdefault(key, (facts, [], key[1]))[1].append(folder.name)
    blocks, drawn = [], {}
    for number, (facts, names, spec) in enumerate(by_graph.values()):
        title = f"{spec or 'graph'}: {', '.join(names)}"
        told = [
            ("nodes", facts.get("nodes")),
            ("edges", facts.get("edges")),
            ("degree", " / ".join(_degree(facts, name) for name in ("min", "mean", "max"))),
            ("rho_A", facts.get("rho_A")),
        ]
        try:
            drawn[f"graph-{number}"] = figures.draw_graph(facts)
            place: Any = plot(f"graph-{number}", f"graph of {title}", "square")
        except BROKEN:
            place = tag(
                "p", f"Not drawn: no edges are listed (of more than {MOST_EDGES}, none are)."
            )
        blocks.append(tag("article", tag("h3", title), pairs(told), place))
    return blocks, drawn


def _degree(facts: dict[str, Any], name: str) -> str:
    value = facts.get(f"degree_{name}")
    return f"{value:.4g}" if isinstance(value, int | float) else "?"


def profile(folder: ReportedDirectory, number: int) -> tuple[Html, Figures]:
    """Phases and traffic by rank, and what they come to."""
    found = folder.parts["profile"]
    drawn = {
        f"phases-{number}": figures.draw_phases(found),
        f"traffic-{number}": figures.draw_traffic(found),
    }
    slow = found.get("straggler")
    ratio = found.get("ratio_to_stacked")
    told = [
        ("an iteration", f"{found['seconds_per_iteration'] * 1e6:,.0f} µs"),
        ("exposed communication", f"{found['exposed_communication'] * 1e6:,.0f} µs"),
        ("of it waiting", f"{found['waiting']['mean'] * 1e6:,.0f} µs"),
        ("hidden communication", f"{found['hidden_share']:.1%}"),
        ("against one process", f"{ratio:.3g} times its time" if ratio else None),
        (
            "straggler",
            f"rank {slow['node']}: {slow['excess'] * 1e6:,.0f} µs more than the others"
            if slow
            else "none stands out",
        ),
    ]
    block = tag(
        "article",
        tag("h3", folder.name),
        pairs(told),
        tag(
            "div",
            plot(f"phases-{number}", f"Time of each phase by rank, {folder.name}"),
            plot(f"traffic-{number}", f"Vector bytes an iteration, {folder.name}"),
            class_="columns",
        ),
    )
    return block, drawn


def bench(folder: ReportedDirectory, number: int) -> tuple[Html, Figures]:
    """A figure a graph, and the fits."""
    found = folder.parts["bench"]
    by_graph = figures.draw_bench(found)
    drawn = {f"bench-{number}-{index}": each for index, each in enumerate(by_graph.values())}
    places = [
        plot(name, f"{graph}: median, bar up to p95, dashed: the fit")
        for name, graph in zip(drawn, by_graph, strict=True)
    ]
    rows = [
        [
            fit["exchange"],
            fit["graph"] or "all",
            fit["latency"] * 1e6,
            fit["per_message"] * 1e6,
            fit["bandwidth"] / 1e6 if fit["bandwidth"] else None,
            fit["r2"],
        ]
        for fit in found["fits"]
    ]
    names = ("exchange", "graph", "latency µs", "per message µs", "bandwidth MB/s", "r²")
    fits = table(f"Fits of {folder.name}", names, rows, sortable=True)
    return tag(
        "article", tag("h3", folder.name), tag("div", *places, class_="columns"), fits
    ), drawn


def scale(folder: ReportedDirectory, number: int) -> tuple[Html, Figures]:
    rows = folder.parts["scale"]["rows"]
    lines: dict[str, tuple[list[Any], list[Any]]] = {}
    for row in rows:
        x, y = lines.setdefault(f"{row['mode']}, {row['graph']}", ([], []))
        x.append(row["ranks"])
        y.append(row["seconds_per_iteration"] * 1e6)
    figure = figures.draw_lines(lines, "ranks", "µs an iteration")
    name = f"scale-{number}"
    place = plot(name, f"Scaling, {folder.name}. {folder.parts['scale']['note']}")
    return tag("article", tag("h3", folder.name), place), {name: figure}


def sweep(folder: ReportedDirectory, number: int) -> tuple[Html, Figures]:
    found = folder.parts["sweep"]
    lines = {method: (of["lr"], of["gap"]) for method, of in found.items()}
    figure = figures.draw_lines(lines, "stepsize lr", "gap over the last fifth")
    name = f"sweep-{number}"
    place = plot(name, f"Gap by stepsize, {folder.name}; a missing point: diverged")
    return tag("article", tag("h3", folder.name), place), {name: figure}


def claims(folder: ReportedDirectory, number: int) -> tuple[Html, Figures]:
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


def audit(folder: ReportedDirectory, number: int) -> tuple[Html, Figures]:
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


PARTS: dict[str, tuple[str, Callable[[ReportedDirectory, int], tuple[Html, Figures]]]] = {
    "sweep": ("Stepsizes", sweep),
    "profile": ("Where the time goes", profile),
    "bench": ("What an exchange costs", bench),
    "scale": ("More ranks", scale),
    "claims": ("Claims of the paper", claims),
    "audit": ("The theory, audited", audit),
}
"""The files with a section of their own: its title, and what makes it."""
