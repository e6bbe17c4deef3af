"""`mpi-gt describe`: every option of everything that a run can name has a meaning."""

import itertools
import re

import pytest

from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.cli.commands.describe import KINDS
from mpi_gt.cli.docstrings import option_docs, split_docstring, summary
from mpi_gt.cli.main import main
from mpi_gt.spec import options_of

THINGS = [
    pytest.param(kind, name, thing, id=f"{kind}-{name}")
    for kind in KINDS
    for name, thing in sorted(KINDS[kind].load().items())
]
OWN = '''
"""A module of the user's."""
from dataclasses import dataclass
from typing import Literal
from mpi_gt.algorithms.dsgd import DSGD


@dataclass(frozen=True)
class Mine(DSGD):
    """A method of mine.

    Options:
        memory >= 1, default unlimited: steps
            that it remembers
    """

    memory: int | None = None
    plain: bool = False
    level: Literal[1, 2] = 1
'''


@pytest.mark.parametrize(("kind", "name", "thing"), THINGS)
def test_every_option_has_a_meaning(kind, name, thing, capsys):
    assert len(summary(thing)) > 5
    for doc in option_docs(thing):
        assert doc.meaning, f"{kind} {name}: its docstring says nothing about {doc.name}"
        assert doc.domain, f"{kind} {name}: {doc.name}"
    assert main(["describe", kind, name]) == 0
    printed = capsys.readouterr().out
    for option in options_of(thing):
        assert re.search(rf"^{option} ", printed, re.MULTILINE)


@pytest.mark.parametrize(("kind", "name", "thing"), THINGS)
def test_no_docstring_describes_an_option_that_is_not_there(kind, name, thing):
    taken = options_of(thing)
    for option, (_, default, _) in split_docstring(thing)[1].items():
        assert option in taken
        # a default that the signature has would be said twice
        assert (taken[option].default is None) == bool(default)


def outside_and_inside(domain):
    """Return numbers that the domain excludes, and some that it includes."""
    if found := re.fullmatch(r">(=?) (\S+)", domain):
        bound = float(found[2])
        outside, inside = [bound - 1, float("nan")], [bound + 1]
        (inside if found[1] else outside).append(bound)
        return outside, inside
    found = re.fullmatch(r"in ([\[(])(\S+), (\S+)([\])])", domain)
    low, high = float(found[2]), float(found[3])
    outside, inside = [low - 1, high + 1], [(low + high) / 2]
    (inside if found[1] == "[" else outside).append(low)
    (inside if found[4] == "]" else outside).append(high)
    return outside, inside


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_domains_of_algorithms_are_those_that_are_checked(name):
    for doc in option_docs(ALGORITHMS[name]):
        if isinstance(options_of(ALGORITHMS[name])[doc.name].default, float):
            outside, inside = outside_and_inside(doc.domain)
            for value in outside:
                with pytest.raises(ValueError, match=doc.name):
                    ALGORITHMS[name](**{doc.name: value})
            for value in inside:
                ALGORITHMS[name](**{doc.name: value})


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not KINDS[kind].whole])
def test_a_kind_is_a_list_with_a_line_each(kind, capsys):
    assert main(["describe", kind]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in itertools.takewhile(str.strip, lines) if line[0] != " "]
    assert names == list(KINDS[kind].load())


def test_a_channel_is_described_with_all_its_options(capsys):
    assert main(["describe", "channel"]) == 0
    whole = capsys.readouterr().out
    for option in KINDS["channel"].load():
        assert f"\n{option} " in whole
    assert main(["describe", "channel", "loss"]) == 0
    assert capsys.readouterr().out == whole


def test_without_a_kind_all_names_are_listed(capsys):
    assert main(["describe"]) == 0
    printed = capsys.readouterr().out
    for kind, name, _ in (thing.values for thing in THINGS):
        assert kind in printed
        assert name in printed


def test_an_option_with_meaning_domain_and_default(capsys):
    assert main(["describe", "algorithm", "gt-adaptive:lr=0.1"]) == 0
    printed = capsys.readouterr().out
    assert "Algorithm 1" in printed
    assert re.search(r"^vmax +100.0 +>= 1 +largest entry of v$", printed, re.MULTILINE)
    assert re.search(r"^lr +0.01 +> 0 +stepsize a$", printed, re.MULTILINE)
    assert "--algorithm gt-adaptive:lr=0.01" in printed
    assert "Options:" not in printed


def test_a_class_of_the_user(tmp_path, monkeypatch, capsys):
    (tmp_path / "described.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["describe", "algorithm", "described:Mine"]) == 0
    printed = capsys.readouterr().out
    assert "A method of mine." in printed
    assert re.search(r"^memory +unlimited +>= 1 +steps that it remembers$", printed, re.MULTILINE)
    assert re.search(r"^plain +False +true or false$", printed, re.MULTILINE)
    assert re.search(r"^order +cta +cta or atc +cta combines", printed, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["algorithms"], "did you mean 'algorithm'?"),
        (["algorithm", "gt-adaptve"], "did you mean 'gt-adaptive'?"),
        (["graph", "rong"], "did you mean 'ring'?"),
        (["exchange", "neighbour"], "did you mean 'neighbor'?"),
        (["weights", "nx.thing:Class"], "there is no weights"),
        (["algorithm", "absent_module:Mine"], "no module 'absent_module'"),
        (["algorithm", "gt", "dsgd"], "does not take 'dsgd'"),
    ],
)
def test_what_cannot_be_described(words, message, capsys):
    assert main(["describe", *words]) == 2
    assert message in capsys.readouterr().err
