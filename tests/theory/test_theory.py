"""The formulas of the theory against numbers worked out by hand, and its advice."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from mpi_gt.cli.main import main
from mpi_gt.problems import Huber, Place, Softmax
from mpi_gt.theory import FORMS, Corrected, Paper, Setting, Start, Sums, admissible_alphas, suggest

# rho_A = 0, so that 1 - rho_A² = 1; beta1²/(1-beta1)² = 1; 1 - beta2² = 0.64
HAND = Setting(
    n=4, rho=0.0, L=2.0, G=3.0, sigma2=0.25,
    alpha=0.1, beta1=0.5, beta2=0.6, vmin=0.25, vmax=4.0,
)  # fmt: skip
F = Fraction

# vmax^½ + 2 alpha² (L+1) = 2 + 0.06 = 2.06, and 1/vmin = 4, throughout
PAPER = {
    "M1": 16.48,  # 4·4·2/4 · 2.06
    "M2": 37.08,  # 18·4/4 · 2.06
    "M3": 33.0,  # 1·4/4 · (16·2 + 32·0.01·3 + 0.01·4)
    "M4": 33.0,
    "M5": 296.64,  # 9·64/4 · 2.06
    "M6": 8.24,  # 4·4/4 · 2.06
    "N1": 239232,  # 14400·4·4 + 72·4·(4 + 80/3) = 230400 + 8832
    "N2": 2016,  # 504·4
    "N3": 228,  # 12 + 216
    "N4": 2976,  # max(720·4 + 24·4, 2·0.25/0.75, 1/2)
    "mu": 291,  # 36·4·2 + 2 + 1
    "omega": 100,  # 1/0.01
    # 2016 (2/9·291 + 291 + 72·27·16) + 1 + 12 + 100 (291 + 4/36)(3 + 4·2016·5)
    "N2p": 63422688 + 13 + F(29100 * 9 + 100, 9) * 40323,
    # 291·228 (2/9 + 100·20 + 1) + 228 (400/9 + 16/10) + 291 (1/9 + 300) + 400/24
    "N3p": 66348 * F(18011, 9) + 228 * F(2072, 45) + 291 * F(2701, 9) + F(50, 3),
    # 291·2976/4 (20/81 + 1 + 1·(8 + 80/3) + 31104) + max(2·2·291/36 + 12, 9·16·291/(18·4·0.64))
    "N4p": 216504 * (F(20, 81) + 1 + F(104, 3) + 31104) + F(909375, 1000),
}
CORRECTED = {
    "M1": 32.96,  # 4·4·4/4 · 2.06
    **{name: PAPER[name] for name in ("M2", "M3", "M4", "M5", "M6")},
    "S": 15,  # 3 (1 + 2·2/1)
    "Kx": 3110592,  # 48·4 + 24·9·225·64
    "D": 54,  # 6·0.01·9·64/0.64
    "N1": 5339273564.16,  # 360·4·3110592 + 72·4·4 (4 + 6·4·0.01·3110592)
    "N2": 8064,  # 504·4·4
    "N3": 222,  # 216 + 6
    "N4": 79056,  # max(720·4 + 12·4, (360·4 + 6·4)·54, 4)
    # (32.96 + 6·4·33)·0.01·3110592 + 37.08 + 4·33 + 8·225·296.64, the bracket being 824.96
    "E": 26195260.8432,
    # 2·4·8064·E + 6·4·33/0.01 + 1 + 12
    "N2p": 64512 * 26195260.8432 + 79200 + 13,
    # 2·4·222·E + 6·4·33 + 4·8.24
    "N3p": 1776 * 26195260.8432 + 824.96,
    # 2·79056·E + max(824.96·2, 824.96·54 + 2·296.64/0.64)
    "N4p": 158112 * 26195260.8432 + 44547.84 + 927,
}


@pytest.mark.parametrize(("form", "expected"), [(Paper, PAPER), (Corrected, CORRECTED)])
def test_constants_by_hand(form, expected):
    assert set(form.constants) == set(expected)
    for name, value in expected.items():
        assert getattr(form(HAND), name) == pytest.approx(float(value), rel=1e-12), name


def test_right_sides_by_hand():
    sums = Sums(T=10, x=1, s=2, m=3, mbar=5, v=7, v_next=11, gradient=13, noise=17)
    start = Start(descent=1, delta1=1, delta2=2, delta3=3)
    paper, corrected = Paper(HAND), Corrected(HAND)
    # M1 x + M2 s + M3 m + M4 mbar + M5 v + M6 noise
    assert paper.lemma1(sums) == pytest.approx(16.48 + 74.16 + 99 + 165 + 296.64 * 7 + 8.24 * 17)
    assert corrected.lemma1(sums) == pytest.approx(
        32.96 + 74.16 + 99 + 165 + 296.64 * 11 + 8.24 * 17
    )
    # 0.1 (1/2 - 0.1·2/2 - 0.1·4·3)
    assert paper.descent == pytest.approx(-0.08)
    assert paper.lemma2(sums) == corrected.lemma2(sums) == 8
    assert paper.lemma3(sums, start) == pytest.approx(40 * 0.01 * 4 * 2 + 2)  # = 5.2
    assert corrected.lemma3(sums, start) == pytest.approx(0.01 * 3110592 * 2 + 2 + 54 * 2)
    # 6 L² times Lemma 3, + 6 n (gradient + sigma² T)
    assert paper.lemma4(sums, start) == pytest.approx(24 * 5.2 + 24 * 15.5)
    assert corrected.lemma4(sums, start) == pytest.approx(24 * 62321.84 + 24 * 15.5)
    assert paper.lemma5(sums, start) == pytest.approx(36 * 9 * 2 + 2 * 2 / 0.64)
    assert corrected.lemma5(sums, start) == pytest.approx(8 * 225 * 2 + 2 * 2 / 0.64)
    # 2 n alpha² N2 gradient + 2 n T N3 sigma² + 2 N4 Delta
    assert paper.lemma6(sums, start) == pytest.approx(
        0.08 * 2016 * 13 + 80 * 228 * 0.25 + 2 * 2976 * 6
    )
    assert corrected.lemma6(sums, start) == pytest.approx(
        0.08 * 8064 * 13 + 80 * 222 * 0.25 + 2 * 79056 * 6
    )
    assert paper.theorem(10, start) == corrected.corollary(10, start) == math.inf


# small enough for the bounds to exist: 1/vmin = vmax = 1, no momentum
SMALL = Setting(
    n=2, rho=0.0, L=1.0, G=1.0, sigma2=0.5,
    alpha=1e-8, beta1=0.0, beta2=0.6, vmin=1.0, vmax=1.0,
)  # fmt: skip


def test_bounds_by_hand():
    """Terms of the order of alpha² beside 1 are left out here."""
    start = Start(descent=3.0, delta1=1.0, delta2=2.0, delta3=4.0)
    T = 100
    # mu = 38; 72 G³ = 72; N2 = 504; N3 = 228; N4 = 744
    n2 = 504 * (38 / 9 + 38 + 72) + 0.5 + 2
    n3 = 38 * 228 * (1 / 9 + 1) + 228 / 10 + 38 / 9
    n4 = 38 * 744 / 2 * (10 / 81 + 1 + 72) + max(2 * 38 / 18, 38 / (18 * 2 * 0.64))
    gain = 1e-8 * (1 - 1e-8 * n2)
    paper = Paper(SMALL)
    assert paper.theorem(T, start) == pytest.approx(
        (3 + T * n3 * 0.5 + n4 * 7) / (T * gain), rel=1e-9
    )
    first = 80 * 504 * 1e-16 / gain * 3 / T
    second = (80e-16 * (504 * n4 / gain + 744 / 2) + 2 / 2) * 7 / T
    third = 40e-16 * (2 * 504 * n3 / gain + 2 * 228) * 0.5
    assert paper.corollary(T, start) == pytest.approx(first + second + third, rel=1e-9)

    # S = 1 + 2 sqrt 2; Kx = 48 + 24 S²; M1 = M6 = 2, M2 = 9, M5 = 1/2; N4 = 732
    s2 = (1 + 2 * math.sqrt(2)) ** 2
    e = 9 + 4 * s2
    n2 = 2 * 2 * 504 * e + 2.5
    n3 = 2 * 2 * 222 * e + 4
    n4 = 2 * 732 * e + max(4, 2 * 0.5 / 0.64)
    bound = (3 + n4 * 7 + T * n3 * 0.5) / (1e-8 * T * (1 - 1e-8 * n2))
    corrected = Corrected(SMALL)
    assert corrected.theorem(T, start) == pytest.approx(bound, rel=1e-9)
    assert corrected.corollary(T, start) == pytest.approx(bound + 2 * 1 / (2 * T), rel=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_ends_of_the_interval_meet_the_condition_with_equality(form):
    tight = suggest(form, SMALL)
    assert tight is not None
    setting = replace(SMALL, beta1=tight[0], alpha=tight[1])
    low, high = admissible_alphas(form(setting)).interval
    assert 0 < low < setting.alpha < high
    for end in (low, high):
        at = form(replace(setting, alpha=end))
        assert end * at.N2p == pytest.approx(1, rel=1e-9)
    for outside in (0.99 * low, 1.01 * high):
        verdict = admissible_alphas(form(replace(setting, alpha=outside)))
        assert [one.name for one in verdict.broken] == ["alpha N2' < vmax^(-1/2)"]
        assert form(replace(setting, alpha=outside)).theorem(10, Start(1, 0, 0, 0)) == math.inf


def test_other_conditions_by_hand():
    paper = [one.high for one in Paper(HAND).lemma6_conditions()]
    assert paper == pytest.approx([1 / math.sqrt(2 * 239232), 0.5 / math.sqrt(72)])
    first, second = Corrected(HAND).lemma6_conditions()
    assert second.high == pytest.approx(0.25 / math.sqrt(72))  # L = 2
    at = Corrected(replace(HAND, alpha=first.high))
    assert first.high**2 * at.N1 == pytest.approx(0.5)
    assert first.excess == pytest.approx(0.1 / first.high)
    assert not first.met


@pytest.mark.parametrize("form", FORMS)
def test_momentum_of_nine_tenths_admits_no_alpha(form):
    for vmin in (1e-8, 1.0):
        verdict = admissible_alphas(form(replace(SMALL, beta1=0.9, vmin=vmin)))
        assert verdict.interval is None
        assert verdict.binding.name == "alpha N2' < vmax^(-1/2)"
        assert verdict.binding.least > 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("vmin", [1e-8, 0.1, 1.0])
def test_a_suggestion_meets_every_condition(form, vmin):
    setting = replace(HAND, vmin=vmin, rho=0.7)
    beta1, alpha = suggest(form, setting)
    assert 0 < beta1 < 0.5
    fitted = form(replace(setting, beta1=beta1, alpha=alpha))
    assert admissible_alphas(fitted).broken == []
    assert fitted.theorem(100, Start(1, 0, 0, 0)) < math.inf


def test_constants_of_huber():
    """L, G and sigma² bound the measured values, and a constant called exact is attained."""
    place = Place(1, 4, (0, 1))
    problem = Huber(place, dim=3, spread=0.2)
    known = problem.constants()
    random = np.random.default_rng(0)
    worst = {"L": 0.0, "G": 0.0}
    target = np.linalg.solve(problem._phi, problem._theta[..., np.newaxis])[..., 0]
    for scale in (1e-3, 1, 30):
        for t in range(1, 200):
            x, y = target + scale * random.standard_normal((2, 2, 3))
            change = np.linalg.norm(problem.evaluate(x)[1] - problem.evaluate(y)[1], axis=-1)
            worst["L"] = max(worst["L"], (change / np.linalg.norm(x - y, axis=-1)).max())
            worst["G"] = max(worst["G"], np.linalg.norm(problem.gradient(t, x), axis=-1).max())
    assert known.L.exact
    assert 0.98 * known.L.value < worst["L"] <= known.L.value * (1 + 1e-9)
    assert not known.G.exact
    assert 0.5 * known.G.value < worst["G"] <= known.G.value
    errors = [problem.gradient(t, target) - problem.evaluate(target)[1] for t in range(1, 20001)]
    variance = np.square(errors).sum(axis=-1).mean(axis=0).max()
    assert known.sigma2.exact
    assert variance == pytest.approx(known.sigma2.value, rel=0.02)
    assert problem.evaluate(target)[0] == pytest.approx(known.f_min.value)
    assert not known.f_min.exact


def test_constants_of_huber_by_hand():
    """Phi = 0.6 and 0.8, diagonal, so that its norms are obvious; threshold 2."""
    problem = Huber(Place(0, 1, (0,)), dim=2, threshold=2, phi="diagonal", noise=0, reduce="mean")
    problem._phi = np.array([[0.6, 0.8]])
    known = problem.constants()
    assert tuple(known.L) == pytest.approx((0.64 / 2, True))
    assert tuple(known.G) == pytest.approx((2 * math.sqrt(2) * 0.8 / 2, False))
    assert known.sigma2 == (0, True)
    assert known.f_min == (0, True)


def test_constants_of_softmax_bound_what_is_seen():
    problem = Softmax(Place(0, 2, (0, 1)), rows=64, features=3, classes=2, batch=4)
    known = problem.constants()
    # at W = 0 the Hessian along the leading direction, once for each of two opposite rows of W
    values, vectors = np.linalg.eigh(problem._x.T.astype(float) @ problem._x / 32)
    step = 1e-5 * np.concatenate([vectors[:, -1], -vectors[:, -1]]) / math.sqrt(2)
    change = problem.evaluate(np.stack([step] * 2))[1] - problem.evaluate(np.zeros((2, 6)))[1]
    assert known.L.exact
    assert np.linalg.norm(change[0]) / 1e-5 == pytest.approx(known.L.value, rel=1e-6)
    assert known.L.value == pytest.approx(values[-1] / 2 + 0.02, rel=1e-6)
    random = np.random.default_rng(0)
    for t in range(1, 300):
        x = random.standard_normal((2, 6)) * random.choice([0.1, 1, 10])
        gradient = problem.gradient(t, x)
        assert np.linalg.norm(gradient, axis=-1).max() <= known.G.value
    errors = [problem.gradient(t, x) - problem.evaluate(x)[1] for t in range(1, 2000)]
    assert np.square(errors).sum(axis=-1).mean() <= known.sigma2.value
    assert not known.sigma2.exact


def tell(capsys, *words):
    assert main(["theory", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_command(capsys):
    told = tell(capsys, "-n", "5", "--graph", "ring", "--algorithm", "gt-adaptive:vmin=1,vmax=1",
                "--suggest")  # fmt: skip
    assert told["graph"]["nodes"] == told["setting"]["n"] == 5
    assert told["setting"]["rho"] == pytest.approx((1 + 2 * math.cos(2 * math.pi / 5)) / 3)
    setting = Setting(**told["setting"])
    assert told["constants"]["L"] == {"value": setting.L, "kind": "exact"}
    assert told["constants"]["G"]["kind"] == "bound"
    for form in FORMS:
        assert told[form.name]["constants"]["N2'"] == form(setting).N2p
        assert told[form.name]["interval"] is None  # beta1 = 0.9
        assert told[form.name]["theorem"] is None
        found = told[form.name]["suggestion"]
        assert (found["beta1"], found["alpha"]) == suggest(form, setting)
        assert found["violated"] == []
        assert found["theorem"] > 0
    start = Start(**{name: told["start"][name] for name in Start._fields})
    assert start.delta1 == 0
    assert start.delta == pytest.approx(told["start"]["delta"])


def test_command_shows_two_columns(capsys):
    words = ["--graph", "ring", "-n", "4", "--algorithm", "gt-adaptive:lr=0.001,vmin=1,vmax=1"]
    assert main(["theory", *words]) == 0
    shown = capsys.readouterr().out
    assert "as printed" in shown
    assert "paper: violated: alpha N2' < vmax^(-1/2), by a factor" in shown
    assert "corrected: at beta1 = 0.9 no alpha meets every condition" in shown
    assert "M1 carries L², not L" in shown


def test_constants_that_are_given(capsys, tmp_path, monkeypatch):
    given = ["--L", "2", "--G", "3", "--sigma2", "0.25", "--f-star", "-1"]
    told = tell(capsys, "-n", "4", "--graph", "complete", *given)
    assert told["constants"]["sigma2"] == {"value": 0.25, "kind": "given"}
    assert (told["setting"]["L"], told["setting"]["G"]) == (2, 3)
    (tmp_path / "secretive.py").write_text(
        "from mpi_gt.problems.huber import Huber\n"
        "class Secretive(Huber):\n"
        "    def __getattribute__(self, name):\n"
        "        if name == 'constants':\n"
        "            raise AttributeError(name)\n"
        "        return super().__getattribute__(name)\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["theory", "-n", "2", "--graph", "complete", "--problem", "secretive:Secretive"]
    assert main([*words, "--L", "1", "--G", "1"]) == 2
    assert "give --sigma2, --f-star" in capsys.readouterr().err
    assert main([*words, *given]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--algorithm", "gt"], "the theory covers Algorithm 1"),
        (["--algorithm", "gt-adaptive-pp"], "pull and push weights"),
        (["--algorithm", "gt-adaptive:schedule=sqrt"], "constant stepsize"),
        (["--L", "-1"], "L must be finite and >= 0"),
        (["--G", "nan"], "G must be finite and >= 0"),
        (["--L", "1e40"], "L must be in"),
        (["--suggst"], "did you mean '--suggest'"),
    ],
)
def test_command_refuses(words, message, capsys):
    assert main(["theory", "-n", "4", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("graph", "kind"), [("ring+star", "changes"), ("directed-ring", "is directed")]
)
def test_the_theory_is_for_one_symmetric_matrix(capsys, graph, kind):
    assert main(["theory", "-n", "4", "--graph", graph]) == 2
    assert f"this graph {kind}" in capsys.readouterr().err
