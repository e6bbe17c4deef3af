"""`reproducible`: the same bits, whichever processor BLAS, numpy and the C library find."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import mpi_gt
from mpi_gt import machine
from mpi_gt.config import RunConfig
from mpi_gt.errors import UserError
from mpi_gt.problems.decimal_normal import inverse, mass_and_variance
from mpi_gt.problems.truncated_normal import TruncatedNormal, _quantile

pytestmark = pytest.mark.usefixtures("kernels_built")

HUBER = {"problem": "huber:noise=1,truncate=3,threshold=0.3,spread=0.5", "algorithm": "gt"}
CASES = {
    "huber": {"seeds": 3},
    "wide noise": HUBER,
    "large": {"problem": "huber:dim=70,threshold=0.1", "dtype": "float32"},
    "diagonal": {"problem": "huber:phi=diagonal,dim=200,threshold=0.05"},
    "schedule": {"algorithm": "gt-adaptive:schedule=sqrt"},
    "softmax": {"problem": "softmax:split=dirichlet:0.4,features=31,classes=5", "seeds": 2},
    "float32": {"problem": "softmax", "dtype": "float32"},
    "mlp": {"problem": "mlp:hidden=9,features=31,classes=5,reg=0.01", "seeds": 2},
    "relu": {"problem": "mlp:activation=relu,hidden=5", "dtype": "float32"},
    "compare": {
        "problem": "softmax:batch=8",
        "algorithms": "gt-adaptive,gtadam,d-amsgrad,d-adabound",
    },
}
DATA = {
    "a9a": {"problem": "softmax:dataset=a9a", "seeds": 2},
    "mnist": {"problem": "softmax:dataset=mnist", "dtype": "float32", "iterations": 4},
}
PROGRAM = """
import hashlib, json, sys, mpi_gt
digests = {}
for name, options in json.loads(sys.argv[1]).items():
    result = mpi_gt.run(**{"stacked": True, "n": 4, "iterations": 12, "log_every": 4, **options})
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in result.metrics]
    text = repr(rows) + repr(result.facts["results"] and 0)
    sums = [hashlib.sha256(x.tobytes()).hexdigest() for x in result.outputs.values()]
    digests[name] = [hashlib.sha256(text.encode()).hexdigest(), *sums]
print(json.dumps(digests))
"""
OLD = {  # a processor without fused multiplication and wide registers
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX2 FMA3",
    # glibc 2.33 and later, and the names before that
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX2_Usable,-FMA_Usable,-FMA4_Usable",
}
PROCESSORS = {
    "as it is": {},
    "Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "old": OLD,
}


def digests(cases, environment):
    """Run the cases in one process with this environment; return the digests of their results."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(cases)],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def on_all_processors(cases):
    cases = {name: {**options, "reproducible": True} for name, options in cases.items()}
    expected = digests(cases, PROCESSORS["as it is"])
    assert all(len(each) >= 2 for each in expected.values())
    for name, environment in PROCESSORS.items():
        assert digests(cases, environment) == expected, name


def test_the_bits_do_not_depend_on_the_processor():
    on_all_processors(CASES)


def test_the_bits_of_datasets_do_not_depend_on_the_processor(data_dir):
    on_all_processors({name: {**each, "data_dir": str(data_dir)} for name, each in DATA.items()})


def test_without_the_option_they_do():
    if machine.blas_facts().get("kernel", "Prescott") == "Prescott":
        pytest.skip("numpy's BLAS is no OpenBLAS that could be told to use another kernel")
    one = {"softmax": CASES["softmax"]}
    assert digests(one, {}) != digests(one, {"OPENBLAS_CORETYPE": "Prescott"})


@pytest.mark.parametrize("name", ["huber", "wide noise", "large", "softmax", "schedule", "mlp"])
def test_the_result_is_that_of_the_usual_products_but_for_rounding(name):
    options = {"stacked": True, "n": 3, "iterations": 8, "log_every": 4, **CASES[name]}
    usual, fixed = (mpi_gt.run(**options, reproducible=flag) for flag in (False, True))
    tolerance = 2e-5 if options.get("dtype") == "float32" else 1e-12
    np.testing.assert_allclose(fixed.x, usual.x, rtol=0, atol=tolerance)
    assert not np.array_equal(fixed.x, usual.x) or name == "softmax"
    for ours, theirs in zip(fixed.metrics, usual.metrics, strict=True):
        assert ours["loss"] == pytest.approx(
            theirs["loss"], rel=1e-5 if tolerance > 1e-6 else 1e-11
        )


