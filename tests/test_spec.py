from typing import Literal

import pytest

from mpi_gt.errors import UserError
from mpi_gt.spec import convert, convert_options, parse, split, split_list


def thing(
    place,
    *,
    size: int = 3,
    rate: float = 0.5,
    flag: bool = False,
    kind: Literal["a", "b"] = "a",
    file: str | None = None,
):
    """Options of every type."""


def test_split():
    assert split("huber") == ("huber", {})
    assert split("huber:dim=3, noise=0") == ("huber", {"dim": "3", "noise": "0"})


@pytest.mark.parametrize("text", ["huber:dim", "huber:=3", "huber:dim=1,dim=2"])
def test_split_refuses(text):
    with pytest.raises(UserError):
        split(text)


def test_conversion():
    given = {"size": "2e3", "rate": "1e-3", "flag": "yes", "kind": "b", "file": "x.npz"}
    assert convert_options("thing", thing, given) == {
        "size": 2000, "rate": 0.001, "flag": True, "kind": "b", "file": "x.npz",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("sise=3", "did you mean 'size'"),
        ("size=3.5", "whole number"),
        ("rate=fast", "must be a number"),
        ("flag=perhaps", "true or false"),
        ("kind=c", "known: a, b"),
        ("place=3", "has no option 'place'"),
    ],
)
def test_bad_option_is_named(option, hint):
    with pytest.raises(UserError, match=hint):
        parse("thing", {"it": thing}, f"it:{option}")


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(UserError, match="did you mean 'ring'"):
        parse("graph", {"ring": thing, "star": thing}, "rong")


def test_infinite_whole_number():
    with pytest.raises(UserError, match="whole number"):
        convert("size", int, "inf")


def test_list_of_algorithms():
    assert split_list("gt-adaptive:lr=0.001,vmin=0.01,dsgd:lr=0.1") == [
        "gt-adaptive:lr=0.001,vmin=0.01",
        "dsgd:lr=0.1",
    ]
    assert split_list("a, b ,c:x=1") == ["a", "b", "c:x=1"]
    assert split_list("m:C,dsgd") == ["m:C", "dsgd"]
    assert split_list("m:C,lr=1,dsgd,lr=2") == ["m:C:lr=1", "dsgd:lr=2"]
