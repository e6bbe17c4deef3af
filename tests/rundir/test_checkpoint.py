"""The files of a checkpoint: what is read is what was written, or it is refused."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from mpi_gt.rundir.checkpoint import Unusable, as_state, glance, read_part, write_part


class State(NamedTuple):
    x: Any
    s: Any


STATE = State(np.arange(6.0).reshape(2, 3), np.ones((2, 3), np.float32))


def test_a_part_comes_back_to_the_bit(tmp_path):
    write_part(tmp_path / "part", {"iteration": 7}, STATE)
    part = read_part(tmp_path / "part")
    assert part.header["iteration"] == 7
    state = as_state(State(np.zeros((2, 3)), np.zeros((2, 3), np.float32)), part)
    assert isinstance(state, State)
    for before, after in zip(STATE, state, strict=True):
        assert (before.tobytes(), before.dtype) == (after.tobytes(), after.dtype)
    assert glance(tmp_path / "part")["iteration"] == 7
    assert [path.name for path in tmp_path.iterdir()] == ["part"]
    with pytest.raises(Unusable, match="its s is float32"):
        as_state(State(np.zeros((2, 3)), np.zeros((2, 3))), part)


def test_every_flipped_bit_and_every_cut_is_found(tmp_path):
    path = tmp_path / "part"
    write_part(path, {"iteration": 7}, STATE)
    content = path.read_bytes()
    for place in range(0, len(content), 5):
        for bit in (0, 6):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            with pytest.raises(Unusable):
                read_part(path)
    for length in (0, 10, 60, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(Unusable):
            read_part(path)


def test_nothing_pickled_is_written_or_read(tmp_path):
    with pytest.raises(ValueError, match="Object arrays"):
        write_part(tmp_path / "part", {}, State(np.array([{}]), np.zeros(1)))
    assert not (tmp_path / "part").exists()
