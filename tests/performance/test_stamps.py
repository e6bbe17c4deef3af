"""Time stamps and the phases they add up to."""

import gc
import itertools
import weakref
from time import perf_counter_ns

import numpy as np
import pytest
from support import skip_or_fail

from mpi_gt import kernels
from mpi_gt.kernels import reference as twins
from mpi_gt.performance.phases import (
    AWAIT,
    BEGIN,
    EXCHANGE,
    GRADIENT,
    METRIC,
    PACKING,
    PHASES,
    POST,
    UNATTRIBUTED,
    UPDATE,
)
from mpi_gt.performance.stamps import Phases, Stamps


def test_stamps_add_up_to_phases_however_often_they_are_folded(monkeypatch):
    """The times are made up; a plain loop over the stamps gives the same."""
    random = np.random.default_rng(0)
    now = 0
    clock = []

    def tick():
        nonlocal now
        now += int(random.integers(1, 1000))
        clock.append(now)
        return now

    monkeypatch.setattr("mpi_gt.kernels.reference.perf_counter_ns", tick)
    monkeypatch.setattr(
        "mpi_gt.performance.stamps.stamp", twins.stamp
    )  # the kernels' clock is the real one
    codes = [BEGIN, PACKING, POST, PACKING, UPDATE, AWAIT, PACKING, GRADIENT, UPDATE, UNATTRIBUTED]
    iterations = 20
    phases = Phases(iterations, range(5, 8))
    expected = np.zeros((iterations + 1, len(PHASES)))
    stamped = [(0, UNATTRIBUTED, clock[0])]
    for t in range(1, iterations + 1):
        for code in codes:
            phases.enter(code)
            stamped.append((t, code, now))
        if t % 6 == 0:
            with phases.during(METRIC):
                stamped.append((t, METRIC, now))
            stamped.append((t, UNATTRIBUTED, now))
        if t in (3, 4, 11):
            phases.flush()  # profiling, then unattributed again
            stamped += [(t, len(PHASES) - 1, clock[-2]), (t, UNATTRIBUTED, clock[-1])]
    phases.close()
    stamped.append((iterations, len(PHASES) - 1, clock[-2]))
    plain = {BEGIN: UPDATE, POST: EXCHANGE, AWAIT: EXCHANGE}
    for (t, code, begin), (_, _, end) in itertools.pairwise(stamped):
        expected[t, plain.get(code, code)] += (end - begin) * 1e-9
    np.testing.assert_allclose(phases.seconds, expected, atol=1e-15)
    assert phases.calls[:, 1].tolist() == [e for e in range(iterations) for _ in "pa"]
    assert phases.calls[:, 0].tolist() == [t for t in range(1, iterations + 1) for _ in "pa"]
    kept = np.concatenate(phases.kept)
    assert set(kept[:, 0]) == {5, 6, 7}
    assert (kept[1:, 2] == kept[:-1, 3]).all()  # no gap


def test_compiled_stamps_are_those_of_python():
    if kernels.C is None:
        skip_or_fail("the kernels were not built")
    stamps = Stamps()
    before = perf_counter_ns()
    stamps.add(3)
    stamps.add(7)
    twins.stamp(stamps.words, 9)
    codes, times = stamps.pairs.T
    assert codes.tolist() == [3, 7, 9]
    assert before <= times[0] <= times[1] <= times[2] <= perf_counter_ns()
    stamps.keep_last()
    assert stamps.pairs.tolist() == [[9, times[2]]]
    stamps.words[0] = len(stamps.words)
    with pytest.raises(RuntimeError, match="too many"):
        stamps.add(1)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_function_between_two_stamps(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr("mpi_gt.kernels.C", None)
    elif kernels.C is None:
        skip_or_fail("the kernels were not built")
    stamps = Stamps()

    def divide(a, b):
        return a / b

    watched = stamps.around(3, 7, divide)
    assert watched(7, b=2) == 3.5
    assert stamps.pairs[:, 0].tolist() == [3, 7]
    with pytest.raises(ZeroDivisionError):
        watched(7, 0)
    assert stamps.pairs[:, 0].tolist() == [3, 7, 3]


def test_a_watched_method_of_an_object_does_not_keep_it_alive():
    class Thing:
        def method(self):
            return self

    thing = Thing()
    thing.method = Stamps().around(1, 2, thing.method)
    assert thing.method() is thing
    gone = weakref.ref(thing)
    del thing
    gc.collect()
    assert gone() is None
