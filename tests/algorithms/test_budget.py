"""Budgets: how many iterations a method gets for its gradients or bytes."""

import numpy as np
import pytest

import mpi_gt
from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.algorithms.budget import Budget, Cost, Meter, iterations_within
from mpi_gt.cli.main import main
from mpi_gt.errors import UserError


def meter(name, **options):
    return Meter(ALGORITHMS[name](**options), np.zeros((1, 10)), (32, 2000), 6)


@pytest.mark.parametrize(
    ("name", "options", "start", "steps"),
    [
        ("gt", {}, (32, 0), {1: (32, 960)}),
        ("gt-adaptive", {}, (32, 0), {1: (32, 960)}),
        ("dsgd", {}, (32, 0), {1: (32, 480)}),
        ("gt-sarah", {"period": 4}, (2000, 0), {1: (64, 960), 4: (2000, 960)}),
        ("gt-svrg", {"period": 4}, (2000, 0), {3: (64, 960), 8: (2000, 960)}),
        ("gt-hsgd", {}, (2000, 0), {1: (64, 960)}),
        ("gt-hsgd", {"beta": 1.0}, (32, 0), {1: (32, 960)}),
        ("gt-adaptive-vr", {"period": 0, "start": "batch"}, (32, 0), {64: (64, 960)}),
        ("gt-adaptive-vr", {"beta": 1.0}, (32, 0), {63: (32, 960), 64: (2000, 960)}),
        ("exact-diffusion", {"every": 3}, (32, 0), {2: (32, 0), 3: (32, 480)}),
        ("k-gt", {"every": 3}, (32, 0), {2: (32, 0), 3: (32, 960)}),
    ],
)
def test_the_costs_of_a_step(name, options, start, steps):
    metered = meter(name, **options)
    assert metered.start == Cost(*start)
    assert {t: metered.step(t) for t in steps} == {t: Cost(*cost) for t, cost in steps.items()}


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("budget", ["gradients=5000", "gradients=1", "bytes=50000", "bytes=7680"])
def test_the_first_iteration_at_which_the_budget_is_spent(name, budget):
    metered, limit = meter(name), Budget.of(budget)
    phase = getattr(ALGORITHMS[name](), "phase", None)
    count = iterations_within(limit, metered.start, metered.step, phase, 10**9, name)
    spent, before = metered.start, metered.start
    for t in range(1, count + 1):
        before, spent = spent, spent.plus(metered.step(t))
    assert limit.share(spent) >= 1
    assert count == 1 or limit.share(before) < 1
    assert iterations_within(limit, metered.start, metered.step, phase, 2, name) == min(2, count)


def test_a_budget_that_is_never_spent(monkeypatch):
    monkeypatch.setattr("mpi_gt.algorithms.budget.MOST_STEPS", 1000)
    for name in ("gt", "gt-sarah"):
        alone = Meter(ALGORITHMS[name](), np.zeros((1, 10)), (32, 2000), 0)
        phase = getattr(ALGORITHMS[name](), "phase", None)
        with pytest.raises(UserError, match="sends nothing here"):
            iterations_within(Budget.of("bytes=1"), alone.start, alone.step, phase, 10**15, name)


@pytest.mark.parametrize(
    "text",
    ["", "gradients", "gradients=0", "gradients=-5", "bytes=nan", "bytes=inf",
     "gradients=1,bytes=2", "seconds=5", "gradients=many", "gradients=0.5"],
)  # fmt: skip
def test_budgets_that_are_none(text, capsys, tmp_path):
    words = ["compare", "--stacked", "-n", "3", "--algorithms", "gt,dsgd", "--out"]
    assert main([*words, str(tmp_path / "run"), "--budget", text]) == 2
    printed = capsys.readouterr().err
    assert len(printed.splitlines()) == 1
    assert "budget" in printed


def test_a_comparison_ends_where_each_method_has_spent_the_same():
    result = mpi_gt.run(
        stacked=True, n=4, quiet=True, problem="softmax:rows=400", budget="gradients=3000",
        algorithms="gt,gt-sarah:period=5,exact-diffusion:every=7,algorithms.outside:Refreshed",
    )  # fmt: skip
    last = {row["algorithm"]: row for row in result.metrics}
    assert all(3000 <= row["gradients"] < 3000 + 100 for row in last.values())
    assert {label: row["iteration"] for label, row in last.items()} == result.facts["planned"]
    assert last["gt"]["iteration"] == 93


def test_iterations_limit_a_budget():
    options = {"stacked": True, "n": 4, "quiet": True, "algorithms": "gt,dsgd"}
    result = mpi_gt.run(budget="bytes=1e6", iterations=30, **options)
    assert {row["iteration"] for row in result.metrics if row["iteration"] > 29} == {30}
    result = mpi_gt.run(budget="bytes=10000", **options)
    last = {row["algorithm"]: row for row in result.metrics}
    assert last["dsgd"]["iteration"] == 2 * last["gt"]["iteration"]
    assert last["dsgd"]["bytes"] == last["gt"]["bytes"] >= 10000
