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
from releaf.core.adaptive.engine import Mapper, MixtureEngine
from releaf.core.adaptive.initial_state import Settings, new_sample
from releaf.core.adaptive.sample import KEYS
from releaf.core.adaptive.state import (
    FORGET_TO,
    GAIN,
    GAINS,
    LABEL_COST,
    LATEST_KEY,
    LEARNT,
    RATE,
    REQUESTED,
    ROWS,
    SINCE_REWARD,
    SINCE_TREND,
    UNWORTHY,
    WINDOW,
    Adaptive,
    Sample,
)
from releaf.core.runtime.primitives import RANDOM, TIME
from releaf.core.runtime.random_generator import first_state


class SampledRows(NamedTuple):
    """Rewarded contexts of an action, how many rewards they were drawn from, and how many of these are forgotten."""

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


def build_engine(
    settings: Settings, rows: Sequence[SampledRows], reward_sum: float, mapper: Mapper = map
) -> MixtureEngine:
    """Build an engine of the rows of each action, in an order that tells nothing: the last are learnt after a fit.

    ``reward_sum`` is that of all rewards that the rows stand for; ``mapper`` fits the models, as ``map`` would.
    """
    engine, learnt = MixtureEngine(settings, len(rows)), sum(own.learnt for own in rows)
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


def merge_engines(
    settings: Settings, one: MixtureEngine, other: MixtureEngine, pairs: list[tuple[int | None, int | None]]
) -> MixtureEngine:
    """Merge two engines. ``pairs`` are the positions of each action in one and in the other, None where it has none."""
    swapped = [(theirs, mine) for mine, theirs in pairs]
    for whole, part, places in ((one, other, pairs), (other, one, swapped)):
        if _holds(whole, part, places):
            return _copy(settings, whole, [own for own, _ in places])
    merged, shared = MixtureEngine(settings, len(pairs)), []
    for action, (mine, theirs) in enumerate(pairs):
        samples = [engine.samples[at] for engine, at in ((one, mine), (other, theirs)) if at is not None]
        merged.samples[action], common = _merge_samples(settings, samples)
        shared.append(common)
        for engine, at in ((one, mine), (other, theirs)):
            if at is not None:
                merged.state.losses[action] += engine.state.losses[at]
    _merge_states(merged, one, other, shared)
    merged.rebuild()
    return merged


def _holds(whole: MixtureEngine, part: MixtureEngine, pairs: list[tuple[int | None, int | None]]) -> bool:
    """Whether one learner has seen and learnt all that another has: a later copy of it, or that one knows nothing."""
    if part.state.clock[TIME] > whole.state.clock[TIME]:
        return False
    if part.state.clock[TIME] > 0 and not _includes(*(_seen_of(engine.state) for engine in (whole, part))):
        return False
    return all(
        theirs is None
        or part.samples[theirs].counts[LEARNT] == 0
        or (mine is not None and _has_all(rows_of(whole.samples[mine]), rows_of(part.samples[theirs])))
        for mine, theirs in pairs
    )


def _copy(settings: Settings, whole: MixtureEngine, places: list[int | None]) -> MixtureEngine:
    """Copy of an engine, with its actions at these places and new ones elsewhere."""
    copy = MixtureEngine(settings, len(places))
    for name, array in whole.state.learnt_arrays().items():
        if name != "losses":
            getattr(copy.state, name)[...] = array
    for action, place in enumerate(places):
        if place is not None:
            copy.samples[action], copy.state.losses[action] = whole.samples[place].copy(), whole.state.losses[place]
    copy.rebuild()
    return copy


def _includes(whole: tuple[Array, int], part: tuple[Array, int]) -> bool:
    """Whether the keys of one sample are among those of another, as far as the higher of their rates keeps them."""
    kept = part[0][part[0] < KEYS >> max(whole[1], part[1])]
    return len(kept) > 0 and bool(np.isin(kept, whole[0]).all())


