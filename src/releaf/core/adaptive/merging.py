"""Merging of learners: the union of their samples, from which models are built again.

Every row has a key, a hash of its values and of the key of the reward before. Two learners that started from the same
saved one share the rows that it had, with equal keys; those count once. A sample at rate r holds the rows whose key is
below KEYS / 2ʳ, so the union at the higher of two rates is the sample that one learner of all rewards would have.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.engine import Engine
from releaf.core.adaptive.initial_state import Settings, new_sample
from releaf.core.adaptive.sample import KEYS
from releaf.core.adaptive.state import FORGET_TO, LATEST_KEY, LEARNT, RATE, REQUESTED, ROWS, Sample
from releaf.core.runtime.primitives import RANDOM, TIME
from releaf.core.runtime.random_generator import first_state


class Rows(NamedTuple):
    """Rewarded contexts of an action, and how many rewards they stand for."""

    contexts: Array
    rewards: Array
    keys: Array
    rate: int
    learnt: int
    forgotten: int = 0


class Common(NamedTuple):
    """What two learners share: number and sum of rewards."""

    rewards: int
    total: float


def rows_of(sample: Sample) -> Rows:
    """Rows of a sample."""
    counts, rows = sample.counts, int(sample.counts[ROWS])
    return Rows(
        sample.contexts[:rows].copy(),
        sample.rewards[:rows].copy(),
        sample.keys[:rows].copy(),
        int(counts[RATE]),
        int(counts[LEARNT]),
        int(counts[FORGET_TO]),
    )


def merge_engines(settings: Settings, one: Engine, other: Engine, pairs: list[tuple[int | None, int | None]]) -> Engine:
    """Engine of both. ``pairs`` are the positions of each action in one and in the other, None where it has none."""
    merged = Engine(settings, len(pairs))
    shared = Common(0, 0.0)
    for action, (mine, theirs) in enumerate(pairs):
        samples = [engine.samples[at] for engine, at in ((one, mine), (other, theirs)) if at is not None]
        sample, common = _merge_samples(settings, samples)
        shared = Common(shared.rewards + common.rewards, shared.total + common.total)
        merged.samples[action] = sample
        for engine, at in ((one, mine), (other, theirs)):
            if at is not None:
                merged.state.losses[action] += engine.state.losses[at]
    _merge_states(merged, one, other, shared)
    merged.rebuild()
    return merged


def _merge_samples(settings: Settings, samples: list[Sample]) -> tuple[Sample, Common]:
    """Union of one or two samples, and what they share.

    A sample that holds all rows of the other stays as it is, with the schedule of its fits.
    """
    samples = [sample.copy() for sample in samples if sample.counts[LEARNT] > 0]
    if not samples:
        return new_sample(settings), Common(0, 0.0)
    if len(samples) == 1:
        return samples[0], Common(0, 0.0)
    one, other = (rows_of(sample) for sample in samples)
    rate = max(one.rate, other.rate)
    both = np.intersect1d(one.keys, other.keys)
    shared = other.keys[np.isin(other.keys, both)] < KEYS >> rate
    common = Common(
        int(shared.sum()) << rate, float(other.rewards[np.isin(other.keys, both)][shared].sum() * 2.0**rate)
    )
    for sample, all_rows, few_rows in ((samples[0], one, other), (samples[1], other, one)):
        if len(both) == len(few_rows.keys) and few_rows.learnt <= all_rows.learnt:
            return sample, Common(few_rows.learnt, float(few_rows.rewards.sum() * 2.0**rate))
    return sample_from(settings, unite(one, other, common.rewards)), common


def unite(one: Rows, other: Rows, common: int) -> Rows:
    """Union of rows, in the order of their keys: the same whichever comes first."""
    rate = max(one.rate, other.rate)
    keys, first = np.unique(np.concatenate([one.keys, other.keys]), return_index=True)
    contexts, rewards = (np.concatenate([getattr(one, name), getattr(other, name)]) for name in ("contexts", "rewards"))
    kept = keys < KEYS >> rate
    first = first[kept]
    learnt = max(one.learnt + other.learnt - common, len(first))
    forgotten = min(one.forgotten + other.forgotten, learnt - len(first))
    return Rows(contexts[first], rewards[first], keys[kept], rate, learnt, max(forgotten, 0))


def sample_from(settings: Settings, rows: Rows) -> Sample:
    """Sample of these rows, all of which a first fit is to use; they count as the latest rewards, in this order."""
    sample, count = new_sample(settings), len(rows.rewards)
    sample = sample.resized("rows", max(len(sample.rewards), 1 << count.bit_length()))
    sample.contexts[:count], sample.rewards[:count], sample.keys[:count] = rows.contexts, rows.rewards, rows.keys
    sample.numbers[:count] = np.maximum(rows.learnt - ((count - np.arange(count)) << rows.rate), rows.forgotten)
    sample.counts[[ROWS, LEARNT, RATE, FORGET_TO]] = count, rows.learnt, rows.rate, rows.forgotten
    sample.counts[LATEST_KEY] = np.bitwise_xor.reduce(rows.keys)
    sample.watch[1] = rows.learnt
    return sample


def _merge_states(merged: Engine, one: Engine, other: Engine, shared: Common) -> None:
    """Add up what concerns all actions."""
    state, states = merged.state, (one.state, other.state)
    for part in states:
        state.pooled_losses += part.pooled_losses
        state.reward_sums += part.reward_sums
        state.sums += part.sums
        state.clock[[TIME, REQUESTED]] += part.clock[[TIME, REQUESTED]]
    state.reward_sums[:] = np.maximum(state.reward_sums - shared, 0.0)
    state.reward_sums[1] = min(state.reward_sums[1], state.reward_sums[0])
    most = max(int(part.clock[TIME]) for part in states)
    state.clock[TIME] = max(int(state.clock[TIME]) - shared.rewards, most)
    with np.errstate(over="ignore"):
        begin = first_state(merged.settings.seed if merged.settings.seed is not None else 0)
        state.clock[RANDOM] = states[0].clock[RANDOM] + states[1].clock[RANDOM] - begin
    seen = [(part.seen[: part.seen_counts[0]], part.seen_keys[: part.seen_counts[0]]) for part in states]
    merged.set_seen(
        np.concatenate([contexts for contexts, _ in seen]),
        np.concatenate([keys for _, keys in seen]),
        max(int(part.seen_counts[1]) for part in states),
    )


def thinned(keys: Array, rate: int, most: int) -> int:
    """Lowest rate, from this one, at which so many rows at most are kept."""
    while int((keys < KEYS >> rate).sum()) > most:
        rate += 1
    return rate
