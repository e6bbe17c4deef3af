"""The files of checkpoints: one per rank or per host, whatever a slot holds of either."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from mpi_gt.errors import UserError
from mpi_gt.rundir.checkpoint import Unusable, pack_part, part_path, write_part
from mpi_gt.rundir.checkpoint_files import (
    Found,
    find_parts,
    host_path,
    latest,
    pack_index,
    read_index,
    remove_others,
    require_files,
    saved_iteration,
    slot_folder,
    whole_checkpoints,
)
from mpi_gt.rundir.layout import clear
from mpi_gt.rundir.run_json import is_resumable


class State(NamedTuple):
    x: Any


def header(node, iteration, nodes=4, saved=0.0):
    return {
        "identity": "i", "algorithm": "gt", "iteration": iteration, "node": node, "nodes": nodes,
        "seconds": 0.5, "bytes": 8, "metrics": None, "saved": saved or float(iteration),
    }  # fmt: skip


def write_host(out, slot, nodes, iteration):
    """Write the file of a host; the states of its nodes have different lengths."""
    path = host_path(out, slot, nodes[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [
        pack_part(header(node, iteration), State(np.full(9 + node, 1.5 * node))) for node in nodes
    ]
    path.write_bytes(pack_index(nodes, [len(part) for part in parts]) + b"".join(parts))
    return path


def write_ranks(out, slot, nodes, iteration):
    slot_folder(out, slot).mkdir(parents=True, exist_ok=True)
    for node in nodes:
        write_part(
            part_path(out, slot, node),
            header(node, iteration),
            State(np.full(9 + node, 1.5 * node)),
        )


def test_each_part_of_a_host_comes_back_to_the_bit(tmp_path):
    path = write_host(tmp_path, 0, [0, 2, 3], 10)
    assert [node for node, *_ in read_index(path)] == [0, 2, 3]
    by_node = find_parts(tmp_path).by_node
    assert sorted(by_node) == [0, 2, 3]
    for node, (place,) in by_node.items():
        part = place.read()
        assert part.header["node"] == place.glance()["node"] == node
        assert part.arrays["x"].tobytes() == np.full(9 + node, 1.5 * node).tobytes()


def test_a_flipped_bit_spoils_the_part_that_it_is_in_and_no_other(tmp_path):
    path = write_host(tmp_path, 0, [0, 1, 2], 10)
    content = path.read_bytes()
    begins = [begin for _, begin, _ in read_index(path)]
    for position in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[position] ^= 4
        path.write_bytes(damaged)
        if position < begins[0]:
            with pytest.raises(Unusable):
                read_index(path)
            assert find_parts(tmp_path).damaged[0][0] == 0
            continue
        for node, (place,) in find_parts(tmp_path).by_node.items():
            if node == sum(position >= begin for begin in begins) - 1:
                with pytest.raises(Unusable, match=r"host-00000 is (damaged|not a checkpoint)"):
                    place.read()
            else:
                assert place.read().header["node"] == node


@pytest.mark.parametrize(
    "line",
    ["null", "[]", '{"parts": 5}', '{"parts": [[0, 1]]}', '{"parts": [[0, -1, 5]]}', "[" * 9999,
     '{"parts": [[0, 1.5, 5]]}', '{"parts": [[true, 0, 5]]}', '{"parts": "abc"}',
     f'{{"parts": [[0, {1 << 63}, 5]]}}', f'{{"parts": [[0, 0, {1 << 64}]]}}'],
)  # fmt: skip
def test_a_sealed_index_of_another_shape_is_refused(tmp_path, line):
    import hashlib

    from mpi_gt.rundir.checkpoint_files import MAGIC

    text = line.encode() + b"\n"
    path = tmp_path / "host-00000"
    path.write_bytes(MAGIC + hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
    with pytest.raises(Unusable, match="its index is not that of a checkpoint"):
        read_index(path)


def test_a_cut_file_and_none_at_all(tmp_path):
    path = write_host(tmp_path, 1, [0, 1], 10)
    content = path.read_bytes()
    for length in (0, 10, 80, len(content) - 1):
        path.write_bytes(content[:length])
        found = find_parts(tmp_path)
        if not found.damaged:
            with pytest.raises(Unusable):
                found.by_node[1][0].read()
    path.unlink()
    assert find_parts(tmp_path) == ({}, [])
    assert latest(tmp_path) == {}
    with pytest.raises(Unusable, match="No such file"):
        read_index(path)


def whole(out, slot, nodes=4):
    """Return the iterations of the checkpoints in a slot that all nodes have, and the problem."""
    by_node = find_parts(out).by_node
    by_rank = [
        [Found(place.slot, place.read().header) for place in by_node.get(node, [])]
        for node in range(nodes)
    ]
    checkpoints, problem = whole_checkpoints(["gt"], by_rank, slot)
    return sorted(iteration for _, iteration in checkpoints), problem


def test_a_slot_with_files_of_both_layouts(tmp_path):
    write_ranks(tmp_path, 0, range(4), 10)
    write_host(tmp_path, 0, [0, 1], 30)
    assert whole(tmp_path, 0) == ([10], "not all of its parts were written")
    write_host(tmp_path, 0, [2, 3], 30)
    assert whole(tmp_path, 0) == ([10, 30], "")
    assert latest(tmp_path)["iteration"] == saved_iteration(tmp_path) == 30


def test_files_of_hosts_that_are_no_longer_used(tmp_path):
    write_host(tmp_path, 0, [0, 1], 10)
    write_host(tmp_path, 0, [2, 3], 10)
    write_host(tmp_path, 0, [0, 1, 2, 3], 30)  # the first file of before is gone
    assert whole(tmp_path, 0) == ([30], "")
    write_host(tmp_path, 1, [0, 1, 2, 3], 20)
    write_host(tmp_path, 1, [0, 1], 40)
    assert whole(tmp_path, 1) == ([], "not all of its parts were written")
    assert saved_iteration(tmp_path) == 30


def test_what_is_superseded_is_removed_and_nothing_else(tmp_path):
    write_ranks(tmp_path, 0, range(4), 10)
    write_host(tmp_path, 0, [2, 3], 10)
    write_host(tmp_path, 0, [0, 1, 2, 3], 30)
    write_ranks(tmp_path, 1, range(4), 20)
    folder = slot_folder(tmp_path, 0)
    for name in (".host-00002.part", ".host-00000.part", "mine", "host-mine"):
        (folder / name).touch()
    remove_others(folder, {"host-00000"})
    kept = {path.name for path in folder.iterdir()}
    assert kept == {"host-00000", ".host-00000.part", "mine", "host-mine"}
    assert whole(tmp_path, 1) == ([20], "")
    remove_others(tmp_path / "missing", {"host-00000"})


def test_run_directories_know_the_file_of_a_host(tmp_path):
    path = write_host(tmp_path, 0, [0, 1, 2, 3], 30)
    assert is_resumable(tmp_path)
    require_files(tmp_path)
    path.with_name(".host-00000.part").touch()
    clear(tmp_path, state=True)
    assert not (tmp_path / "checkpoints").exists()
    assert not is_resumable(tmp_path)
    path.mkdir(parents=True)
    with pytest.raises(UserError, match="is a folder where a checkpoint is to be saved"):
        require_files(tmp_path)
