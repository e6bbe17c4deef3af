"""Checkpoints with a file per host: on these ranks, and on hosts that are made up."""

from pathlib import Path

import numpy as np
import pytest

import mpi_gt
from mpi_gt.comm import host_group, segments
from mpi_gt.comm.host_group import HostGroup

pytestmark = pytest.mark.mpi

OPTIONS = {"seeds": 2, "problem": "huber:dim=6,spread=0.3", "graph": "complete", "log_every": 1}


@pytest.fixture
def spread(monkeypatch):
    """Return a function that puts the ranks on so many hosts, in turns."""

    def put(hosts):
        def split(comm):
            return comm.Split(comm.rank % hosts, comm.rank)

        monkeypatch.setattr(segments, "split_by_host", split)

    return put


def shared_folder(comm, tmp_path_factory):
    return Path(comm.bcast(str(tmp_path_factory.mktemp("run") / "run")))


def files(comm, out):
    """Return the names of the files in each slot, on every rank."""
    comm.Barrier()
    names = [sorted(path.name for path in (out / "checkpoints" / slot).iterdir()) for slot in "ab"]
    comm.Barrier()
    return names


def test_parts_of_any_length_reach_the_writer_in_small_pieces(comm, spread, monkeypatch):
    monkeypatch.setattr(host_group, "PIECE", 10)
    spread(2)
    group = HostGroup(comm)
    assert group.nodes == list(range(comm.rank % 2, comm.size, 2))
    if comm.rank == 0:
        assert group.writers == list(range(min(2, comm.size)))
    for _ in range(3):
        part = memoryview(np.arange(7 * comm.rank, dtype=np.uint8).tobytes())
        if not group.is_writer:
            group.send(part)
            continue
        lengths, pieces = group.receive(part)
        assert lengths == [7 * node for node in group.nodes]
        received = b"".join(bytes(piece) for piece in pieces)
        expected = [np.arange(7 * node, dtype=np.uint8).tobytes() for node in group.nodes]
        assert received == b"".join(expected)
    group.free()


@pytest.mark.parametrize(("place", "stage"), [("rank", False), ("shuffled:seed=4", True)])
def test_layouts_and_hosts_change_from_resume_to_resume(
    comm, spread, place, stage, tmp_path_factory
):
    """Each stretch has its own layout and hosts; the end is that of an undisturbed run."""
    whole = mpi_gt.run(comm, iterations=42, **OPTIONS)
    out = shared_folder(comm, tmp_path_factory)
    scratch = Path(comm.bcast(str(tmp_path_factory.mktemp("scratch"))))
    stretches = [("rank", 1), ("host", 2), ("host", 1), ("rank", 3), ("host", 3), ("host", 2)]
    for number, (layout, hosts) in enumerate(stretches, 1):
        spread(hosts)
        options = {"out": str(out), "checkpoint_every": 3, "checkpoint_layout": layout}
        if stage:
            options["checkpoint_staging"] = str(scratch)
        part = mpi_gt.run(
            comm, iterations=7 * number, resume=True, place=place, **OPTIONS, **options
        )
        writers = comm.size if layout == "rank" else min(hosts, comm.size)
        for names in files(comm, out):  # whatever the stretch before has written is gone
            assert len(names) == writers
            assert all(name.startswith("node" if layout == "rank" else "host") for name in names)
        assert not list(scratch.iterdir())
        if comm.rank == 0:
            resumed = [each["iteration"] for each in part.facts["resumes"]]
            assert resumed == list(range(0, 7 * number, 7))
    if comm.rank == 0:
        assert [{**row, "seconds": 0} for row in part.metrics] == [
            {**row, "seconds": 0} for row in whole.metrics
        ]


def test_a_damaged_part_in_the_file_of_a_host(comm, spread, tmp_path_factory):
    from mpi_gt.rundir.checkpoint_files import find_parts

    spread(2)
    whole = mpi_gt.run(comm, iterations=25, **OPTIONS)
    out = shared_folder(comm, tmp_path_factory)
    options = {**OPTIONS, "out": str(out), "checkpoint_layout": "host"}
    mpi_gt.run(comm, iterations=12, checkpoint_every=5, **options)
    if comm.rank == 0:
        last = find_parts(out).by_node[comm.size - 1]
        place = max(last, key=lambda each: each.glance()["iteration"])
        content = bytearray(place.path.read_bytes())
        content[place.begin + place.length // 2] ^= 4
        place.path.write_bytes(content)
    comm.Barrier()
    result = mpi_gt.run(comm, iterations=25, resume=True, **options)
    assert (result.x == whole.x).all()
    if comm.rank == 0:
        assert result.facts["resumes"][-1]["iteration"] == 10
        assert sum("is damaged" in text for text in result.facts["warnings"]) == 1


@pytest.mark.parametrize("layout", ["rank", "host"])
def test_a_slot_is_overwritten_only_when_all_have_copied_the_other(
    comm, spread, layout, monkeypatch, tmp_path_factory
):
    """The copies of one host take long: meanwhile the other hosts do not begin with the next."""
    import time

    from mpi_gt.rundir import staging
    from mpi_gt.rundir.checkpoint_files import saved_iteration

    spread(2)
    out = shared_folder(comm, tmp_path_factory)
    write_atomic, seen = staging.write_atomic, []

    def slow(path, pieces):
        seen.append(saved_iteration(out))
        if comm.rank == comm.size - 1 or (layout == "host" and comm.rank == 1):
            time.sleep(0.05)
        write_atomic(path, pieces)

    monkeypatch.setattr(staging, "write_atomic", slow)
    options = {"checkpoint_layout": layout, "checkpoint_staging": str(out.parent)}
    mpi_gt.run(comm, iterations=20, checkpoint_every=5, out=str(out), **OPTIONS, **options)
    comm.Barrier()
    writes = layout == "rank" or comm.rank < 2
    # when a copy begins, the checkpoint before it is whole (and this one may be, but for one file)
    assert [each or 0 for each in seen] == ([0, 5, 10, 15] if writes else [])
    assert saved_iteration(out) == 20
    assert [path.name for path in out.parent.iterdir()] == ["run"]


def test_scratch_that_one_host_does_not_have(comm, spread, monkeypatch, tmp_path_factory):
    from mpi_gt.engine import build
    from mpi_gt.errors import UserError

    monkeypatch.setattr("mpi_gt.comm.collective.place_on_host", lambda comm: (comm.rank % 2, 2))
    require = build.require_scratch

    def missing_on_the_last_host(text):
        require(text if comm.rank < comm.size - 1 else "/missing")

    monkeypatch.setattr(build, "require_scratch", missing_on_the_last_host)
    out = shared_folder(comm, tmp_path_factory)
    if comm.size % 2:  # the last rank is the first one of a host
        with pytest.raises(
            UserError, match=r"checkpoint-staging: '/missing' on .* is not a folder"
        ):
            mpi_gt.run(comm, out=str(out), checkpoint_staging=str(out.parent), **OPTIONS)
    comm.Barrier()
    assert not out.exists()
