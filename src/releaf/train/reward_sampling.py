"""Samples of each action's rewarded rows that do not depend on the order of a log, nor on how it is divided.

A row is its action, encoded context and reward, and its weight if rows are weighted. All copies of a row have one hash,
so a worker knows from the row alone whether the sample keeps it, and the counts of copies add up over parts.

*Rule.* The sample is to have x = 2⁻ʳ copies of each row of the log, with the smallest r for which it has no more rows
than it may. A row with c copies is kept with probability π = min(c·x, k·x, 1): if its hash, as a number in [0, 1), is
below. It then has c·x / π copies, rounded at random by its hash. Here k is the mean number of copies of the action's
different rows. A worker knows k, but not c; so it passes on what k·x admits, which is about as many different rows as
the sample has rows.

*Weights.* A row of weight w is to have x = 2⁻ʳ · s · w copies, so that the sample is distributed as the weights ask.
s = max(1 / max w, n / 8Σw) for n rows: no row has several copies, which trees could not tell from one, unless there are
weights above eight times the mean. The sample stands for (Σw)² / Σw² rewards, the effective sample size.

*Crowded bins.* A row with more than k copies is kept or dropped with several at once, so a row that fills a share of
the log must not depend on one hash. The first pass counts rows by some bits of their hash that the comparison above
does not use. In a crowded bin, which has more than twice the mean, π is 1 for all rows.

*Keys.* A copy's key, by which learners thin and merge samples, is a hash of the row, the copy's number and the log's
digest: the sum of the hashes of all its rows. So a log that is fitted twice has equal keys, which count once in a
merge, and equal rows of different logs have different ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.merging import SampledRows
from releaf.core.releaf.summing import WEIGHT_GRAIN, reward_totals
from releaf.decision import ActionName
from releaf.streams.tables import normalize_action
from releaf.train.fit_tasks import EncodedRows
from releaf.train.log_summary import action_key, type_name
from releaf.train.row_hashes import NO_HASHES, hash_rows, mixed, units_of

LEAST_BINS, MOST_BINS = 2**10, 2**20
ROWS_PER_BIN = 32
CROWDED, DEVIATIONS = 2.0, 8.0  # times the mean, and standard deviations above, from which on a bin is crowded
LOWEST_HASHES = 256  # of each action, from which the number of its different rows is estimated
LEAST_HELD = 2**18  # sampled rows that are added up at a time
SQUARE_GRAIN = 2.0**-8  # of squared weights
LEAST_SHARE = 0.125  # of the rows that a sample of weighted ones would have otherwise
_COUNT, _WEIGHT, _SQUARE = 0, 2, 4  # columns of a tally's sums
ActionKey = tuple[str, ActionName]  # type and name


def number_of_bins(rows: int) -> int:
    """Number of bins in which so many rows are counted, a power of two."""
    return min(max(1 << (rows // ROWS_PER_BIN).bit_length(), LEAST_BINS), MOST_BINS)


def _hashes_of(rows: EncodedRows) -> Array:
    further = (rows.rewards,) if rows.weights is None else (rows.rewards, rows.weights)
    names = np.array([_hash_of_name(label) for label in rows.labels], dtype=np.uint64)
    return mixed(hash_rows(rows.units, *further) + names[rows.taken])


def _hash_of_name(label: ActionName) -> int:
    text = f"{type_name(label)} {normalize_action(label)}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _bins_of(hashes: Array, bins: int) -> Array:
    """Bin of each hash, by its last bits: a sample compares the first ones."""
    found: Array = (hashes & np.uint64(bins - 1)).astype(np.int64)
    return found


class RowTally:
    """Counts of rows by hash, the digest of all, and sums and lowest hashes of each action's rows."""

    def __init__(self, bins: int) -> None:
        self.bins = np.zeros(bins, dtype=np.int32)  # of one task; those of all tasks have 64 bits
        self.digest = np.zeros(1, dtype=np.uint64)  # sum of hashes, which wraps around
        self.sums: dict[ActionKey, Array] = {}  # of ones, rewards r, weights w, w·r and w², in grains
        self.heaviest: dict[ActionKey, float] = {}  # weights
        self.lowest: dict[ActionKey, Array] = {}  # different hashes

    def add(self, rows: EncodedRows) -> None:
        hashes, keys = _hashes_of(rows), [action_key(label) for label in rows.labels]
        self.bins += np.bincount(_bins_of(hashes, len(self.bins)), minlength=len(self.bins))
        self.digest += hashes.sum()
        columns, heaviest = [*rows.observed().T], np.ones(len(keys))
        if rows.weights is not None:
            columns.append(np.floor(rows.weights**2 / SQUARE_GRAIN + 0.5).astype(np.int64))
            np.maximum.at(heaviest, rows.taken, rows.weights)
        sums = np.zeros((len(keys), len(columns)), dtype=np.int64)
        for place, column in enumerate(columns):
            np.add.at(sums[:, place], rows.taken, column)
        lowest = self._low_hashes(rows, hashes)
        for key, own, weight, low in zip(keys, sums, heaviest.tolist(), lowest, strict=True):
            self._add(key, own, weight, low)

    def _low_hashes(self, rows: EncodedRows, hashes: Array) -> list[Array]:
        """Hashes of each action that may be among its lowest."""
        known = [self.lowest.get(action_key(label), NO_HASHES) for label in rows.labels]
        limits = [own[-1] if len(own) == LOWEST_HASHES else np.uint64(2**64 - 1) for own in known]
        few = hashes <= np.array(limits, dtype=np.uint64)[rows.taken]
        order = np.argsort(rows.taken[few], kind="stable")
        ends = np.cumsum(np.bincount(rows.taken[few], minlength=len(known)))
        return np.split(hashes[few][order], ends[:-1])

    def merge(self, other: RowTally) -> None:
        self.bins = np.add(self.bins, other.bins, dtype=np.int64)
        self.digest += other.digest
        for key, sums in other.sums.items():
            self._add(key, sums, other.heaviest[key], other.lowest[key])

    def _add(self, key: ActionKey, sums: Array, heaviest: float, hashes: Array) -> None:
        self.sums[key] = self.sums[key] + sums if key in self.sums else sums
        self.heaviest[key] = max(self.heaviest.get(key, 1.0), heaviest)
        self.lowest[key] = np.unique(np.concatenate([self.lowest.get(key, NO_HASHES), hashes]))[:LOWEST_HASHES]

    def mean_copies(self, action: ActionName) -> float:
        """Mean number of copies of an action's different rows; estimated if it has many."""
        key = action_key(action)
        lowest = self.lowest.get(key, NO_HASHES)
        if len(lowest) < LOWEST_HASHES:
            return float(self.sums[key][_COUNT]) / len(lowest) if len(lowest) else 1.0
        different = (LOWEST_HASHES - 1) / (float(lowest[-1]) * 2.0**-64)
        return max(float(self.sums[key][_COUNT]) / different, 1.0)

    def sums_of(self, actions: Sequence[ActionName]) -> Array:
        """Sums of each action; zeros where the log has none of its rows."""
        nothing = np.zeros_like(next(iter(self.sums.values())))
        return np.stack([self.sums.get(action_key(label), nothing) for label in actions])

    def reward_sum(self, actions: Sequence[ActionName]) -> float:
        """Sum of all rewards; with weights, of each action's count times its weighted mean."""
        return float(reward_totals(self.sums_of(actions)).sum())