def _has_all(whole: SampledRows, part: SampledRows) -> bool:
    return part.learnt <= whole.learnt and _includes((whole.keys, whole.rate), (part.keys, part.rate))


def _seen_of(state: Adaptive) -> tuple[Array, int]:
    """Keys of the contexts seen, and the rate of these."""
    count, rate = (int(number) for number in state.seen_counts)
    return state.seen_keys[:count], rate


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
    for sample, whole, part in ((samples[0], one, other), (samples[1], other, one)):
        if _has_all(whole, part):
            return sample, Common(part.learnt, float(part.rewards.sum() * 2.0**part.rate))
    rate = max(one.rate, other.rate)
    both = other.rewards[np.isin(other.keys, one.keys) & (other.keys < KEYS >> rate)]
    common = Common(len(both) << rate, float(both.sum() * 2.0**rate))
    return sample_from(settings, unite(one, other, common.rewards)), common


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
    sample.watch[[SINCE_REWARD, SINCE_TREND]] = rows.learnt
    return sample


def _merge_states(merged: MixtureEngine, one: MixtureEngine, other: MixtureEngine, shared: list[Common]) -> None:
    """Add up what concerns all actions."""
    state, states = merged.state, (one.state, other.state)
    for part in states:
        state.pooled_losses += part.pooled_losses
        state.reward_sums += part.reward_sums
        state.sums += part.sums
        state.clock[[TIME, REQUESTED]] += part.clock[[TIME, REQUESTED]]
    state.reward_sums[:] = np.maximum(state.reward_sums - np.sum(shared, axis=0), 0.0)
    state.reward_sums[1] = min(state.reward_sums[1], state.reward_sums[0])
    common = [rewards for rewards, _ in shared]
    counts = [[int(sample.counts[LEARNT]) for sample in engine.samples] for engine in (one, other)]
    several = any(sum(learnt) > part.clock[TIME] for learnt, part in zip(counts, states, strict=True))
    number = max if several else sum  # one decision may teach several actions
    decisions = number(common)
    unrequested = [number(learnt) - int(part.clock[REQUESTED]) for learnt, part in zip(counts, states, strict=True)]
    requests = max(decisions - max(min(unrequested), 0), 0)  # at least, so that no label budget is overspent
    for field, fewer in ((TIME, decisions), (REQUESTED, requests)):
        most = max(int(part.clock[field]) for part in states)
        state.clock[field] = max(int(state.clock[field]) - fewer, most)
    _merge_labels(state, states)
    with np.errstate(over="ignore"):
        begin = first_state(merged.settings.seed if merged.settings.seed is not None else 0)
        state.clock[RANDOM] = states[0].clock[RANDOM] + states[1].clock[RANDOM] - begin
    seen = [(part.seen[: part.seen_counts[0]], part.seen_keys[: part.seen_counts[0]]) for part in states]
    merged.set_seen(
        np.concatenate([contexts for contexts, _ in seen]),
        np.concatenate([keys for _, keys in seen]),
        max(int(part.seen_counts[1]) for part in states),
    )


def _merge_labels(state: Adaptive, states: tuple[Adaptive, Adaptive]) -> None:
    """Add up the costs of labels, those of requests that both have at their mean; average the gains."""
    costs, requests = (
        sum(float(part[field]) for part in parts)
        for parts, field in (([one.labels for one in states], LABEL_COST), ([one.clock for one in states], REQUESTED))
    )
    merged = float(state.clock[REQUESTED])
    most = max(float(one.labels[LABEL_COST]) for one in states)
    state.labels[LABEL_COST] = costs if merged == requests else max(costs * merged / requests, most)
    counts = [float(one.labels[GAINS]) for one in states]
    if sum(counts):
        gains = sum(count * float(one.labels[GAIN]) for count, one in zip(counts, states, strict=True))
        state.labels[GAIN], state.labels[GAINS] = gains / sum(counts), max(counts)
    state.labels[UNWORTHY] = min(float(one.labels[UNWORTHY]) for one in states)
