"""Options of small runs on several hosts, and comparisons of their files."""

from pathlib import Path

import numpy as np
from support import ROOT_OF_REPOSITORY, facts

TEMPLATES = ROOT_OF_REPOSITORY / "scripts" / "batch"
HOSTS = "h1:3,h2:1,h3:2,h4:2"
RANKS = 8
OPTIONS = ["--graph", "er:p=0.7", "--iterations", "40", "--seeds", "20", "--quiet"]

# long enough to be interrupted
LONG = ["--graph", "er:p=0.7", "--iterations", "1500", "--seeds", "1", "--log-every", "20"]
LONG += ["--quiet"]


def rows(directory: Path) -> list[list[str]]:
    """Return metrics.csv without its times."""
    lines = [line.split(",") for line in (directory / "metrics.csv").read_text().splitlines()]
    seconds = lines[0].index("seconds")
    return [line[:seconds] + line[seconds + 1 :] for line in lines]


def iteration(directory: Path) -> int:
    """Return the last measured iteration; -1 before the first."""
    try:
        lines = (directory / "metrics.csv").read_text().splitlines()
        return int(lines[-1].split(",")[2])
    except (OSError, IndexError, ValueError):
        return -1


def assert_same_bits(directory: Path, expected: Path) -> None:
    assert facts(directory)["status"] == "finished"
    with np.load(directory / "final.npz") as ours, np.load(expected / "final.npz") as theirs:
        assert ours["x"].tobytes() == theirs["x"].tobytes()
    assert rows(directory) == rows(expected)
