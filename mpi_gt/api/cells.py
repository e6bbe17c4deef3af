"""The source of a class that was typed into a notebook, with all that it needs from other cells."""

import ast
import builtins
import linecache
import os
import symtable
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UserError


class Definition(NamedTuple):
    """A statement of a cell that gives names a meaning."""

    cell: int
    first: int
    last: int
    text: str


def notebook() -> Any:
    """Return the IPython shell that runs this process's cells; None outside of IPython."""
    if "IPython" not in sys.modules:
        return None
    return sys.modules["IPython"].get_ipython()


def source_of_class(user_class: type, shell: Any) -> str:
    """Return a module with the class and whatever it uses from the cells that were run.

    Raises UserError if it uses something that no cell defines.
    """
    cells = [shell.transform_cell(text) for text in shell.user_ns.get("In", [])]
    found: dict[str, Definition] = {}
    stars: list[Definition] = []
    for number, cell in enumerate([*cells, _cell_of(user_class)]):
        for names, definition in _definitions(number, cell):
            if "*" in names:
                stars.append(definition)
            # the last one is the cell of the class itself: a later one may have failed
            if number < len(cells) or user_class.__name__ in names:
                found.update(dict.fromkeys(names, definition))
    if user_class.__name__ not in found:
        raise UserError(
            f"the source of {user_class.__name__} is not in a cell of this notebook: write the "
            "class in a module"
        )
    needed = _closure(user_class.__name__, found, set() if stars else set(shell.user_ns))
    parts = [each.text for each in sorted({*needed, *stars})]
    title = f'"""The class {user_class.__name__} of a notebook, saved by mpi_gt.launch."""'
    future = sorted({line for cell in cells for line in cell.splitlines() if _is_future(line)})
    return "\n\n".join([title, *future, _search_path(), *parts]) + "\n"


def _search_path() -> str:
    """Return statements that look for modules where the notebook does, last of all."""
    installed = tuple({sys.prefix, sys.base_prefix})
    own = [each for each in sys.path if Path(each).is_dir() and not each.startswith(installed)]
    folders = list(dict.fromkeys(map(os.path.abspath, [os.curdir, *own])))
    return f"import sys\n\nsys.path += [each for each in {folders!r} if each not in sys.path]"


def _is_future(line: str) -> bool:
    return line.startswith("from __future__ import")


def _cell_of(user_class: type) -> str:
    """Return the cell in which the class was made, by its first method; "" if it is unknown."""
    for part in vars(user_class).values():
        code = getattr(part, "__code__", None)
        if code is not None and code.co_name == getattr(part, "__name__", "") != "<lambda>":
            lines = linecache.getlines(code.co_filename)
            if any(f"class {user_class.__name__}" in line for line in lines):
                return "".join(lines)
    return ""


def _definitions(number: int, cell: str) -> Iterator[tuple[list[str], Definition]]:
    """Yield the statements of a cell that define names, each with these names."""
    try:
        statements = ast.parse(cell).body
    except SyntaxError:  # it was never run
        return
    lines = cell.splitlines()
    for node in statements:
        names = list(_bound(node))
        if not names or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            continue
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        last = node.end_lineno or first
        yield names, Definition(number, first, last, "\n".join(lines[first - 1 : last]))


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement binds at the top level."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store):
            yield node.id
    elif not isinstance(node, ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _bound(child)


def _closure(name: str, found: dict[str, Definition], known: set[str]) -> set[Definition]:
    """Return the definitions that `name` needs, itself included.

    Raises UserError if a name that the notebook has, one of `known`, is defined by no statement.
    """
    needed: set[Definition] = set()
    waiting = [name]
    while waiting:
        definition = found.get(waiting.pop())
        if definition is None or definition in needed:
            continue
        needed.add(definition)
        for used in _globals_of(definition.text):
            if used in known and used not in found and not hasattr(builtins, used):
                raise UserError(
                    f"{name} uses '{used}', which no cell defines by import, def, class or =: "
                    "the ranks would not know it"
                )
            waiting.append(used)
    return needed


def _globals_of(text: str) -> set[str]:
    """Return the global names that a statement refers to, also from within functions."""

    def walk(table: symtable.SymbolTable, top: bool) -> Iterator[str]:
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (top or symbol.is_global()):
                yield symbol.get_name()
        for child in table.get_children():
            yield from walk(child, False)

    return set(walk(symtable.symtable(text, "cell", "exec"), True))
