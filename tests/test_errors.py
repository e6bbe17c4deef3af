"""Messages about bad input: one line that a terminal can print."""

import pickle

from mpi_gt.errors import LONGEST_MESSAGE, UserError


def test_a_message_is_one_line_whatever_it_quotes():
    assert str(UserError("no file 'a\nb\x1b[31m\udcff'")) == r"no file 'a\nb\x1b[31m\udcff'"
    assert str(UserError("é 日本 ²")) == "é 日本 ²"


def test_a_message_survives_the_way_from_rank_to_rank():
    error = UserError("a\nb\\c")
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == r"a\nb\c"


def test_a_long_message_keeps_its_ends():
    text = str(UserError("begin " + "x" * 70_000 + " end"))
    assert len(text) <= LONGEST_MESSAGE + 5
    assert text.startswith("begin x")
    assert text.endswith("x end")
