"""Addressed draws: fixed values, uniform, and independent along each coordinate of the address."""

import subprocess
import sys

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from ranksim.core import draws
from ranksim.core.draws import Purpose

WORDS = st.integers(-(2**63), 2**64 - 1)
INDICES = st.integers(-(2**63), 2**63 - 1)
MANY = np.arange(200_000)


# Values that recorded results rest on


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("", 0xE4A6A0577479B2B4),
        ("acct_1", 0xE2017AF4611DB1BC),
        ("naïve", 0xBEF26892EEEB4CDC),
    ],
)
def test_entities_are_pinned(name: str, number: int) -> None:
    assert draws.entity(name) == number


@pytest.mark.parametrize(
    ("seed", "entity", "index", "purpose", "bits"),
    [
        (0, 0, 0, 0, 0x39CA887E71E28CCB),
        (0, 0, 0, Purpose.JOB_DURATION, 0x915F8D0DF45365F9),
        (1, 0, 0, Purpose.JOB_DURATION, 0x331D42E5BE43883B),
        (0, 1, 0, Purpose.JOB_DURATION, 0x2F2FD762F9AC4231),
        (0, 0, 1, Purpose.JOB_DURATION, 0x19A5BDE80F154238),
        (-1, 2**64 - 1, -1, Purpose.CHURN, 0x62804CDF7DF2E2B8),
        (2026, draws.entity("acct_1"), 10**9, Purpose.ARRIVAL, 0x2A78AF1CF56CBB96),
    ],
)
def test_draws_are_pinned(seed: int, entity: int, index: int, purpose: int, bits: int) -> None:
    assert draws.bits(seed, entity, index, purpose) == bits


def test_purposes_are_never_renumbered() -> None:
    names = [
        "JOB_DURATION",
        "JOB_OUTCOME",
        "JOB_COST",
        "RETRY_JITTER",
        "SECRET",
        "LATENCY",
        "OUTAGE",
        "ARRIVAL",
        "CHOICE",
        "CHURN",
        "BACKOFF",
        "POSITION",
        "SYNTHETIC",
        "REPLICATION",
        "IDENTIFIER",
        "RECEIVER",
        "THINK",
        "SIZE",
        "BOOTSTRAP",
        "PHASE",
        "LOSS",
        "REPAIR",
        "PLAN",
        "ADD_ON",
        "ANCHOR",
        "GROWTH",
        "FEEDBACK",
    ]
    assert {name: Purpose[name].value for name in names} == {name: k for k, name in enumerate(names, 1)}


def test_the_sequence_is_splitmix64() -> None:
    # The first outputs of the published generator for seed 0 and its golden step.
    golden = 0x9E3779B97F4A7C15
    outputs = [draws._mix((k + 1) * golden % 2**64) for k in range(3)]
    assert outputs == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_another_process_draws_the_same() -> None:
    bits = "draws.bits(3, draws.entity('key_7'), 5, draws.Purpose.SECRET)"
    code = f"from ranksim.core import draws; print({bits})"
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) == draws.bits(3, draws.entity("key_7"), 5, Purpose.SECRET)


# The forms of a draw agree


@given(WORDS, WORDS, st.lists(INDICES, min_size=1, max_size=20), st.sampled_from(Purpose))
def test_vectors_equal_scalars(seed: int, entity: int, indices: list[int], purpose: Purpose) -> None:
    vector = draws.uniforms(seed, entity, np.array(indices, dtype=np.int64), purpose)
    assert vector.tolist() == [draws.uniform(seed, entity, index, purpose) for index in indices]


@given(WORDS, st.lists(st.integers(0, 2**64 - 1), max_size=20), INDICES, st.sampled_from(Purpose))
def test_draws_of_many_entities_equal_those_of_each(
    seed: int, entities: list[int], index: int, purpose: Purpose
) -> None:
    expected = [draws.bits(seed, entity, index, purpose) for entity in entities]
    assert draws.bits_of_many(seed, entities, index, purpose) == expected


def test_draws_of_many_entities_mend_seldom_steps() -> None:
    entities = list(range(2_000))
    steps = [draws.stream(5, entity, Purpose.CHURN)[1] for entity in entities]
    mended = [step ^ 0xAAAA_AAAA_AAAA_AAAA for step in steps]
    assert any((step ^ step >> 1).bit_count() < 24 for step in mended)
    assert draws.bits_of_many(5, entities, 7, Purpose.CHURN) == [
        draws.bits(5, entity, 7, Purpose.CHURN) for entity in entities
    ]


