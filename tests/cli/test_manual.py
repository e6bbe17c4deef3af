"""`mpi-gt manual`: the list of topics, pages as Markdown and as a terminal shows them."""

import re
import unicodedata
from pathlib import Path

import pytest

import mpi_gt
from mpi_gt.cli.commands.manual import read_pages
from mpi_gt.cli.main import main
from mpi_gt.display.console import TERMINAL
from mpi_gt.display.markdown import show_markdown

FOLDER = Path(mpi_gt.__file__).parent / "manual"
TOPICS = {
    *("running", "methods", "data", "extending", "resuming", "clusters", "communication"),
    *("theory", "paper", "mathematics", "speed", "results", "channels", "networks", "zoo"),
}


def test_every_page_is_a_topic_and_in_the_index():
    assert set(read_pages()) == TOPICS == {path.stem for path in FOLDER.glob("*.md")} - {"README"}
    index = (FOLDER / "README.md").read_text()
    assert list(read_pages()) == re.findall(r"\]\((\w+)\.md\)", index)


def test_every_page_begins_with_a_title_and_its_purpose():
    for topic, text in read_pages().items():
        title, purpose = text.split("\n\n")[:2]
        assert re.fullmatch(r"# .+", title), topic
        assert purpose.startswith("This page "), topic
        assert purpose.endswith("."), topic


def test_the_list_names_every_topic(capsys):
    assert main(["manual"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines if line[:1].isalpha()} == TOPICS
    assert all(len(line) <= 100 for line in lines)


@pytest.mark.parametrize("topic", sorted(TOPICS))
def test_a_pipe_gets_the_markdown_itself(topic, capsys):
    assert main(["manual", topic]) == 0
    assert capsys.readouterr().out == (FOLDER / f"{topic}.md").read_text()


@pytest.mark.parametrize("topic", sorted(TOPICS))
@pytest.mark.parametrize("width", [40, 100])
def test_a_terminal_shows_a_page_in_its_width(topic, width, capsys, monkeypatch):
    monkeypatch.setenv(TERMINAL, str(width))
    assert main(["manual", topic]) == 0
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "…" not in shown
    lines = ("".join(c for c in line if not unicodedata.combining(c)) for line in shown.split("\n"))
    assert max(map(len, lines)) <= width
    for title in re.findall(r"^#+ (\w+)", (FOLDER / f"{topic}.md").read_text(), re.MULTILINE):
        assert title in shown
    assert "](" not in shown  # links are text


def test_cells_of_a_table_fold(capsys, monkeypatch):
    monkeypatch.setenv(TERMINAL, "20")
    show_markdown("| a | b |\n|---|---|\n| abcdefghijklmnopqrstuvwxyz | 0123456789 |\n")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "".join(re.findall(r"[a-z]+", shown))[2:] == "abcdefghijklmnopqrstuvwxyz"
    assert "".join(re.findall(r"[0-9]+", shown)) == "0123456789"


def test_an_unknown_topic_suggests_the_nearest(capsys):
    assert main(["manual", "runing"]) == 2
    assert "did you mean 'running'?" in capsys.readouterr().err