class SamplingRule(NamedTuple):
    """Which rows a sample keeps."""

    actions: tuple[ActionName, ...]
    learnt: Array  # rows of each action
    effective: Array  # its effective sample size
    rates: Array  # r of each action
    scales: Array  # x of each action, or x / w with weights
    multiples: Array  # k of each action
    digest: Array  # of the log
    crowded: Array  # whether each bin is

    @classmethod
    def of(cls, tally: RowTally, actions: tuple[ActionName, ...], most_rows: int) -> SamplingRule:
        """Rule for samples of so many rows at most."""
        sums = tally.sums_of(actions)
        learnt = sums[:, _COUNT]
        effective, scales, expected = learnt, np.ones(len(actions)), learnt
        if sums.shape[1] > _SQUARE:
            totals = np.maximum(sums[:, _WEIGHT] * WEIGHT_GRAIN, 1.0)
            squares = np.maximum(sums[:, _SQUARE] * SQUARE_GRAIN, 1.0)
            effective = np.minimum(np.round(totals**2 / squares).astype(np.int64), learnt)
            heaviest = np.array([tally.heaviest.get(action_key(label), 1.0) for label in actions])
            scales = np.maximum(1.0 / heaviest, LEAST_SHARE * learnt / totals)
            expected = scales * totals
        rates = np.array([_rate_of(float(rows), most_rows) for rows in expected])
        multiples = np.array([tally.mean_copies(label) for label in actions])
        mean = tally.bins.mean()
        crowded = tally.bins > CROWDED * mean + DEVIATIONS * np.sqrt(mean)
        return cls(actions, learnt, effective, rates, scales * 0.5**rates, multiples, tally.digest, crowded)

    def are_crowded(self, hashes: Array) -> Array:
        """Whether the bin of each hash is crowded."""
        found: Array = self.crowded[_bins_of(hashes, len(self.crowded))]
        return found


