"""The cost of compressing: where it pays, and the lines that `predict` goes by."""

import pytest

from mpi_gt.errors import UserError
from mpi_gt.performance.codecs import (
    codec_in,
    codecs_of,
    measured_codec,
    parse_compressors,
    pays_of,
)
from mpi_gt.performance.prediction import shortest


def row(size, ratio=1.0, degree=2, **others):
    key = {"graph": "ring", "exchange": "p2p", "compress": "sign", "degree": degree}
    return {**key, "bytes": size, "ratio": ratio, **others}


@pytest.mark.parametrize(
    ("ratios", "start"),
    [
        ({160: 2.0, 1600: 1.5, 16000: 0.5}, 16000),
        ({160: 0.9, 1600: 0.8, 16000: 0.5}, 160),
        ({160: 0.9, 1600: 1.0, 16000: 0.5}, 16000),  # a lucky measurement of short messages
        ({160: 0.9, 1600: 0.8, 16000: 1.1}, None),
    ],
)
def test_it_pays_from_the_size_from_which_on_it_always_does(ratios, start):
    (found,) = pays_of([row(size, ratio) for size, ratio in ratios.items()])
    assert found == {"graph": "ring", "exchange": "p2p", "compress": "sign", "from": start}


def test_the_lines_go_through_the_shortest_times():
    rows = [
        row(8 * numbers, degree=degree, shortest={"encode": e * worse, "decode": d * worse})
        for numbers in (20, 2000, 200_000)
        for e, d in [(3e-6 + numbers / 1e9, 1e-6 + numbers / 4e9)]
        for degree, worse in ((2, 1.0), (5, 1.7))
    ]
    (found,) = codecs_of(rows)
    assert found["encode_base"] == pytest.approx(3e-6)
    assert found["encode_rate"] == pytest.approx(1e9)
    assert found["decode_base"] == pytest.approx(1e-6)
    assert found["decode_rate"] == pytest.approx(4e9)
    assert codecs_of(rows[:2]) == []  # one size
    assert codecs_of([{**each, "shortest": None} for each in rows]) == []  # one node


def test_a_codec_is_found_whatever_is_spelled_out():
    codec = {"compress": "qsgd:bits=8", "encode_base": 1.0, "encode_rate": None}
    codec |= {"decode_base": 2.0, "decode_rate": 5.0}
    found = codec_in([codec], "qsgd:block=64,bits=8", "there")
    assert found.encode.seconds(10**9) == 1.0
    assert found.decode.seconds(10) == 4.0
    assert codec_in([codec], "qsgd", "there") is None
    assert codec_in([codec], "sign", "there") is None


@pytest.mark.parametrize("spec", ["sign", "qsgd:bits=2", "top:k=300", "top:k=300000"])
def test_codecs_timed_here_take_longer_for_longer_vectors(spec):
    found = measured_codec(spec, 400_000, "float64", lambda work, _: shortest(work, 0.002))
    for line in (found.encode, found.decode):
        assert 0 < line.seconds(1000) < line.seconds(10**9)


def test_lists_of_compressors():
    given = ["qsgd:bits=8,block=256,sign", "top:k=0.1"]
    assert parse_compressors(given) == ("qsgd:bits=8,block=256", "sign", "top:k=0.1")
    for bad in ("", ",", ["sign", "sign"]):
        with pytest.raises(UserError, match="--compress"):
            parse_compressors(bad)
