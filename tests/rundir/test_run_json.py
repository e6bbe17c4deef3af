"""run.json: the status of a run, also on a full disk."""

from mpi_gt.rundir.run_json import mark_failed, mark_running, read_facts


def test_a_status_can_be_told_on_a_full_disk(tmp_path, monkeypatch):
    mark_running(tmp_path, {"config": {}})

    def full(*rest):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    mark_failed(tmp_path, "the disk is full", 1)
    assert read_facts(tmp_path)["status"] == "failed"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
