"""Compressors: their payloads, their errors, and the kernels against the Python twins."""

import math

import numpy as np
import pytest

from mpi_gt import kernels
from mpi_gt.compressors import COMPRESSORS, make_compressor, require_fit
from mpi_gt.compressors.qsgd import Qsgd
from mpi_gt.compressors.sign import mean_size
from mpi_gt.errors import UserError

SPECS = [
    "none", "bfloat16", "float16", "float32", "sign", "top", "top:k=0.5", "top:k=1",
    "qsgd:bits=2", "qsgd", "qsgd:bits=8", "qsgd:bits=4,block=3", "qsgd:bits=2,block=5",
    "qsgd:bits=8,block=1000", "qsgd:bits=2,block=1",
]  # fmt: skip
SPECIAL = [0.0, -0.0, 1.0, -1.0, 65504.0, 65519.9, 65520.0, 6e-8, 2.9e-8, 5e-324, 1e39, -1e300]


def vectors(kind, seeds, dim, dtype):
    random = np.random.default_rng(dim)
    z = random.standard_normal((seeds, dim)) * 10.0 ** random.integers(-9, 9, (seeds, dim))
    if kind == "ties":
        z = np.round(random.standard_normal((seeds, dim)))
    elif kind == "special":
        z = np.resize(SPECIAL, (seeds, dim))
    elif kind == "not finite":
        z[:, :: max(1, dim // 3)] = np.resize(
            [np.nan, np.inf, -np.inf], z[:, :: max(1, dim // 3)].shape
        )
    elif kind == "zero":
        z[:] = 0
    with np.errstate(over="ignore"):
        return z.astype(dtype)


def uniform_for(compressor, z):
    return np.random.default_rng(1).random(z.shape) if compressor.random else None


@pytest.mark.usefixtures("kernels_built")
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("kind", ["plain", "ties", "special", "not finite", "zero"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_kernels_have_the_bits_of_the_twins(spec, kind, dtype):
    compressor = make_compressor(spec)
    for seeds, dim in ((1, 1), (3, 7), (2, 64), (1, 246), (2, 1031)):
        z = vectors(kind, seeds, dim, dtype)
        uniform = uniform_for(compressor, z)
        payload = np.zeros(compressor.size(seeds, dim, z.dtype), np.uint8)
        kernels.C.encode(compressor.codec(dim), z, payload, uniform)
        with np.errstate(all="ignore"):
            twin = compressor._encode(z, uniform)
        assert payload.tobytes() == twin.tobytes()
        made = np.empty((2, seeds, dim), dtype)
        wide = np.zeros((2, len(payload) + 5), np.uint8)  # rows of a receive buffer
        wide[:, : len(payload)] = payload
        kernels.C.decode(compressor.codec(dim), wide[:, : len(payload)], made)
        with np.errstate(all="ignore"):
            decoded = compressor._decode(twin, z.shape, z.dtype)
        assert decoded.dtype == dtype
        assert made[0].tobytes() == made[1].tobytes() == np.ascontiguousarray(decoded).tobytes()


@pytest.mark.usefixtures("kernels_built")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_levels_next_to_an_integer(bits, dtype):
    """floor(s|z|/M + U) to the bit, where U takes the sum to an integer or just misses it."""
    compressor, random = Qsgd(bits=bits, block=64), np.random.default_rng(bits)
    z = random.standard_normal((40, 200)).astype(dtype)
    z[::2] = np.round(z[::2] * 8) / 8
    z[:, ::64] = np.where(z[:, ::64] < 0, -8, 8)  # M
    sums = compressor.levels * np.abs(z.astype(np.float64)) / 8
    short = np.ceil(sums) - sums
    for steps in (-300.0, -2, -1, 0, 1, 2, 300, 2.0**15, -(2.0**15), 2.0**20, -(2.0**20)):
        uniform = np.clip(short + steps * 2.0**-52, 0, 1 - 2.0**-53)
        payload = compressor.encode(z, uniform)
        assert payload.tobytes() == compressor._encode(z, uniform).tobytes()
        levels = np.minimum(np.floor(sums + uniform), compressor.levels)
        codes = np.where(z < 0, -levels, levels) + compressor.levels
        assert (
            payload[40 * 4 * 4 :].tobytes() == compressor._packed(codes.astype(np.uint8)).tobytes()
        )


@pytest.mark.parametrize(
    ("spec", "size"),
    [("none", 1968), ("bfloat16", 492), ("float16", 492), ("float32", 984),
     ("qsgd", 139), ("qsgd:bits=8,block=64", 262), ("qsgd:bits=2", 78), ("sign", 39), ("top", 300)],
)  # fmt: skip
def test_the_sizes_of_payloads(spec, size):
    compressor = make_compressor(spec)
    z = vectors("plain", 3, 246, np.float64)
    assert compressor.size(1, 246, z.dtype) == size
    assert compressor.size(3, 246, z.dtype) == 3 * size
    assert len(compressor.encode(z, uniform_for(compressor, z))) == 3 * size


def test_the_layout_of_quantised_payloads():
    z = np.array([[1.0, -0.5, 0.25, 0.0, -8.0]])
    payload = Qsgd(bits=4, block=4).encode(z, np.full(z.shape, 0.5))
    assert payload[:8].view(np.float32).tolist() == [1.0, 8.0]
    # levels 7, 4 (3.5 + 0.5), 2 (1.75 + 0.5), 0 | 7, plus 7 with their signs; the last half is free
    assert payload[8:].tolist() == [14 << 4 | 3, 9 << 4 | 7, 0 << 4]
    two = Qsgd(bits=2, block=8).encode(z, np.full(z.shape, 0.5))
    assert two[4:].tolist() == [0b01010101, 0b00000000]


def test_the_layouts_of_sign_and_top():
    z = np.array([[3.0, -1.0, 0.0, -0.0, -2.0, 0.0, 0.0, 0.0, -6.0]])
    payload = make_compressor("sign").encode(z, None)
    assert payload[:8].view(np.float64)[0] == 12 / 9
    assert payload[8:].tolist() == [0b10110111, 0b00000000]
    z = np.array([[1.0, -2.0, 2.0, -1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, -1.0]])
    payload = make_compressor("top:k=4").encode(z, None)
    assert payload[:32].view(np.int32).tolist() == [0, 1, 2, 3, 0, 1, 2, 5]
    assert payload[32:].copy().view(np.float64).tolist() == [1, -2, 2, -1, 0, 0, 0, -1]


def test_bfloat16_rounds_to_nearest_even():
    z = np.array([[1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -(1 + 2**-8), 3.4e38]])
    made = make_compressor("bfloat16").encode(z, None).view(np.uint16)
    assert made.tolist() == [0x3F80, 0x3F82, 0x3F81, 0xBF80, 0x7F80]


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_quantised_entries_have_their_mean_and_variance(bits):
    compressor = Qsgd(bits=bits, block=64)
    s, r = compressor.levels, 63 / compressor.levels**2
    f = (math.sqrt(1 + r) - 1) / r  # the worst vector: one entry M, the others f M/s
    z = np.tile(np.array([1.0, *[f / s] * 63]), (4000, 1))
    uniform = np.random.default_rng(0).random(z.shape)
    plain = compressor.without_factor()
    made = plain.decode(plain.encode(z, uniform), z.shape, z.dtype)
    np.testing.assert_allclose(made.mean(axis=0), z[0], atol=6 * 0.5 / s / math.sqrt(len(z)))
    spread = ((made - z) ** 2).sum(axis=1).mean() / (z[0] ** 2).sum()
    assert spread == pytest.approx(compressor.omega(64), rel=0.03)
    scaled = compressor.decode(compressor.encode(z, uniform), z.shape, z.dtype)
    error = ((scaled - z) ** 2).sum(axis=1).mean() / (z[0] ** 2).sum()
    assert error == pytest.approx(1 - compressor.delta(64), rel=0.03)


def test_omega_of_the_documentation():
    assert Qsgd(4, 64).omega(246) == pytest.approx(0.256, abs=1e-3)
    assert Qsgd(2, 64).omega(246) == pytest.approx(3.5)
    assert Qsgd(8, 256).omega(246) == pytest.approx(0.004, abs=3e-4)
    assert Qsgd(4, 64).omega(1) == 0


@pytest.mark.parametrize("spec", ["sign", "top", "top:k=5", "bfloat16"])
def test_the_error_is_within_delta(spec):
    compressor = make_compressor(spec)
    z = np.random.default_rng(3).standard_normal((200, 50))
    made = compressor.decode(compressor.encode(z, None), z.shape, z.dtype)
    errors = ((made - z) ** 2).sum(axis=1) / (z**2).sum(axis=1)
    assert (errors <= 1 - compressor.delta(50) + 2**-16).all()


def test_a_seed_does_not_see_another():
    for spec in SPECS:
        compressor = make_compressor(spec)
        z = vectors("plain", 3, 37, np.float64)
        uniform = uniform_for(compressor, z)
        together = compressor.decode(compressor.encode(z, uniform), z.shape, z.dtype)
        for seed in range(3):
            own = None if uniform is None else uniform[seed : seed + 1]
            alone = compressor.encode(z[seed : seed + 1], own)
            assert np.array_equal(compressor.decode(alone, (1, 37), z.dtype)[0], together[seed])


def test_the_mean_size_is_a_mean():
    z = np.random.default_rng(0).standard_normal(1000)
    assert mean_size(z) == pytest.approx(np.abs(z).mean(), rel=1e-14)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("qsgd:bits=3", "bits must be 2, 4 or 8, not 3"),
        ("qsgd:block=0", "block must be in"),
        ("top:k=0", "k must be a share"),
        ("top:k=nan", "k must be a share"),
        ("top:k=2.5", "k must be a share"),
        ("sign:bits=4", "no option 'bits'"),
        ("squash", "unknown compressor 'squash'"),
    ],
)
def test_bad_options(spec, message):
    with pytest.raises(UserError, match=message):
        make_compressor(spec)


def test_more_entries_than_there_are():
    with pytest.raises(UserError, match="here: k must be at most all 5 entries, not 6"):
        require_fit(make_compressor("top:k=6"), (2, 5), np.dtype(float), "here")
    require_fit(make_compressor("top:k=5"), (2, 5), np.dtype(float), "here")


def test_options_that_a_method_passes_on():
    assert make_compressor("qsgd", {"bits": 8, "block": 7, "k": 3}).codec(9)[1:3] == (8, 7)
    assert make_compressor("qsgd:bits=2", {"bits": 8}).codec(9)[1] == 2
    assert make_compressor("sign", {"bits": 8}).size(1, 8, np.dtype(float)) == 9


@pytest.mark.usefixtures("kernels_built")
def test_the_kernels_refuse_what_does_not_fit():
    z, payload = np.ones((1, 8)), np.zeros(16, np.uint8)
    bad = [
        ((4, 3, 64, 0, 1.0), z, payload, z),
        ((4, 8, 64, 0, 1.0), z, payload, z),
        ((4, 8, 64, 0, 1.0), z, np.zeros(12, np.uint8), None),
        ((6, 0, 0, 9, 1.0), z, np.zeros(108, np.uint8), None),
        ((9, 0, 0, 0, 1.0), z, payload, None),
        ((1, 0, 0, 0, 1.0), np.ones((1, 8), int), payload, None),
    ]
    for arguments in bad:
        with pytest.raises(ValueError, match=r"fit|takes"):
            kernels.C.encode(*arguments)
    outside = np.zeros((1, 12), np.uint8)
    outside[0, 0] = 8
    with pytest.raises(ValueError, match="index 8"):
        kernels.C.decode((6, 0, 0, 1, 1.0), outside, np.empty((1, 1, 8)))


def test_every_compressor_is_described():
    for name, kind in COMPRESSORS.items():
        assert kind.__doc__, name
