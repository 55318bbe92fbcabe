"""Samples of a log's rows: those of a rule in plain Python, in any order and division, with the shares of the log."""

from __future__ import annotations

import math
import struct
from collections import Counter
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest

from releaf.core.adaptive.merging import SampledRows
from releaf.core.adaptive.sample import KEYS
from releaf.train.fit_tasks import EncodedRows
from releaf.train.reward_sampling import RowTally, SampleSum, SamplingRule, draw, number_of_bins, sampled_rows

Array = np.ndarray[Any, np.dtype[Any]]
MASK = 2**64 - 1
ACTIONS = ("a", "b")


def rows_of(contexts: Array, taken: Array, rewards: Array, weights: Array | None = None) -> EncodedRows:
    return EncodedRows(contexts, list(ACTIONS), taken, rewards, weights, 0)


def continuous(count: int, seed: int = 0, weighted: bool = False) -> EncodedRows:
    draws = np.random.default_rng(seed)
    weights = 1.0 / draws.uniform(0.05, 1.0, count) if weighted else None
    return rows_of(draws.random((count, 2)), draws.integers(0, 2, count), draws.integers(0, 2, count) * 1.0, weights)


def some(rows: EncodedRows, chosen: Any) -> EncodedRows:
    weights = None if rows.weights is None else rows.weights[chosen]
    return rows_of(rows.units[chosen], rows.taken[chosen], rows.rewards[chosen], weights)


def sampled(parts: list[EncodedRows], most: int) -> list[SampledRows]:
    """Sample of each action, by tasks of one part each."""
    bins = number_of_bins(sum(len(part.rewards) for part in parts))
    tally, total = RowTally(bins), SampleSum(2)
    for part in parts:
        other = RowTally(bins)
        other.add(part)
        tally.merge(other)
    rule = SamplingRule.of(tally, ACTIONS, most)
    for part in parts:
        total.add(draw(rule, part))
    return sampled_rows(rule, total.total())


# --- the rule in plain Python -----------------------------------------------------------------------------------


def plain_mixed(word: int) -> int:
    word = (word + 0x9E3779B97F4A7C15) & MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def plain_hash(values: list[float], action: str) -> int:
    word = 0
    for value in values:
        (bits,) = struct.unpack("<Q", struct.pack("<d", value))
        word = plain_mixed(word ^ bits)
    name = int.from_bytes(blake2b(f"text {action}".encode(), digest_size=8).digest(), "little")
    return plain_mixed((word + name) & MASK)


