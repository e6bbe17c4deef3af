"""The files of the watchdog: of many stuck ranks only some write a report."""

from mpi_gt.rundir.layout import STUCK, WATCHDOG
from mpi_gt.rundir.watchdog_reports import (
    REPORTS,
    forget_reports,
    has_reports,
    read_reports,
    read_stuck,
    send_stuck,
)


def report(node, waits=100):
    return {"node": node, "waits": waits, "text": f"node {node} is stuck"}


def test_of_a_thousand_stuck_ranks_only_some_write_reports(tmp_path):
    for node in range(1000):
        if node != 500:
            send_stuck(tmp_path, report(node))
    assert len(read_reports(tmp_path)) == REPORTS
    assert read_stuck(tmp_path) == set(range(1000)) - {500}


def test_a_rank_that_was_stuck_before_all_others_is_always_heard(tmp_path):
    for node in range(REPORTS + 5):
        send_stuck(tmp_path, report(node))
    send_stuck(tmp_path, report(900, waits=99))
    assert read_reports(tmp_path)[0]["node"] == 900
    assert len(read_reports(tmp_path)) == REPORTS + 1


def test_files_of_an_earlier_run_are_forgotten(tmp_path):
    assert not has_reports(tmp_path)
    assert not has_reports(None)
    assert read_stuck(None) == set()
    send_stuck(tmp_path, report(3))
    assert has_reports(tmp_path)
    forget_reports(tmp_path)
    assert not has_reports(tmp_path)
    assert read_stuck(tmp_path) == set()
    assert not (tmp_path / STUCK).exists()


def test_a_directory_that_is_gone_is_no_error(tmp_path):
    send_stuck(tmp_path / "gone", report(1))
    assert read_reports(tmp_path / "gone") == []
    assert not (tmp_path / "gone" / WATCHDOG).exists()
