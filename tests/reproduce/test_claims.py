"""The paper's claims: intervals and verdicts of curves whose answer is known."""

import numpy as np
import pytest

from mpi_gt.reproduce.claims import Field, judge_all, judge_variance_reduction
from mpi_gt.reproduce.judging import Measured, bootstrap, judge, paired
from mpi_gt.reproduce.markdown import measured


def test_paired_interval_by_hand():
    ours, theirs = np.array([1.0, 2, 3, 4]), np.array([0.0, 2, 2, 4])
    mean, (low, high) = paired(ours, theirs)
    # differences 1, 0, 1, 0: mean 0.5, sd 0.57735, t(3, 0.975) = 3.18245
    assert mean == 0.5
    assert high - low == pytest.approx(2 * 3.182446 * 0.577350 / 2, rel=1e-6)
    assert paired(ours[:1], theirs[:1]) == (1.0, None)


def test_verdicts():
    noise = np.array([0.0, 0.1, -0.1, 0.05, -0.05])

    def verdict(*offsets):
        values = {str(i): noise[::-1] + offset for i, offset in enumerate(offsets)}
        return judge("c", "m", lambda other: (noise, values[other]), values)

    assert verdict(1, 2).verdict == "holds"
    assert verdict(1, -1).verdict == "does not hold"
    assert verdict(1, 0).verdict == "not decided"
    assert verdict(1, 0).against == "1"
    assert verdict().verdict == "not decided"


def rows_of(curves):
    return [
        {"algorithm": name, "seed": seed, "iteration": t, "loss": f(t) + 1e-6 * seed, "gap": f(t)}
        for name, f in curves.items()
        for seed in range(3)
        for t in range(0, 101)
    ]


def test_claims_of_curves_that_satisfy_and_violate_them():
    as_claimed = {
        "gt-adaptive": lambda t: 1.0 * 0.9**t,
        "dsgd": lambda t: 1.0 * 0.5**t + 0.1,
        "gt": lambda t: 1.0 * 0.95**t + 0.1,
        "dsgd-momentum": lambda t: 1.0 * 0.5**t + 0.1,
        "d-amsgrad": lambda t: 1.0 * 0.97**t + 0.1,
        "d-adabound": lambda t: 1.0 * 0.97**t + 0.1,
    }
    claims = judge_all(rows_of(as_claimed), regression=True)
    assert [claim["verdict"] for claim in claims] == ["holds"] * 6
    reversed_roles = {**as_claimed, "gt-adaptive": lambda t: 1.0 * 0.99**t + 0.5}
    claims = judge_all(rows_of(reversed_roles), regression=True)
    verdicts = {claim["claim"]: claim["verdict"] for claim in claims}
    assert verdicts.pop("DSGD and Momentum DSGD are faster at the beginning") == "holds"
    assert set(verdicts.values()) == {"does not hold"}
    assert len(judge_all(rows_of(as_claimed), regression=False)) == 2


def test_gtadam_is_in_no_claim():
    curves = {name: lambda t: 2.0 for name in ("dsgd", "gt", "dsgd-momentum")}
    curves.update({"gt-adaptive": lambda t: 1.0, "gtadam": lambda t: 0.0})
    claims = judge_all(rows_of(curves), regression=False)
    assert [claim["verdict"] for claim in claims] == ["holds"] * 2
    assert Measured(rows_of(curves)).tail("dsgd", "gap").tolist() == [2.0] * 3


def test_a_claim_does_not_hold_on_part_of_the_field():
    curves = {"gt-adaptive": lambda t: 1.0, "dsgd": lambda t: 2.0}
    for claim in judge_all(rows_of(curves), regression=False):
        assert claim["verdict"] == "not decided"
        assert claim["missing"] == ["gt", "dsgd-momentum"]