def plain_sample(rows: EncodedRows, most: int) -> list[Counter[tuple[Any, ...]]]:
    """Context, reward and key of each copy in the sample of each action."""
    copies: Counter[tuple[Any, ...]] = Counter()
    for place, context in enumerate(rows.units.tolist()):
        weight = () if rows.weights is None else (float(rows.weights[place]),)
        copies[(int(rows.taken[place]), *context, float(rows.rewards[place]), *weight)] += 1
    hashes = {row: plain_hash(list(row[1:]), ACTIONS[row[0]]) for row in copies}
    bins = max(2 ** (copies.total() // 32).bit_length(), 1024)
    loads: Counter[int] = Counter()
    for row, count in copies.items():
        loads[hashes[row] % bins] += count
    mean = copies.total() / bins
    digest = sum(count * hashes[row] for row, count in copies.items()) & MASK
    found = []
    for action in range(len(ACTIONS)):
        own = {row: count for row, count in copies.items() if row[0] == action}
        learnt, lowest = sum(own.values()), sorted(hashes[row] for row in own)[:256]
        k = learnt / len(own) if len(lowest) < 256 else max(learnt / (255 / (lowest[-1] / 2**64)), 1.0)
        scale, total = 1.0, float(learnt)
        if rows.weights is not None:
            total = sum(count * round(row[-1] * 2**16) for row, count in own.items()) / 2**16
            scale = max(1 / max(row[-1] for row in own), 0.125 * learnt / total)
        rate = max(math.ceil(math.log2(scale * total / most)), 0)
        kept = []
        for row, count in own.items():
            x = scale * 0.5**rate * (1.0 if rows.weights is None else row[-1])
            word = hashes[row]
            crowded = loads[word % bins] > 2 * mean + 8 * math.sqrt(mean)
            chance = 1.0 if crowded else min(min(count, k) * x, 1.0)
            if word / 2**64 >= chance:
                continue
            for number in range(math.floor(count * x / chance + (plain_mixed(word) >> 32) / 2**32)):
                key = plain_mixed((plain_mixed((word + digest) & MASK) + number) & MASK) >> (2 + rate)
                kept.append((x <= 1.0, key, (float(np.float32(row[1])), float(np.float32(row[2])), row[3], key)))
        found.append(Counter(row for *_, row in sorted(kept)[:learnt]))
    return found


def as_counters(samples: list[SampledRows]) -> list[Counter[tuple[Any, ...]]]:
    return [
        Counter(
            (*context, reward, key)
            for context, reward, key in zip(own.contexts.tolist(), own.rewards.tolist(), own.keys.tolist(), strict=True)
        )
        for own in samples
    ]


def coarse(rows: EncodedRows, digits: int) -> EncodedRows:
    """Rows with many copies."""
    weights = None if rows.weights is None else np.round(rows.weights)
    return rows._replace(units=np.round(rows.units, digits), weights=weights)


@pytest.mark.parametrize("most", [10_000, 700, 100])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("digits", [15, 2, 1])
def test_the_sample_is_that_of_plain_python(most: int, weighted: bool, digits: int) -> None:
    rows = coarse(continuous(3000, weighted=weighted), digits)
    assert as_counters(sampled([rows], most)) == plain_sample(rows, most)


# --- order and division -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("digits", [15, 1])
def test_order_and_division_make_no_difference(weighted: bool, digits: int) -> None:
    rows, draws = coarse(continuous(5000, weighted=weighted), digits), np.random.default_rng(1)
    whole = sampled([rows], 1000)
    for count in (2, 7, 40):
        parts = [some(rows, chosen) for chosen in np.array_split(draws.permutation(5000), count)]
        for one, other in zip(whole, sampled(parts, 1000), strict=True):
            for name in ("contexts", "rewards", "keys", "rate", "learnt"):
                assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_samples_that_are_added_up_often_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = coarse(continuous(5000), 1)
    whole = sampled([rows], 1000)
    monkeypatch.setattr("releaf.train.reward_sampling.LEAST_HELD", 10)
    again = sampled([some(rows, chosen) for chosen in np.array_split(np.arange(5000), 50)], 1000)
    assert as_counters(again) == as_counters(whole)


def test_negative_zeros_make_no_difference() -> None:
    rows = coarse(continuous(500), 1)
    other = rows._replace(units=np.where(rows.units == 0, -0.0, rows.units), rewards=rows.rewards - 0.0)
    assert np.signbit(other.units).any()
    for one, two in zip(sampled([rows], 1000), sampled([other], 1000), strict=True):
        assert one.contexts.tobytes() == two.contexts.tobytes()


# --- what a sample stands for -------------------------------------------------------------------------------------


def test_all_rows_are_kept_as_often_as_they_occur_while_they_are_few() -> None:
    rows = coarse(continuous(2000), 1)
    contexts = [tuple(context) for context in rows.units.astype(np.float32).tolist()]
    expected = Counter(zip(rows.taken.tolist(), contexts, rows.rewards.tolist(), strict=True))
    found = Counter(
        (action, tuple(context), reward)
        for action, own in enumerate(sampled([rows], 2000))
        for context, reward in zip(own.contexts.tolist(), own.rewards.tolist(), strict=True)
    )
    assert found == expected


def test_a_large_log_is_thinned_to_the_bound_and_keys_are_uniform_below_the_rate() -> None:
    for own in sampled([continuous(100_000)], 2000):
        assert own.rate == 5  # 50,000 / 32
        assert own.learnt == pytest.approx(50_000, rel=0.02)
        assert len(own.keys) == pytest.approx(own.learnt / 32, abs=4 * math.sqrt(own.learnt / 32))
        assert len(np.unique(own.keys)) == len(own.keys)
        shares = own.keys / (KEYS >> 5)
        assert shares.min() >= 0
        assert shares.max() < 1
        assert shares.mean() == pytest.approx(0.5, abs=0.03)
        assert own.contexts.mean(axis=0) == pytest.approx([0.5, 0.5], abs=0.03)


@pytest.mark.parametrize("different", [3, 100, 2000, 10_000])
def test_logs_of_few_different_rows_are_counted_not_sampled(different: int) -> None:
    draws = np.random.default_rng(2)
    kinds, which = np.tile(np.arange(different) / different, (2, 1)).T, draws.integers(0, different, 400_000)
    rows = rows_of(kinds[which], np.zeros(400_000, dtype=np.int64), np.zeros(400_000))
    (own, _) = sampled([rows], 20_000)
    copies = Counter(own.contexts[:, 0].tolist())
    for place in range(different):
        expected = (which == place).sum() / 2**own.rate
        assert abs(copies[float(np.float32(kinds[place, 0]))] - expected) < 1


@pytest.mark.parametrize("share", [0.001, 0.01, 0.5, 0.99])
def test_frequent_rows_among_many_others_keep_their_share(share: float) -> None:
    draws = np.random.default_rng(3)
    contexts = draws.random((200_000, 2))
    often = draws.random(200_000) < share
    contexts[often] = 0.25
    (own, _) = sampled([rows_of(contexts, np.zeros(200_000, dtype=np.int64), np.zeros(200_000))], 10_000)
    kept = int((own.contexts[:, 0] == 0.25).sum())
    assert abs(kept - often.sum() / 2**own.rate) <= 1


def test_rows_of_any_frequency_are_kept_in_proportion() -> None:
    """Frequencies fall as 1 / rank: rows with one copy, with some, and with thousands."""
    draws = np.random.default_rng(4)
    ranks = np.floor(np.exp(draws.random(300_000) * math.log(100_000)))
    contexts = np.column_stack([ranks / 100_000, np.zeros(300_000)])
    (own, _) = sampled([rows_of(contexts, np.zeros(300_000, dtype=np.int64), np.zeros(300_000))], 20_000)
    for low, high in ((1, 100), (100, 1000), (1000, 10_000), (10_000, 100_001)):
        expected = ((ranks >= low) & (ranks < high)).mean()
        kept = ((own.contexts[:, 0] * 100_000 > low - 0.5) & (own.contexts[:, 0] * 100_000 < high - 0.5)).mean()
        assert kept == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("most", [100_000, 3000])
def test_weights_give_the_distribution_that_they_ask_for(most: int) -> None:
    draws = np.random.default_rng(5)
    contexts = draws.random((60_000, 2))
    weights = np.where(contexts[:, 0] > 0.5, 20.0, 1.25)
    (own, _) = sampled([rows_of(contexts, np.zeros(60_000, dtype=np.int64), np.zeros(60_000), weights)], most)
    assert own.learnt == 60_000
    assert own.learnt - own.forgotten == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), abs=1)
    assert len(own.keys) == pytest.approx(weights.sum() / 20 / 2**own.rate, rel=0.06)
    assert own.rate == (0 if most == 100_000 else 4)
    assert (own.contexts[:, 0] > 0.5).mean() == pytest.approx(20 / 21.25, abs=0.02)
    assert own.contexts[:, 1].mean() == pytest.approx(0.5, abs=0.03)
    assert len(np.unique(own.contexts, axis=0)) == len(own.keys)  # no row twice


