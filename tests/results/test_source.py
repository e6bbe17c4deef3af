"""The commit of a checkout."""

import subprocess

import pytest

from mpi_gt.results.source import source_facts


def test_a_checkout_has_its_commit_and_whether_files_have_changed(tmp_path):
    package = tmp_path / "mpi_gt"
    package.mkdir()
    (tmp_path / "pyproject.toml").write_text("a")

    def git(*words):
        name = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        done = subprocess.run(["git", *name, *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    try:
        git("init", "-q")
    except FileNotFoundError:
        pytest.skip("no git")
    git("add", "pyproject.toml")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "HEAD")
    assert source_facts(package) == {"commit": commit, "changed": False}
    source_facts.cache_clear()
    (tmp_path / "pyproject.toml").write_text("bb")
    assert source_facts(package) == {"commit": commit, "changed": True}
    source_facts.cache_clear()


def test_without_a_checkout_there_is_no_commit(tmp_path):
    (tmp_path / "mpi_gt").mkdir()
    assert source_facts(tmp_path / "mpi_gt") is None