def test_the_comparison_shown_is_the_one_that_decides():
    noise = np.array([-1.0, 1, -1, 1])
    values = {"noisy": -5 + 30 * noise, "sure": -1 + 0.01 * noise}
    found = judge("c", "m", lambda other: (np.zeros(4), values[other]), values)
    assert (found.verdict, found.against) == ("does not hold", "sure")
    assert found.interval[0] > 0
    values = {"noisy": 5 + 30 * noise, "sure": 1 + 0.01 * noise}
    found = judge("c", "m", lambda other: (np.zeros(4), values[other]), values)
    assert (found.verdict, found.against) == ("not decided", "noisy")


def test_variance_reduction_is_judged_by_a_hundredth_of_the_gap():
    def flat(gap):
        return [gap * (1 + 0.01 * t % 3) for t in range(20)]

    def verdicts(reduced, sarah=1e-6):
        curves = {"gt-adaptive": 1e-4, "gt-adaptive-vr": reduced, "gt-sarah": sarah}
        curves.update({"gt-svrg": 1e-5, "gt-hsgd": 1e-5})
        rows = [
            {"algorithm": name, "seed": seed, "iteration": t, "loss": 1.0, "gap": gap * factor}
            for name, level in curves.items()
            for t, gap in enumerate(flat(level))
            for seed, factor in enumerate((1.0, 1.1, 0.95))
        ]
        return [claim["verdict"] for claim in judge_variance_reduction(rows)]

    assert verdicts(1e-8) == ["holds", "holds"]
    assert verdicts(1e-8, sarah=1e-10) == ["holds", "does not hold"]
    assert verdicts(1e-5) == ["does not hold", "does not hold"]
    assert [claim["verdict"] for claim in judge_variance_reduction([])] == ["not decided"] * 2


def test_claims_about_variance_reduction_state_their_stepsizes():
    rows = rows_of({"gt-adaptive": lambda t: 1.0, "gt-adaptive-vr": lambda t: 0.1})
    field = Field(None, {"gt-adaptive": "0.001", "gt-adaptive-vr": "0.0316"})
    first, second = judge_variance_reduction(rows, field)
    assert first["measure"].endswith(" minus Algorithm 1 (lr 0.0316 and 0.001)")
    assert measured(second) == "there is no result of gt-sarah, gt-svrg, gt-hsgd"


def test_a_perfect_method_leaves_a_claim_about_logarithms_undecided():
    """The logarithm of a gap of zero is no number, and no proof of anything."""
    ours, perfect = np.log10(np.full(5, 1e-3)), np.full(5, -np.inf)
    for pair in ((ours, perfect), (perfect, perfect)):
        with np.errstate(invalid="ignore"):
            found = judge("smaller", "ours - {other}", lambda _, pair=pair: pair, ["gt"])
        assert found.verdict == "not decided"
        assert found.why == "a difference is not a finite number"


def test_one_clear_pair_refutes_a_claim_though_another_is_no_number():
    noise = np.array([0.0, 0.1, -0.1, 0.05, -0.05])
    values = {"overflown": np.full(5, np.inf), "better": noise[::-1] - 1}
    with np.errstate(invalid="ignore"):
        found = judge("c", "m", lambda other: (noise, values[other]), values)
    assert (found.verdict, found.against) == ("does not hold", "better")


def test_a_bootstrap_stands_beside_the_interval_where_it_differs():
    skewed = np.array([0.0] * 9 + [1.0])
    low, high = bootstrap(skewed)
    assert low == 0.0 < 0.1 < high  # no mean of resamples is negative
    mean, interval = paired(skewed, np.zeros(10))
    assert interval[0] < 0
    claim = {
        "measure": "loss", "estimate": mean, "interval": interval, "bootstrap": (low, high),
        "against": "dsgd", "why": "",
    }  # fmt: skip
    assert "by bootstrap [0.00e+00, " in measured(claim)
    assert bootstrap(skewed[-4:]) is None
    # but not where both would read the same
    close = {**claim, "interval": (1.0001, 1.0002), "bootstrap": (1.00012, 1.00018)}
    assert "bootstrap" not in measured(close)
