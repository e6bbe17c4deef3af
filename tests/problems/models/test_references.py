"""References to users' functions: found without importing them, and packages that are missing."""

import sys

import pytest
from campaign.specs import REFERENCES

from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.problems.models import references
from mpi_gt.problems.models.references import digest_of, load, require_package, source_of

WORDS = ["run", "--stacked", "-n", "2", "--iterations", "2", "--out", "out"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "some_package" / "inner"
    package.mkdir(parents=True)
    for file in (package / "__init__.py", package.parent / "__init__.py", tmp_path / "mine.py"):
        file.write_text("raise RuntimeError('imported')\n")
    (package / "good.py").write_text("def loss():\n    return 1\n")
    return tmp_path


def test_a_file_is_found_and_not_imported(folder):
    assert source_of("mine:loss") == folder / "mine.py"
    assert str(source_of("mine.py:loss")) == "mine.py"
    assert source_of("some_package.inner:loss") == folder / "some_package/inner/__init__.py"
    assert source_of("some_package.inner.good:loss") == folder / "some_package/inner/good.py"
    assert source_of("json.decoder:x").name == "decoder.py"
    assert len(digest_of("mine:loss")) == 64


def test_a_module_that_fails_names_its_line(folder):
    with pytest.raises(UserError, match=r"mine:loss: importing .* imported \(.*mine.py, line 1\)"):
        load("mine:loss")


@pytest.mark.parametrize("problem", ["jax:model=", "torch:model=", "torch:model=json:x,loss="])
@pytest.mark.parametrize("text", [text for text in REFERENCES if text not in ("json:loads",)])
def test_bad_references_are_refused_before_anything_is_imported(
    problem, text, folder, capsys, monkeypatch
):
    monkeypatch.setattr(references, "import_module", lambda what, name: sys)
    monkeypatch.setattr(references, "require_package", lambda *names: None)
    assert main([*WORDS, f"--problem={problem}{text}"]) == 2
    assert capsys.readouterr().err.count("error:") == 1


@pytest.mark.parametrize("package", ["jax", "torch"])
def test_a_missing_package_is_named_with_its_command(package, folder, monkeypatch, capsys):
    find = references.importlib.util.find_spec
    monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.setattr(
        references.importlib.util, "find_spec", lambda name: None if name == package else find(name)
    )
    message = f"needs {package}, which is not installed here: pip install 'mpi-gt[{package}]'"
    with pytest.raises(UserError) as caught:
        require_package(package, package)
    assert message in str(caught.value)
    assert main([*WORDS, f"--problem={package}:model=mine:loss"]) == 2
    assert message in capsys.readouterr().err
