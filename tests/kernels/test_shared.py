"""The words by which ranks count their exchanges, compiled and in Python, alike."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from mpi_gt import kernels
from mpi_gt.kernels.shared import PolledWords, reached

BOTH = [pytest.param(False, id="compiled"), pytest.param(True, id="python")]


@pytest.fixture(params=BOTH)
def words_class(request, kernels_built):
    return PolledWords if request.param else kernels.C.Words


def word(count=0):
    return np.array([count, 0], np.uint32)


def test_ranks_that_publish_in_turn(words_class):
    a, b = word(), word()
    one, other = words_class(a, (b,), ()), words_class(b, (a,), ())
    for count in range(1, 5):
        one.publish()
        other.publish()
        assert one.count == other.count == a[0] == b[0] == count
        one.wait(0)
        other.wait(0)
    assert a[1] == b[1] == 0  # nobody sleeps


def test_counts_pass_their_largest_number(words_class):
    last = 2**32 - 1
    a, b = word(last), word(last)
    words = words_class(a, (b,), (b,))
    words.wait(0)
    words.publish()
    assert (words.count, a[0]) == (0, 0)
    assert not reached(b, words.count)
    b[0] = 0
    words.wait(0)
    b[0] = 5
    words.wait_for_readers()


@pytest.mark.parametrize("who", ["sources", "readers"])
def test_a_wait_ends_when_the_last_one_has_published(words_class, who):
    theirs = [word(1), word(0), word(1)]
    words = words_class(word(1), tuple(theirs), tuple(theirs))
    publisher = words_class(theirs[1], (), ())
    seen = []

    def publish():
        time.sleep(0.2)  # this thread runs: the one that waits does not hold the interpreter
        seen.append(words.for_readers)
        publisher.publish()

    thread = threading.Thread(target=publish)
    thread.start()
    words.wait(0) if who == "sources" else words.wait_for_readers()
    assert seen == [who == "readers"]
    assert not words.for_readers
    thread.join()


def test_only_sleepers_are_counted_and_woken(kernels_built):
    own, theirs = word(1), word()
    words = kernels.C.Words(own, (theirs,), ())
    thread = threading.Thread(target=words.wait, args=(0,))
    thread.start()
    end = time.monotonic() + 10
    while theirs[1] == 0 and time.monotonic() < end:
        time.sleep(0.001)
    assert theirs[1] == 1
    kernels.C.Words(theirs, (), ()).publish()
    thread.join(10)
    assert not thread.is_alive()
    assert theirs[1] == 0


def test_a_signal_ends_a_wait(words_class):
    class Interrupted(Exception):
        pass

    def interrupt(number, frame):
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    words = words_class(word(1), (word(),), ())
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(Interrupted):
            words.wait(0)
    finally:
        signal.signal(signal.SIGUSR1, before)
        timer.join()


@pytest.mark.parametrize("bad", [np.zeros(1, np.uint32), np.zeros(2, np.int64), None, "ab"])
def test_what_is_no_word_is_refused(kernels_built, bad):
    for given in ((bad, (), ()), (word(), (bad,), ()), (word(), (), (bad,))):
        with pytest.raises(ValueError, match="two uint32"):
            kernels.C.Words(*given)