@given(WORDS, WORDS, INDICES, st.sampled_from(Purpose))
def test_forms_of_one_draw(seed: int, entity: int, index: int, purpose: Purpose) -> None:
    address = (seed, entity, index, purpose)
    bits = draws.bits(*address)
    assert 0 <= bits < 2**64
    assert 0 < draws.uniform(*address) < 1
    assert abs(draws.uniform(*address) - bits / 2**64) <= 2**-53
    assert draws.derive(*address) == bits >> 1
    assert draws.below(1, *address) == 0
    assert draws.below(6, *address) == int(draws.uniform(*address) * 6)
    assert draws.below(2**64, *address) == bits


def test_the_interval_is_open_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    for bits, expected in [(0, 2.0**-53), (2**64 - 1, 1 - 2.0**-53)]:
        monkeypatch.setattr(draws, "_mix", lambda _, bits=bits: bits)
        assert draws.uniform(0, 0, 0, 0) == expected


@pytest.mark.parametrize("n", [0, -1])
def test_below_nothing_is_refused(n: int) -> None:
    with pytest.raises(ValueError, match="n >= 1"):
        draws.below(n, 0, 0, 0, 0)


@given(WORDS, WORDS, INDICES, st.integers(0, 1000), st.integers(0, 3))
def test_each_coordinate_changes_the_draw(
    seed: int, entity: int, index: int, purpose: int, which: int
) -> None:
    address = [seed, entity, index, purpose]
    other = list(address)
    other[which] += 1
    assert draws.bits(*address) != draws.bits(*other)


# Statistics, all with fixed addresses


def p_value_of_uniformity(numbers: np.ndarray) -> float:
    return float(scipy.stats.chisquare(np.histogram(numbers, bins=256, range=(0, 1))[0]).pvalue)


@pytest.mark.parametrize("seed", [0, 1, 2026])
@pytest.mark.parametrize("name", ["", "acct_1"])
def test_one_stream_is_uniform(seed: int, name: str) -> None:
    numbers = draws.uniforms(seed, draws.entity(name), MANY, Purpose.ARRIVAL)
    assert 0.001 < p_value_of_uniformity(numbers) < 0.999
    assert scipy.stats.kstest(numbers, "uniform").pvalue > 0.001


@pytest.mark.parametrize("coordinate", ["seed", "entity", "purpose"])
def test_one_draw_of_many_streams_is_uniform(coordinate: str) -> None:
    address = {"seed": 5, "entity": 5, "index": 0, "purpose": 5}
    numbers = np.array([draws.uniform(**address | {coordinate: k}) for k in range(50_000)])
    assert 0.001 < p_value_of_uniformity(numbers) < 0.999
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 4 / np.sqrt(len(numbers))


@pytest.mark.parametrize("shift", [1, 2, 3, 64, 1000])
def test_neighbouring_indices_are_uncorrelated(shift: int) -> None:
    numbers = draws.uniforms(1, 1, MANY, Purpose.LATENCY)
    assert abs(np.corrcoef(numbers[:-shift], numbers[shift:])[0, 1]) < 4 / np.sqrt(len(MANY))


@pytest.mark.parametrize(
    "other",
    [(2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 1, 2), (1 + 2**32, 1, 1), (-1, 1, 1), (1, 1 + 2**63, 1)],
    ids=str,
)
def test_neighbouring_streams_are_independent(other: tuple[int, int, int]) -> None:
    seed, entity, purpose = other
    a = draws.uniforms(1, 1, MANY, 1)
    b = draws.uniforms(seed, entity, MANY, purpose)
    assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(len(MANY))
    table = np.histogram2d(a, b, bins=16, range=[(0, 1), (0, 1)])[0]
    assert scipy.stats.chi2_contingency(table).pvalue > 0.001


def test_neighbouring_draws_fill_the_square() -> None:
    numbers = draws.uniforms(9, 9, MANY, Purpose.CHOICE)
    table = np.histogram2d(numbers[0::2], numbers[1::2], bins=16, range=[(0, 1), (0, 1)])[0]
    assert 0.001 < scipy.stats.chisquare(table.ravel()).pvalue < 0.999


@pytest.mark.slow
def test_each_bit_of_the_address_sways_each_bit_of_the_draw() -> None:
    for which in range(4):
        flips = np.zeros((64, 64))
        rounds = 200
        for k in range(rounds):
            address = [draws.bits(77, which, 4 * k + place, 0) for place in range(4)]
            before = draws.bits(*address)
            for bit in range(64):
                other = list(address)
                other[which] ^= 1 << bit
                change = before ^ draws.bits(*other)
                flips[bit] += [change >> k & 1 for k in range(64)]
        # 4096 shares, each about 1/2 with a standard deviation of 0.035: seven of them leave room for none.
        assert np.abs(flips / rounds - 0.5).max() < 0.25, which


def test_below_is_uniform() -> None:
    counts = np.bincount([draws.below(7, 4, 4, k, Purpose.CHOICE) for k in range(35_000)], minlength=7)
    assert len(counts) == 7
    assert scipy.stats.chisquare(counts).pvalue > 0.001
