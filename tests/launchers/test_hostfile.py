"""Host lists: the examples, writing, reading, mpirun's flags."""

import pytest
from support import ROOT_OF_REPOSITORY

from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.launchers.brands import BRANDS
from mpi_gt.launchers.hostfile import hostfile_text, parse_hosts, read_hostfile
from mpi_gt.launchers.srun import Srun

HOSTFILES = sorted(
    path for path in (ROOT_OF_REPOSITORY / "hostfiles").iterdir() if path.suffix != ".md"
)


@pytest.mark.parametrize("path", HOSTFILES, ids=lambda path: path.name)
def test_the_examples_are_host_lists_of_their_brand(path):
    kind, _, size = path.name.partition("-")
    hosts = read_hostfile(path, BRANDS[kind])
    expected = {"one-machine": [16], "four-nodes": [4, 4, 4, 4], "mixed-slots": [8, 4, 4]}
    assert list(hosts.slots.values()) == expected[size]
    for other in BRANDS:
        if (kind == "openmpi") != (other == "openmpi"):  # the other two share a format
            with pytest.raises(UserError, match="is not for"):
                read_hostfile(path, BRANDS[other])
    assert f"mpi-gt run -n {hosts.total} --hostfile hostfiles/{path.name}" in path.read_text()


@pytest.mark.parametrize("kind", BRANDS)
def test_a_written_host_list_is_read_again(kind, tmp_path, capsys):
    file = tmp_path / "hosts"
    words = ["hostfile", "--hosts", "h1:4, h2.example.org:2", "--mpi", kind]
    assert main([*words, "--out", str(file)]) == 0
    assert read_hostfile(file, BRANDS[kind]).slots == {"h1": 4, "h2.example.org": 2}
    assert f"mpi-gt run -n 6 --hostfile {file}" in file.read_text()
    assert main(words) == 0
    assert hostfile_text(parse_hosts("h1:4,h2.example.org:2"), kind) in capsys.readouterr().out


@pytest.mark.parametrize("kind", BRANDS)
def test_a_line_a_rank_counts_them(kind, tmp_path):
    file = tmp_path / "nodes"
    file.write_text("h1\nh1\n\nh2  # one only\n")
    hosts = read_hostfile(file, BRANDS[kind])
    assert hosts.slots == {"h1": 2, "h2": 1}
    if kind == "craympich":  # its mpiexec takes one number for all hosts
        with pytest.raises(UserError, match="same number of slots"):
            hosts.settled(BRANDS[kind], 3, tmp_path)
        return
    settled = hosts.settled(BRANDS[kind], 3, tmp_path)
    if kind == "openmpi":  # to which `h2` means as many ranks as h2 has cores
        assert "h2 slots=1" in settled.path.read_text()
    assert read_hostfile(settled.path, BRANDS[kind]).slots == hosts.slots


def test_no_more_ranks_than_there_are_share_a_host(tmp_path):
    """Slots that stay empty are no reason to let ranks yield their cores, and to bind none."""
    file = tmp_path / "hosts"
    file.write_text("h1:64\nh2:64\n")
    hosts = read_hostfile(file, BRANDS["mpich"])
    assert [hosts.most(n) for n in (1, 16, 100, 200)] == [1, 16, 64, 100]


@pytest.mark.parametrize(
    ("hosts", "kind", "message"),
    [
        ("h1", "openmpi", "NAME:SLOTS"),
        ("h1:x", "mpich", "NAME:SLOTS"),
        ("h1:0", "mpich", "1 slot or more"),
        (f"h1:{'9' * 5000}", "mpich", "NAME:SLOTS"),
        ("h1:2,h1:2", "mpich", "twice"),
        ("h1:2,-h:3", "openmpi", "not a host name"),
        ("h1:2", "mpch", "did you mean 'mpich'"),
    ],
)
def test_bad_host_lists(hosts, kind, message, capsys):
    assert main(["hostfile", "--hosts", hosts, "--mpi", kind]) == 2
    assert message in capsys.readouterr().err


def test_the_hostfile_of_srun_has_a_line_per_rank(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("h1:1\nh2:2\n")
    hosts = read_hostfile(file, BRANDS["mpich"])
    settled = hosts.settled(Srun(library=BRANDS["mpich"]), 5, tmp_path)
    assert settled.path.read_text().split() == ["h1", "h2", "h2", "h1", "h2"]