class RewardSample(NamedTuple):
    """Rows; different ones, in the order of their hashes, where they are added up."""

    hashes: Array
    taken: Array
    contexts: Array
    rewards: Array
    shares: Array  # x of each row
    counts: Array  # c of each row


def draw(rule: SamplingRule, rows: EncodedRows) -> RewardSample:
    """Rows that the sample may keep."""
    taken, hashes = rows.indices_among(rule.actions), _hashes_of(rows)
    shares = rule.scales[taken] * (1.0 if rows.weights is None else rows.weights)
    kept = rule.are_crowded(hashes) | (units_of(hashes, 53) < shares * rule.multiples[taken])
    contexts = rows.units[kept].astype(np.float32) + np.float32(0.0)  # no negative zero
    ones = np.ones(len(contexts), dtype=np.int64)
    return RewardSample(hashes[kept], taken[kept], contexts, rows.rewards[kept] + 0.0, shares[kept], ones)


class SampleSum:
    """Accumulator of samples whose counts add up."""

    def __init__(self, features: int) -> None:
        nothing = np.empty(0, dtype=np.int64)
        contexts = np.empty((0, features), dtype=np.float32)
        self._parts = [RewardSample(NO_HASHES, nothing, contexts, np.empty(0), np.empty(0), nothing)]
        self._held = 0  # rows that are not added up yet

    def add(self, sample: RewardSample) -> None:
        self._parts.append(sample)
        self._held += len(sample.hashes)
        if self._held > max(len(self._parts[0].hashes), LEAST_HELD):  # doubling: each row is sorted a few times
            self.total()

    def total(self) -> RewardSample:
        self._parts, self._held = [_added_up(self._parts)], 0
        return self._parts[0]


def _added_up(samples: list[RewardSample]) -> RewardSample:
    """Add up the counts of equal rows."""
    joined = RewardSample(*(np.concatenate(arrays) for arrays in zip(*samples, strict=True)))
    order = np.argsort(joined.hashes, kind="stable")
    hashes = joined.hashes[order]
    firsts = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)])
    counts = np.add.reduceat(joined.counts[order], firsts) if len(firsts) else joined.counts
    return RewardSample(*(array[order[firsts]] for array in joined))._replace(counts=counts)


def sampled_rows(rule: SamplingRule, sample: RewardSample) -> list[SampledRows]:
    """Copies of the rows of each action with their keys, in random order.

    Rows of which a weight makes several copies come first: a learner is fitted to the first rows and judged by the
    last, and is not to be judged by what it has seen.
    """
    expected = sample.counts * sample.shares
    chances = np.minimum(np.minimum(sample.counts, rule.multiples[sample.taken]) * sample.shares, 1.0)
    chances[rule.are_crowded(sample.hashes)] = 1.0
    copies = np.floor(expected / chances + units_of(mixed(sample.hashes), 32)).astype(np.int64)
    copies[units_of(sample.hashes, 53) >= chances] = 0
    source = np.repeat(np.arange(len(copies)), copies)
    number = np.arange(len(source)) - np.repeat(np.cumsum(copies) - copies, copies)
    taken = sample.taken[source]
    words = mixed(mixed(sample.hashes + rule.digest)[source] + number.astype(np.uint64))
    keys = (words >> (2 + rule.rates[taken]).astype(np.uint64)).astype(np.int64)
    order = np.lexsort((keys, sample.shares[source] <= 1.0, taken))
    ends = np.cumsum(np.bincount(taken, minlength=len(rule.actions)))
    rows = []
    for action, chosen in enumerate(np.split(order, ends[:-1])):
        learnt = int(rule.learnt[action])
        own = chosen[:learnt]  # where more were rounded up than down
        contexts, rewards = sample.contexts[source[own]], sample.rewards[source[own]]
        forgotten = learnt - max(int(rule.effective[action]), len(own))
        rows.append(SampledRows(contexts, rewards, keys[own], int(rule.rates[action]), learnt, forgotten))
    return rows


def _rate_of(rows: float, most: int) -> int:
    """The smallest r with rows / 2ʳ ≤ most."""
    rate = 0
    while rows > most << rate:
        rate += 1
    return rate
