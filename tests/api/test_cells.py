"""The source of a class of a notebook, from cells that a stand-in for IPython holds."""

import importlib.util
import linecache

import pytest

from mpi_gt import UserError
from mpi_gt.api.cells import source_of_class


class Shell:
    """The part of IPython's shell that is used: cells, and what they have defined."""

    def __init__(self):
        self.user_ns = {"In": [""]}

    def transform_cell(self, cell):
        return cell

    def run(self, cell, fails=False):
        self.user_ns["In"].append(cell)
        if fails:
            return
        name = f"<cell {id(self)} {len(self.user_ns['In'])}>"
        linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
        exec(compile(cell, name, "exec"), self.user_ns)


@pytest.fixture
def shell():
    return Shell()


def load(text, tmp_path):
    path = tmp_path / "saved.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("saved", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_class_brings_what_it_uses_and_nothing_else(shell, tmp_path):
    shell.run("import math, json\nfrom functools import (\n    partial,\n    reduce)")
    shell.run("SCALE = 2; OTHER = 3\nresult = print('not again')")
    shell.run("def scaled(x):\n    result = SCALE * x\n    return math.floor(result)")
    shell.run("@partial(lambda mark, c: c, 1)\nclass Mine:\n    def get(self):\n"
              "        return scaled(1.6)")  # fmt: skip
    text = source_of_class(shell.user_ns["Mine"], shell)
    assert load(text, tmp_path).Mine().get() == 3
    assert "not again" not in text  # not `print`: the paths of tests may have it


def test_the_last_definition_counts(shell, tmp_path):
    shell.run("def f():\n    return 1")
    shell.run("class Mine:\n    def get(self):\n        return f()")
    shell.run("def f():\n    return 2")
    assert load(source_of_class(shell.user_ns["Mine"], shell), tmp_path).Mine().get() == 2


def test_a_cell_that_failed_does_not_count(shell, tmp_path):
    shell.run("class Mine:\n    def get(self):\n        return 1")
    shell.run("1 / 0\nclass Mine:\n    def get(self):\n        return 2", fails=True)
    shell.run("this is no Python", fails=True)
    assert load(source_of_class(shell.user_ns["Mine"], shell), tmp_path).Mine().get() == 1


def test_base_classes_come_along(shell, tmp_path):
    shell.run("from abc import *\nclass Base(ABC):\n    size = 4")
    shell.run("class Mine(Base):\n    def get(self):\n        return self.size")
    assert load(source_of_class(shell.user_ns["Mine"], shell), tmp_path).Mine().get() == 4


def test_what_no_cell_defines_is_named(shell):
    shell.run("class Mine:\n    def get(self):\n        return table")
    shell.user_ns["table"] = 1  # as by a magic command
    with pytest.raises(UserError, match="uses 'table', which no cell defines"):
        source_of_class(shell.user_ns["Mine"], shell)


def test_a_class_that_is_in_no_cell(shell):
    with pytest.raises(UserError, match="not in a cell"):
        source_of_class(type("Made", (), {}), shell)