def test_equal_weights_change_nothing_but_keys() -> None:
    rows = continuous(2000)
    weighted = sampled([rows._replace(weights=np.full(2000, 1 / 0.3))], 5000)
    for plain, heavy in zip(sampled([rows], 5000), weighted, strict=True):
        assert sorted(plain.contexts.tolist()) == sorted(heavy.contexts.tolist())
        assert plain[3:] == heavy[3:]


def test_rows_of_extreme_weight_have_several_copies_which_come_first() -> None:
    draws = np.random.default_rng(6)
    weights = np.where(np.arange(20_000) < 5, 1024.0, 2.0)
    rows = rows_of(draws.random((20_000, 2)), np.zeros(20_000, dtype=np.int64), np.zeros(20_000), weights)
    (own, _) = sampled([rows], 50_000)
    assert len(own.keys) == pytest.approx(20_000 / 8, rel=0.05)
    assert own.learnt - own.forgotten == len(own.keys)  # which is more than the effective sample size
    copies = Counter(own.contexts[:, 0].tolist())
    expected = 1024 / 8 / weights.mean()
    assert [copies[float(np.float32(value))] for value in rows.units[:5, 0]] == pytest.approx([expected] * 5, abs=1)
    heavy = np.isin(own.contexts[:, 0], rows.units[:5, 0].astype(np.float32))
    assert heavy[: heavy.sum()].all()
    assert max(Counter(own.contexts[~heavy, 0].tolist()).values()) == 1


def test_equal_rows_of_different_logs_have_different_keys_and_those_of_one_log_the_same() -> None:
    rows = continuous(1000)
    more = rows_of(np.append(rows.units, [[0.5, 0.5]], axis=0), np.append(rows.taken, 0), np.append(rows.rewards, 1.0))
    renamed = rows._replace(labels=["b", "a"])
    own = {key for sample in sampled([rows], 1000) for key in sample.keys.tolist()}
    assert own == {key for sample in sampled([some(rows, slice(None, None, -1))], 1000) for key in sample.keys.tolist()}
    for other in (more, renamed):
        assert own.isdisjoint(key for sample in sampled([other], 1000) for key in sample.keys.tolist())
