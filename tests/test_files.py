"""Files from outside: regular ones only, JSON by key and kind, and messages that name them."""

import os

import pytest

from mpi_gt.errors import UserError
from mpi_gt.files import (
    COUNT,
    NUMBER,
    POSITIVE,
    TEXT,
    Each,
    OrNone,
    Record,
    mistake,
    read_json,
    read_table,
    read_text,
    require_regular,
)

KINDS = {
    "name": TEXT,
    "fit": {"latency": NUMBER, "bandwidth": OrNone(POSITIVE)},
    "rows": Each(Record({"bytes": COUNT})),
    "by_name": Each(NUMBER, named=True),
}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, ""),
        ({"name": "a", "fit": {"latency": 0, "bandwidth": None}, "more": [[]]}, ""),
        ({"rows": [{"bytes": 1, "more": 2}], "by_name": {"a": 1.5}}, ""),
        ([], "it must be a table, not []"),
        ({"name": None}, "name must be text, not null"),
        ({"fit": [1]}, "fit must be a table, not [1]"),
        ({"fit": {"latency": "1"}}, 'fit.latency must be a number, not "1"'),
        ({"fit": {"latency": True}}, "fit.latency must be a number, not true"),
        ({"fit": {"latency": 10**400}}, "fit.latency must be a number, not 1000"),
        ({"fit": {"bandwidth": 0}}, "fit.bandwidth must be a number > 0, not 0"),
        ({"rows": [{"bytes": 1}, {}]}, "rows[1] has no bytes"),
        ({"rows": [{"bytes": -1}]}, "rows[0].bytes must be a whole number >= 0, not -1"),
        ({"rows": [7]}, "rows[0] must be a table, not 7"),
        ({"by_name": {"a": "x" * 99}}, 'by_name.a must be a number, not "xxx'),
    ],
)
def test_mistakes_name_the_place(content, message):
    found = mistake(content, KINDS)
    assert found.startswith(message)
    assert bool(found) == bool(message)
    assert len(found) < 120


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": 1e999}',
     b'{"a": 1' + b"0" * 400 + b"}", b"[" * 100_000],
)  # fmt: skip
def test_damaged_json_is_named(tmp_path, content):
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"cannot read .*run\.json"):
        read_json(path)


def test_required_keys(tmp_path):
    path = tmp_path / "run.json"
    path.write_text('{"fit": {"latency": 1}}')
    assert read_table(path, KINDS, ("fit.latency",)) == {"fit": {"latency": 1}}
    for key in ("name", "fit.bandwidth", "fit.latency.more"):
        with pytest.raises(UserError, match=rf"run\.json .*: it has no {key}"):
            read_table(path, KINDS, (key,))


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "absent", tmp_path, tmp_path / "pipe", "/dev/zero", "a\0b"):
        with pytest.raises(UserError, match="cannot read"):
            require_regular(tmp_path / path)
    (tmp_path / "text").write_text("\ufefftext", encoding="utf-8")
    (tmp_path / "link").symlink_to("text")
    assert read_text(tmp_path / "link") == "text"
    with (tmp_path / "text").open("r+b") as file:
        file.truncate(1 << 42)
    with pytest.raises(UserError, match=r"4\.4e\+12 bytes"):
        read_text(tmp_path / "text")
