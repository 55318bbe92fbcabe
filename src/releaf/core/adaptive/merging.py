"""Merging of learners: the union of their samples, from which models are built again.

Every row has a key, a hash of its values and of the key of the reward before. Two learners that started from the same
saved one share the rows that it had, with equal keys; those count once. A sample at rate r holds the rows whose key is
below KEYS / 2ʳ, so the union at the higher of two rates is the sample that one learner of all rewards would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.engine import Engine, Mapper
from releaf.core.adaptive.initial_state import Settings, new_sample
from releaf.core.adaptive.sample import KEYS
from releaf.core.adaptive.state import FORGET_TO, LATEST_KEY, LEARNT, RATE, REQUESTED, ROWS, WINDOW, Sample
from releaf.core.runtime.primitives import RANDOM, TIME
from releaf.core.runtime.random_generator import first_state


class SampledRows(NamedTuple):
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


def rows_of(sample: Sample) -> SampledRows:
    """Rows of a sample."""
    counts, rows = sample.counts, int(sample.counts[ROWS])
    return SampledRows(
        sample.contexts[:rows].copy(),
        sample.rewards[:rows].copy(),
        sample.keys[:rows].copy(),
        int(counts[RATE]),
        int(counts[LEARNT]),
        int(counts[FORGET_TO]),
    )


def build_engine(settings: Settings, rows: Sequence[SampledRows], reward_sum: float, mapper: Mapper = map) -> Engine:
    """Engine of the rows of each action, in an order that tells nothing: the first ones are fitted, the last learnt.

    ``reward_sum`` is that of all rewards that the rows stand for; ``mapper`` fits the models, as ``map`` would.
    """
    engine, learnt = Engine(settings, len(rows)), sum(own.learnt for own in rows)
    rate = max(own.rate for own in rows)
    engine.state.reward_sums[:] = learnt, reward_sum
    engine.state.clock[TIME] = learnt
    engine.set_seen(np.concatenate([own.contexts for own in rows]), np.concatenate([own.keys for own in rows]), rate)
    window = int(settings.params[WINDOW])
    engine.samples = [sample_from(settings, latest(own, window) if window > 0 else own) for own in rows]
    engine.fit_rows(mapper)
    return engine


def latest(rows: SampledRows, window: int) -> SampledRows:
    """The last rows, so many at most, at a rate of one: later rewards are to replace them one by one."""
    contexts, rewards, keys = (array[-window:] for array in rows[:3])
    return rows._replace(contexts=contexts, rewards=rewards, keys=keys << rows.rate, rate=0)


def merge_engines(settings: Settings, one: Engine, other: Engine, pairs: list[tuple[int | None, int | None]]) -> Engine:
    """Engine of both. ``pairs`` are the positions of each action in one and in the other, None where it has none."""
    merged = Engine(settings, len(pairs))
    shared, contributing = Common(0, 0.0), set[Engine]()
    for action, (mine, theirs) in enumerate(pairs):
        places = {engine: place for engine, place in ((one, mine), (other, theirs)) if place is not None}
        samples = {engine: engine.samples[place].copy() for engine, place in places.items()}
        samples = {engine: sample for engine, sample in samples.items() if sample.counts[LEARNT] > 0}
        merged.samples[action], common, sources = _merge_samples(settings, samples)
        shared = Common(shared.rewards + common.rewards, shared.total + common.total)
        for engine in sources:
            merged.state.losses[action] += engine.state.losses[places[engine]]
        contributing.update(sources)
    _merge_states(merged, one, other, shared, contributing)
    merged.rebuild()
    return merged


def _merge_samples(settings: Settings, samples: dict[Engine, Sample]) -> tuple[Sample, Common, list[Engine]]:
    """Union of the samples of two engines at most, what they share, and the engines that contribute to it.

    A sample that holds all rows of the other stays as it is, with the schedule of its fits.
    """
    if len(samples) < 2:
        return next(iter(samples.values()), new_sample(settings)), Common(0, 0.0), list(samples)
    one, other = (rows_of(sample) for sample in samples.values())
    rate = max(one.rate, other.rate)
    both = np.intersect1d(one.keys, other.keys)
    shared = other.keys[np.isin(other.keys, both)] < KEYS >> rate
    common = Common(
        int(shared.sum()) << rate, float(other.rewards[np.isin(other.keys, both)][shared].sum() * 2.0**rate)
    )
    for engine, all_rows, few_rows in zip(samples, (one, other), (other, one), strict=True):
        if len(both) == len(few_rows.keys) and few_rows.learnt <= all_rows.learnt:
            return samples[engine], Common(few_rows.learnt, float(few_rows.rewards.sum() * 2.0**rate)), [engine]
    return sample_from(settings, unite(one, other, common.rewards)), common, list(samples)


def unite(one: SampledRows, other: SampledRows, common: int) -> SampledRows:
    """Union of rows, in the order of their keys: the same whichever comes first."""
    rate = max(one.rate, other.rate)
    keys, first = np.unique(np.concatenate([one.keys, other.keys]), return_index=True)
    contexts, rewards = (np.concatenate([getattr(one, name), getattr(other, name)]) for name in ("contexts", "rewards"))
    kept = keys < KEYS >> rate
    first = first[kept]
    learnt = max(one.learnt + other.learnt - common, len(first))
    forgotten = min(one.forgotten + other.forgotten, learnt - len(first))
    return SampledRows(contexts[first], rewards[first], keys[kept], rate, learnt, max(forgotten, 0))


def sample_from(settings: Settings, rows: SampledRows) -> Sample:
    """Sample of these rows, all of which a first fit is to use; they count as the latest rewards, in this order."""
    sample, count = new_sample(settings), len(rows.rewards)
    sample = sample.resized("rows", max(len(sample.rewards), 1 << count.bit_length()))
    sample.contexts[:count], sample.rewards[:count], sample.keys[:count] = rows.contexts, rows.rewards, rows.keys
    sample.numbers[:count] = np.maximum(rows.learnt - ((count - np.arange(count)) << rows.rate), rows.forgotten)
    sample.counts[[ROWS, LEARNT, RATE, FORGET_TO]] = count, rows.learnt, rows.rate, rows.forgotten
    sample.counts[LATEST_KEY] = np.bitwise_xor.reduce(rows.keys)
    sample.watch[1] = rows.learnt
    return sample


def _merge_states(merged: Engine, one: Engine, other: Engine, shared: Common, contributing: set[Engine]) -> None:
    """Add up what concerns all actions; the rewards of an engine that contributes none are those of the other."""
    state, states = merged.state, (one.state, other.state)
    for engine in (one, other):
        if engine in contributing:
            state.pooled_losses += engine.state.pooled_losses
            state.reward_sums += engine.state.reward_sums
    if len(contributing) == 2:
        state.reward_sums[:] = np.maximum(state.reward_sums - shared, 0.0)
        state.reward_sums[1] = min(state.reward_sums[1], state.reward_sums[0])
    for part in states:
        state.sums += part.sums
        state.clock[[TIME, REQUESTED]] += part.clock[[TIME, REQUESTED]]
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
