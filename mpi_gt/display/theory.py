"""The tables of `theory` and of `run --audit`."""

from typing import TYPE_CHECKING, Any

from ..theory.verdicts import STATEMENTS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FORMS = ("paper", "corrected")


def show_theory(theory: dict[str, Any], output: "Console") -> None:
    """Show constants, conditions and bounds, printed beside corrected, then the explanations."""
    graph, setting = theory["graph"], theory["setting"]
    table = _table(f"{theory['problem']}, {graph['nodes']} nodes", ("quantity", "value", "kind"))
    for name, one in theory["constants"].items():
        table.add_row(name, _number(one["value"]), one["kind"])
    table.add_row("rho_A", _number(graph["rho_A"]), "exact")
    table.add_row("f(xbar_1) - f*", _number(theory["start"]["descent"]))
    for name in ("delta1", "delta2", "delta3"):
        table.add_row(f"Delta_{name[-1]}", _number(theory["start"][name]))
    for name in ("alpha", "beta1", "beta2", "vmin", "vmax"):
        table.add_row(name, _number(setting[name]), "given")
    output.print(table)
    output.print(_forms_table(theory))

    for line in _lines(theory):
        output.print(line, markup=False, highlight=False, soft_wrap=True)


def _forms_table(theory: dict[str, Any]) -> "Table":
    table = _table("the theory", ("quantity", "as printed", "corrected"))
    paper, corrected = (theory[form] for form in FORMS)
    names = [*corrected["constants"], *(n for n in paper["constants"] if n in ("mu", "omega"))]
    for name in names:
        label = "omega, the smallest for this beta1" if name == "omega" else name
        cells = [form["constants"].get(name, "") for form in (paper, corrected)]
        table.add_row(label, *(cell if cell == "" else _number(cell) for cell in cells))
    for number, label in enumerate(("N1", "(1 - rho_A²)²", "N2'")):
        cells = [_range(form["conditions"][number]) for form in (paper, corrected)]
        table.add_row(f"alphas by the condition on {label}", *cells)
    table.add_row("the condition that binds", paper["binding"], corrected["binding"])
    table.add_row(
        "admissible alphas", *(_interval(form["interval"]) for form in (paper, corrected))
    )
    for name, label in (("theorem", "Theorem 1"), ("corollary", "Corollary 1")):
        cells = [_number(form[name], "no bound") for form in (paper, corrected)]
        table.add_row(f"bound of {label}, T = {theory['iterations']}", *cells)
    return table


def _lines(theory: dict[str, Any]) -> list[str]:
    """Return the violated conditions, the suggestions, and why the two columns differ."""
    lines = []
    alpha, beta1 = theory["setting"]["alpha"], theory["setting"]["beta1"]
    for name in FORMS:
        form = theory[name]
        if not form["violated"]:
            lines.append(f"{name}: alpha = {alpha:g} and beta1 = {beta1:g} meet every condition")
        lines += [
            f"{name}: violated: {_excess(one)}" for one in form["conditions"] if not one["met"]
        ]
        if form["interval"] is None:
            lines.append(f"{name}: at beta1 = {beta1:g} no alpha meets every condition")
        if "suggestion" in form:
            lines.append(f"{name}: {_suggested(form['suggestion'], theory['iterations'])}")
    lines.append("The corrected column differs because:")
    return lines + [f"  - {line}" for line in theory["differences"]]


def _excess(condition: dict[str, Any]) -> str:
    text = f"{condition['name']}, by a factor of {_number(condition['excess'])}"
    if condition["high"] is None:
        text += f" ({_number(condition['least_excess'])} at the best alpha)"
    return text


def _suggested(suggestion: dict[str, Any] | None, iterations: int) -> str:
    if suggestion is None:
        return "no beta1 and alpha meet every condition"
    return (
        f"suggested: beta1 = {suggestion['beta1']:g}, alpha = {suggestion['alpha']:g}; then "
        f"Theorem 1 gives {_number(suggestion['theorem'], 'no bound')} and Corollary 1 "
        f"{_number(suggestion['corollary'], 'no bound')} at T = {iterations}"
    )


def show_audit(audit: dict[str, Any], output: "Console") -> None:
    """Show both sides of every statement at T, with the verdicts, and the errors of Lemma 11."""
    table = _table(
        f"audit, T = {audit['sums']['T']}: measured against bound, mean over seeds",
        ("statement", "form", "left", "right", "ratio", "verdict"),
    )
    statements = {
        **audit["lemmas"],
        "theorem": audit["theorem"],
        "corollary": audit["corollary"],
    }
    for name, forms in statements.items():
        for form, one in forms.items():
            table.add_row(
                STATEMENTS[name] if form == "paper" else "",
                form,
                _number(one["left"]),
                _number(one["right"], "no bound"),
                _number(one["ratio"], ""),
                _verdict(one),
            )
    output.print(table)
    if any(not one["applies"] for forms in statements.values() for one in forms.values()):
        output.print(
            "no claim: alpha does not meet the conditions of the statement; see mpi-gt theory"
        )
    errors = {name: one["error"] for name, one in audit["identities"].items()}
    held = all(one["verdict"] == "holds" for one in audit["identities"].values())
    line = ", ".join(f"({name}) {error:.1e}" for name, error in errors.items())
    output.print(
        f"Lemma 11, largest error of its identities: {line}: {'hold' if held else 'VIOLATED'}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _verdict(one: dict[str, Any]) -> str:
    if not one["applies"]:
        return "no claim"
    return str(one["verdict"]).replace("violated", "VIOLATED")


def _table(title: str, columns: tuple[str, ...]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title))
    for column in columns:
        numeric = column in ("value", "as printed", "corrected", "left", "right", "ratio")
        table.add_column(
            column,
            justify="right" if numeric else "left",
            overflow="fold",
            no_wrap=column == "statement",
        )
    return table


def _number(value: float | None, missing: str = "infinite") -> str:
    return missing if value is None else f"{value:.5g}"


def _range(condition: dict[str, Any]) -> str:
    if condition["high"] is None:
        return "none"
    return _interval([condition["low"], condition["high"]])


def _interval(ends: list[float] | None) -> str:
    if ends is None:
        return "none"
    low, high = ends
    return f"up to {high:.6g}" if low == 0 else f"{low:.6g} to {high:.6g}"