@pytest.mark.parametrize(("sd", "c"), [(0.2, 0.1), (1, 3), (1, 0.02), (0.5, 0.51), (1e-3, 1e3)])
def test_the_noise_has_the_usual_constants(sd, c):
    usual, fixed = TruncatedNormal(sd, c), TruncatedNormal(sd, c, reproducible=True)
    assert mass_and_variance(sd, c) == pytest.approx((usual.mass, usual.variance), rel=1e-9)
    uniform = np.random.default_rng(0).random(1000)
    largest = min(c, 8 * sd)
    np.testing.assert_allclose(fixed.sample(uniform), usual.sample(uniform), atol=1e-14 * largest)
    inner = uniform * largest
    for ours, theirs in zip(
        fixed.moments(-inner, inner), usual.moments(-inner, inner), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-14)


@pytest.mark.parametrize("mass", [1e-6, 0.1, 0.38, 0.5, 0.51, 0.9])
def test_the_quantile_of_the_noise_is_accurate(mass):
    w = np.linspace(0.1, 1, 50)
    exact = [_quantile(mass * each) for each in w]
    # the quantile of a wide noise is that of a rounded 0.5 + w mass / 2
    np.testing.assert_allclose(inverse(mass)(w), exact, rtol=1e-15 if mass <= 0.5 else 2e-15)


@pytest.mark.parametrize("weights", ["laplacian", "fdla"])
def test_weights_of_a_solver_are_refused(weights):
    with pytest.raises(UserError, match=f"weights {weights}"):
        RunConfig.of({"reproducible": True, "weights": weights})


def test_a_run_is_resumed_as_it_began(tmp_path):
    options = {"stacked": True, "n": 2, "out": tmp_path / "run", "seeds": 2}
    mpi_gt.run(**options, iterations=10, checkpoint_every=5, log_every=5, reproducible=True)
    with pytest.raises(UserError, match="its reproducible was true, now it is false"):
        mpi_gt.run(**options, iterations=20, log_every=5, resume=True)
    resumed = mpi_gt.run(**options, iterations=20, log_every=5, resume=True, reproducible=True)
    whole = mpi_gt.run(**{**options, "out": None}, iterations=20, log_every=5, reproducible=True)
    assert resumed.x.tobytes() == whole.x.tobytes()
    assert resumed.facts["config"]["reproducible"] is True


def test_ranks_on_other_processors_are_named():
    rank = machine.RankFacts("a", 1, 1, 1, blas="Zen")
    ranks = [rank, replace_host(rank, "b", "Haswell"), replace_host(rank, "c", "Zen")]
    assert machine.hosts_by_kernel(ranks) == {"Haswell": ["b"], "Zen": ["a", "c"]}
    facts, quiet = (machine.run_facts(ranks, flag) for flag in (False, True))
    assert [text for text in facts["warnings"] if "Haswell on b; Zen on a, c" in text]
    assert not [text for text in quiet["warnings"] if "Haswell" in text]
    assert facts["blas"]["kernels"] == quiet["blas"]["kernels"] == machine.hosts_by_kernel(ranks)


def replace_host(rank, host, kernel):
    return rank._replace(host=host, blas=kernel)


def test_the_users_own_classes_are_a_warning(tmp_path, monkeypatch):
    (tmp_path / "alone.py").write_text(
        "from typing import NamedTuple, Any\n"
        "class Alone:\n"
        "    class State(NamedTuple):\n"
        "        x: Any\n"
        "    def init(self, x, grad):\n"
        "        return self.State(x - 0.1 * grad(x))\n"
        "    def step(self, t, state, mix, grad):\n"
        "        return self.State(state.x - 0.1 * grad(state.x))\n"
    )
    monkeypatch.chdir(tmp_path)
    options = {"stacked": True, "iterations": 3, "algorithm": "alone:Alone"}
    both = mpi_gt.run(**options, n=2, reproducible=True).facts["warnings"]
    assert len([text for text in both if "never calls mix" in text]) == 1
    assert len([text for text in both if "is up to its code" in text]) == 1
    assert not mpi_gt.run(**options, n=1).facts["warnings"]
