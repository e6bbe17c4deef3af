"""Files on a disk that takes no more."""

import os
from pathlib import Path

import pytest

from mpi_gt.errors import StorageError
from mpi_gt.rundir.atomic import storage_failure, write_atomic, write_csv, writing


def test_a_failed_write_names_its_file():
    with (
        pytest.raises(StorageError, match=r"cannot write trace\.json: No space left on device"),
        writing(Path("trace.json")),
        Path("/dev/full").open("w") as file,
    ):
        file.write("text")


def test_the_errors_of_a_full_disk():
    assert "cannot write a.csv: No space left" in str(
        storage_failure(OSError(28, "No space left on device", "a.csv"))
    )
    assert str(storage_failure(StorageError("full"))) == "full"
    assert storage_failure(FileNotFoundError(2, "No such file")) is None
    assert storage_failure(ValueError("28")) is None


def test_a_table_with_any_names(tmp_path):
    write_csv(tmp_path / "a.csv", ("name", "value"), [{"name": 'a,"b" ü\udcff', "value": 1}])
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == 'name,value\n"a,""b"" ü?",1\n'


def test_what_has_the_name_of_the_temporary_file_is_neither_followed_nor_waited_for(tmp_path):
    (tmp_path / "outside").write_text("precious")
    for make in (os.mkfifo, lambda path: path.symlink_to("outside")):
        make(tmp_path / ".a.part")
        write_atomic(tmp_path / "a", [b"new"])
        assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "outside").read_text() == "precious"
