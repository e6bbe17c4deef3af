"""The sections of the page about single directories, each made from one of their files."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..algorithms import full_name
from ..display.console import counted
from ..display.graphs import placement_sentence
from ..graphs import MOST_EDGES
from ..spec import split_list
from . import figures
from .directories import ReportedDirectory
from .figures import Figure
from .html import Html, badge, listed, pairs, plot, show, table, tag
from .networks import draw_graph

Figures = dict[str, Figure]
KINDS = {"bench": "time of exchanges", "scale": "scaling with the number of ranks"}
BROKEN = (KeyError, IndexError, TypeError, ValueError, AttributeError, ZeroDivisionError)


def card(directory: ReportedDirectory, index: int) -> Html:
    """Return the card of a directory: configuration, machine, status and warnings."""
    facts, config = directory.facts, directory.table("config")
    hosts = facts.get("hosts")
    ranks = Counter(map(str, hosts)) if isinstance(hosts, list) else Counter()
    library = str(directory.table("mpi").get("library", "")).partition(", package")[0]
    command = facts.get("command")
    words = [str(word) for word in command[1:]] if isinstance(command, list) else []
    # leave out what the front end added for its ranks
    words = [w for w in words if w != "--reserved" and not ("--out" in words and w[:6] == "--out=")]
    kinds = [KINDS[part] for part in KINDS if part in directory.parts]
    title = facts.get("title") or config.get("problem") or ", ".join(kinds)
    specs = config.get("algorithms") or (config.get("algorithm") if config else None)
    counts = {key: config[key] for key in ("iterations", "seeds") if config.get(key)}
    if config.get("budget"):
        counts.pop("iterations", None)  # only its limit
    size = [counted(count, key[:-1]) for key, count in counts.items()]
    size += [f"budget {config['budget']}"] if config.get("budget") else []
    per_core = facts.get("ranks_per_core")
    versions = directory.table("versions")
    rows = [
        ("problem" if config else "content", title),
        ("method", _methods(directory, specs)),
        ("size", ", ".join(size) or facts.get("note")),
        ("exchange", _exchange(directory)),
        ("channel", _channel(directory)),
        ("ranks", ", ".join(f"{count} on {host}" for host, count in ranks.items())),
        ("placement", _placement(directory)),
        ("ranks per core", per_core if isinstance(per_core, int | float) else None),
        ("MPI", library or ("none" if config.get("stacked") else "")),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
        ("started", str(facts.get("started", "")).replace("T", " ")),
        ("ended", str(facts.get("finished", "")).replace("T", " ")),
        ("command", " ".join(["mpi-gt", *words]) if words else str(command or "")),
    ]
    alarms = warnings(directory)
    return tag(
        "article",
        tag("h3", directory.name, " ", badge(directory.status)),
        tag("p", directory.note) if directory.note else "",
        listed(alarms, class_="warnings") if alarms else "",
        pairs(rows),
        tag("details", tag("summary", "configuration"), pairs(sorted(config.items())))
        if config
        else "",
        id=f"run-{index}",
    )


def _placement(directory: ReportedDirectory) -> str | None:
    """Return the edges between hosts, if the run says something of them."""
    facts = directory.table("placement")
    try:
        return placement_sentence(facts).partition(": ")[2] if facts else None
    except BROKEN:
        return None


def _channel(directory: ReportedDirectory) -> str:
    """Return the unreliable channel of a run, and that it is emulated; "" without one."""
    spec, note = directory.table("config").get("channel"), directory.table("channel").get("note")
    return f"{spec} ({note})" if note else ""


def _exchange(directory: ReportedDirectory) -> Any:
    """Return the exchange of a run; a stacked one has none, whatever its configuration says."""
    config = directory.table("config")
    if config.get("stacked"):
        return "none: stacked, all nodes in one process"
    return directory.table("exchange").get("name") or config.get("exchange")


def _methods(directory: ReportedDirectory, specs: Any) -> str:
    """Return the full names of the methods of a run; of its specifications, if it lists no more."""
    labels = list(directory.table("options", "algorithm"))
    labels = labels or (split_list(str(specs)) if specs else [])
    return ", ".join(map(directory.name_of, labels))


def warnings(directory: ReportedDirectory) -> list[str]:
    """Return the warnings about a directory: crowded, resumed, diverged, unreadable."""
    facts = directory.facts
    recorded = facts.get("warnings")
    lines = [str(warning) for warning in recorded] if isinstance(recorded, list) else []
    per_core = facts.get("ranks_per_core")
    if isinstance(per_core, int | float) and per_core > 1 and not lines:
        lines.append(f"{per_core:g} ranks share a core: the times say little about a cluster")
    resumes = facts.get("resumes")
    if isinstance(resumes, list) and resumes:
        count = "once" if len(resumes) == 1 else f"{len(resumes)} times"
        lines.append(f"resumed {count}: the seconds add up several launches")
    for label, result in {**directory.table("results"), **directory.table("methods")}.items():
        if isinstance(result, dict) and result.get("error"):
            lines.append(f"{directory.name_of(label)} diverged: {result['error']}")
    return lines + directory.troubles


def attempt(directory: ReportedDirectory, part: str, make: Callable[[], Any]) -> Any:
    """Return `make()` for that file; None, and a note, if the file is missing or malformed."""
    if part not in directory.parts:
        return None
    try:
        with np.errstate(all="ignore"):
            result = make()
        json.dumps(result, allow_nan=False)  # raises where the page's script would fail
        return result
    except BROKEN as error:
        directory.troubles.append(f"{part}.json is not as expected: {type(error).__name__} {error}")
        return None


def graphs(directories: Iterable[ReportedDirectory]) -> tuple[list[Html], Figures]:
    """Return one block per graph, with the names of the directories that used it."""
    by_graph: dict[tuple[str, str], tuple[dict[str, Any], list[str], str]] = {}
    for directory in directories:
        facts = directory.table("graph")
        if not facts:
            continue
        config = directory.table("config")
        how = [config.get("graph") or "er", f"{config.get('weights') or 'metropolis'} weights"]
        if facts.get("directed"):
            how[1] = "pull and push weights"
        how += [f"matchings {config['matchings']}"] if config.get("matchings") else []
        spec = ", ".join(map(str, how))
        key = (str(sorted(facts.items(), key=str)), spec if config else "")
        by_graph.setdefault(key, (facts, [], key[1]))[1].append(directory.name)
    blocks, drawn = [], {}
    for number, (facts, names, spec) in enumerate(by_graph.values()):
        title = ": ".join(filter(None, [spec, ", ".join(names)]))
        rows = [
            ("nodes", facts.get("nodes")),
            ("arcs" if facts.get("directed") else "edges", facts.get("edges")),
            ("targets" if facts.get("directed") else "degree", _degrees(facts)),
            *((name, facts[name]) for name in ("rho_A", "rho_pull", "rho_push") if name in facts),
        ]
        if isinstance(layers := facts.get("layers"), list):
            rows.append(("layers", f"{len(layers)}, {facts.get('turns')}"))
        try:
            drawn[f"graph-{number}"] = draw_graph(facts)
            picture: Any = plot(f"graph-{number}", f"Graph of {title}", "square")
        except BROKEN:
            picture = tag("p", f"Not drawn: edges are listed for at most {MOST_EDGES} of them.")
        blocks.append(tag("article", tag("h3", title), pairs(rows), picture))
    return blocks, drawn


def _degrees(facts: dict[str, Any]) -> str:
    values = (facts.get(f"degree_{name}") for name in ("min", "max", "mean"))
    low, high, mean = (f"{v:.4g}" if isinstance(v, int | float) else "?" for v in values)
    return low if low == high else f"{low} to {high}, mean {mean}"


def profile(directory: ReportedDirectory, number: int) -> tuple[Html, Figures]:
    """Return the block of profile.json: phases and traffic by rank, and their totals."""
    measured = directory.parts["profile"]
    drawn = {
        f"phases-{number}": figures.draw_phases(measured),
        f"traffic-{number}": figures.draw_traffic(measured),
    }
    slow = measured.get("straggler")
    ratio = measured.get("ratio_to_stacked")
    rows = [
        ("time per iteration", f"{measured['seconds_per_iteration'] * 1e6:,.0f} µs"),
        ("exposed communication", f"{measured['exposed_communication'] * 1e6:,.0f} µs"),
        ("of which waiting", f"{measured['waiting']['mean'] * 1e6:,.0f} µs"),
        ("hidden communication", f"{measured['hidden_share']:.1%}"),
        ("ratio to one process", f"{ratio:.3g}" if ratio else None),
        (
            "straggler",
            f"rank {slow['node']}: {slow['excess'] * 1e6:,.0f} µs more than the others"
            if slow
            else "none stands out",
        ),
    ]
    block = tag(
        "article",
        tag("h3", directory.name),
        pairs(rows),
        tag(
            "div",
            plot(f"phases-{number}", f"Time of each phase by rank, {directory.name}"),
            plot(f"traffic-{number}", f"Vector bytes per iteration, {directory.name}"),
            class_="columns",
        ),
    )
    return block, drawn


def bench(directory: ReportedDirectory, number: int) -> tuple[Html, Figures]:
    """Return the block of bench.json: one figure per graph, and the fits."""
    results = directory.parts["bench"]
    by_graph = figures.draw_bench(results)
    drawn = {f"bench-{number}-{index}": each for index, each in enumerate(by_graph.values())}
    pictures = [
        plot(name, f"{graph}: median with a bar up to the 95th percentile; dashed: the fit")
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
        for fit in results["fits"]
    ]
    names = ("exchange", "graph", "latency (µs)", "per message (µs)", "bandwidth (MB/s)", "R²")
    fits = table(f"Fits of {directory.name}", names, rows, sortable=True)
    return tag(
        "article", tag("h3", directory.name), tag("div", *pictures, class_="columns"), fits
    ), drawn


def scale(directory: ReportedDirectory, number: int) -> tuple[Html, Figures]:
    """Return the block of scale.json: time per iteration against the number of ranks."""
    rows = directory.parts["scale"]["rows"]
    lines: dict[str, tuple[list[Any], list[Any]]] = {}
    for row in rows:
        x, y = lines.setdefault(f"{row['mode']}, {row['graph']}", ([], []))
        x.append(row["ranks"])
        y.append(row["seconds_per_iteration"] * 1e6)
    figure = figures.draw_lines(lines, "ranks", "µs per iteration")
    name = f"scale-{number}"
    picture = plot(name, f"Scaling, {directory.name}: {directory.parts['scale']['note']}")
    return tag("article", tag("h3", directory.name), picture), {name: figure}


def sweep(directory: ReportedDirectory, number: int) -> tuple[Html, Figures]:
    """Return the block of sweep.json: the gap of each method against its stepsize."""
    results = directory.parts["sweep"]
    lines = {full_name(method): (swept["lr"], swept["gap"]) for method, swept in results.items()}
    figure = figures.draw_lines(lines, "stepsize lr", "mean gap over the last fifth")
    name = f"sweep-{number}"
    picture = plot(name, f"Gap by stepsize, {directory.name}; missing points diverged")
    return tag("article", tag("h3", directory.name), picture), {name: figure}


def claims(directory: ReportedDirectory, number: int) -> tuple[Html, Figures]:
    """Return the block of claims.json: each claim with the comparison that decides it, and why."""
    rows = []
    for claim in directory.parts["claims"]:
        against = claim["against"]
        rows.append(
            [
                claim["claim"],
                badge(str(claim["verdict"])),
                claim["measure"],
                _difference(claim),
                None if against is None else full_name(against),
                claim.get("why") or None,
            ]
        )
    names = ("claim", "verdict", "measured", "difference [95% interval]", "against", "why")
    caption = (
        "Differences are paired over seeds, with intervals of Student's t, and those of a "
        "bootstrap where they differ by more than a tenth of the width. Each row shows the "
        "comparison that decides the verdict."
    )
    return tag("article", tag("h3", directory.name), table(caption, names, rows)), {}


def _difference(claim: dict[str, Any]) -> str:
    """Return the difference that a claim is judged by, with its interval or intervals."""
    if claim["estimate"] is None:
        return "-"
    shown = [f"{claim['estimate']:.3g}"]
    if span := claim["interval"]:
        shown.append(f"[{span[0]:.3g}, {span[1]:.3g}]")
        second = claim.get("bootstrap") or span  # former versions had none
        if max(abs(second[k] - span[k]) for k in (0, 1)) > 0.1 * (span[1] - span[0]):
            shown.append(f"by bootstrap [{second[0]:.3g}, {second[1]:.3g}]")
    return " ".join(shown)


def audit(directory: ReportedDirectory, number: int) -> tuple[Html, Figures]:
    """Return the block of audit.json: both sides of every statement of the theory."""
    results = directory.parts["audit"]
    statements = {f"Lemma {name}": forms for name, forms in results["lemmas"].items()}
    statements.update({"Theorem 1": results["theorem"], "Corollary 1": results["corollary"]})
    rows = [
        [name, form, one["left"], one["right"], one["ratio"], _verdict(one)]
        for name, forms in statements.items()
        for form, one in forms.items()
    ]
    rows += [
        [f"identity ({name}): {one['says']}", "", one["error"], None, None, _verdict(one)]
        for name, one in results.get("identities", {}).items()
    ]
    names = ("statement", "form", "measured", "bound", "ratio", "verdict")
    return tag(
        "article", tag("h3", directory.name), table("Both sides at the last iteration", names, rows)
    ), {}


def _verdict(one: dict[str, Any]) -> Html:
    return badge("no claim") if one.get("applies") is False else badge(show(one["verdict"]))


PARTS: dict[str, tuple[str, Callable[[ReportedDirectory, int], tuple[Html, Figures]]]] = {
    "sweep": ("Stepsizes", sweep),
    "profile": ("Where the time goes", profile),
    "bench": ("Time of exchanges", bench),
    "scale": ("Scaling", scale),
    "claims": ("Claims", claims),
    "audit": ("Audit of the theory", audit),
}
"""The files with a section of their own: its title, and the function that makes its blocks."""
