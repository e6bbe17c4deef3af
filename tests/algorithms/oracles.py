"""Pairs of methods that must agree, and the variants that the tests of all methods run."""

from typing import NamedTuple

Q = "huber:noise=0,spread=0.5,threshold=1000"  # a quadratic, another one on each node
NOISY = "huber:noise=0.2,spread=0.5,threshold=1000"


class Pair(NamedTuple):
    """Two methods with the same trajectories."""

    one: str
    other: str
    within: float  # 0: to the bit
    problem: str = NOISY
    problem_of_other: str | None = None


PAIRS = [
    Pair("gt-hsgd:beta=1,lr=0.1", "gt:lr=0.1", 0),
    Pair("gt-hsgd:beta=1,lr=0.1,order=atc", "gt:lr=0.1,order=atc", 0),
    Pair("gt-adaptive-vr:beta=1,period=0,vmin=1e-4", "gt-adaptive:vmin=1e-4", 0),
    Pair("gt-adaptive-vr:beta=1,period=0,schedule=sqrt", "gt-adaptive:vmin=1e-4,schedule=sqrt", 0),
    # with the same draw in both gradients, the noise cancels
    Pair("gt-sarah:period=1000000000,lr=0.1", "gt:lr=0.1", 1e-12, NOISY, Q),
    Pair("gt-hsgd:beta=0,lr=0.1", "gt:lr=0.1", 1e-12, NOISY, Q),
    Pair("gt-svrg:period=7,lr=0.1", "gt:lr=0.1", 1e-12, NOISY, Q),
    Pair("gt-sarah:period=1,lr=0.1", "gt:lr=0.1", 1e-12, NOISY, Q),
    Pair("k-gt:every=1,lr=0.1", "gt:order=atc,lr=0.1", 1e-12),
    Pair("exact-diffusion:every=1", "exact-diffusion", 0),
    Pair("dsgd:order=atc,every=1", "dsgd:order=atc", 0),
    Pair("d-amsgrad:beta3=0", "d-amsgrad", 0),
    Pair("gt-hsgd:beta=1,start=batch", "gt-hsgd:beta=1", 0),
    # on an undirected graph pull and push are A, and w stays 1
    Pair("gt-adaptive-pp", "gt-adaptive", 0),
    Pair("push-pull:lr=0.1", "gt:order=atc,lr=0.1", 0),
    Pair("push-pull:lr=0.1,order=cta", "gt:lr=0.1", 0),
    Pair("push-diging:lr=0.1", "gt:order=atc,lr=0.1", 1e-13),
    Pair("push-diging:lr=0.1,order=cta", "gt:lr=0.1", 1e-13),
    Pair("sgp:lr=0.1", "dsgd:order=atc,lr=0.1", 1e-13),
]

VARIANTS = [
    "gt-adaptive-vr:period=4",
    "gt-adaptive-vr:period=0,beta=0.1,start=batch",
    "gt-sarah:period=3,order=atc",
    "gt-svrg:period=4",
    "gt-hsgd:order=atc,start=batch",
    "exact-diffusion:every=3",
    "k-gt:every=4,eta=0.5",
    "dsgd:order=atc,every=3",
    "d-amsgrad:beta3=0.5",
    "extra:schedule=sqrt",
    "momentum-tracking:beta1=0.5",
    "qg-dsgdm:beta1=0.5",
    "push-pull:order=cta,schedule=sqrt",
    "push-diging:order=cta",
    "sgp:schedule=sqrt",
    "gt-adaptive-pp:vmin=1e-4",
]
