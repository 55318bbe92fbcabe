"""Consistency check of a loaded state of AdaptiveReleaf, since kernels check no bounds."""

from __future__ import annotations

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.initial_state import Settings
from releaf.core.adaptive.levels import MOST_LEVELS, SCALE
from releaf.core.adaptive.reward_requests import LATEST_GAINS
from releaf.core.adaptive.sample import KEYS
from releaf.core.adaptive.state import (
    DUE_NOW,
    EFFECT,
    FITTED,
    FITTED_FOR,
    FORGET_TO,
    GAINS,
    LATEST_KEY,
    LEAF,
    LEARNT,
    NEXT,
    NONE,
    RATE,
    REQUESTED,
    ROWS,
    SEEN,
    SINCE_REWARD,
    SINCE_TREND,
    STARTED,
    STARTED_FOR,
    STARTED_LEAF,
    Adaptive,
    Sample,
)

MOST_LEARNT = 2**53
MOST_RATE = 53
MOST_AHEAD = 2**18  # rewards until the next fit starts or takes effect


def check_state(settings: Settings, state: Adaptive, samples: list[Sample]) -> None:
    """Raise a ValueError if a kernel would access an array out of bounds, or divide by zero."""
    stored, rate = (int(count) for count in state.seen_counts)
    if not (stored <= SEEN and rate <= MOST_RATE and state.clock[REQUESTED] >= 0):
        raise ValueError("its clock contradicts the rest")
    if not state.labels[GAINS] <= LATEST_GAINS:
        raise ValueError("its labels contradict the rest")
    if not (state.seen_keys < KEYS).all():
        raise ValueError("its seen_keys contradict the rest")
    if not ((state.losses <= MOST_LEARNT).all() and (state.pooled_losses <= MOST_LEARNT).all()):
        raise ValueError("its losses contradict the rest")
    if not (_are_contexts(settings, state.seen) and _are_levels(settings, state.fresh_knots, state.fresh_levels)):
        raise ValueError("its levels contradict the rest")
    if not state.reward_sums[1] <= state.reward_sums[0]:
        raise ValueError("its sums contradict the rest")
    for sample in samples:
        if not (_are_counts(sample) and _is_sample(settings, sample)):
            raise ValueError("its samples contradict the rest")


def _are_counts(sample: Sample) -> bool:
    counts = sample.counts
    rows, learnt = int(counts[ROWS]), int(counts[LEARNT])
    fits = 0 <= counts[FITTED] <= rows <= learnt <= MOST_LEARNT and counts[FITTED] <= counts[FITTED_FOR] <= learnt
    fits = fits and 0 <= counts[RATE] <= MOST_RATE and counts[DUE_NOW] == 0 and rows < len(sample.rewards)
    fits = fits and 0 <= counts[FORGET_TO] <= learnt and 0 <= counts[LATEST_KEY] < KEYS
    fits = fits and (counts[LEAF] > 0 or counts[FITTED] == 0)
    fits = fits and max(counts[NEXT], counts[EFFECT]) <= learnt + MOST_AHEAD
    if counts[STARTED] != NONE:
        fits = fits and counts[FITTED] <= counts[STARTED] <= rows and counts[STARTED_LEAF] > 0
        fits = fits and counts[STARTED] <= counts[STARTED_FOR] <= learnt
    return bool(fits and (sample.watch >= 0).all() and sample.watch[[SINCE_REWARD, SINCE_TREND]].max() <= learnt)


def _is_sample(settings: Settings, sample: Sample) -> bool:
    rows, learnt = int(sample.counts[ROWS]), int(sample.counts[LEARNT])
    fits = bool((sample.keys < KEYS).all() and ((sample.rewards >= 0) & (sample.rewards <= 1)).all())
    fits = fits and bool((sample.numbers[:rows] < learnt).all() and (np.diff(sample.numbers[:rows]) >= 0).all())
    fits = fits and bool(((sample.offsets >= 0) & (sample.offsets <= 1)).all())
    fits = fits and _are_contexts(settings, sample.contexts) and _are_levels(settings, sample.knots, sample.levels)
    return fits and _are_levels(settings, sample.next_knots, sample.next_levels)


def _are_contexts(settings: Settings, contexts: Array) -> bool:
    """Whether values lie between the lower limit and 1, and below 1 for categories."""
    highest = np.where(settings.categories > 0, np.nextafter(np.float32(1), np.float32(0)), np.float32(1))
    return bool(((contexts >= settings.limits) & (contexts <= highest)).all())


def _are_levels(settings: Settings, knots: Array, levels: Array) -> bool:
    numbers = settings.categories == 0
    given = np.where(numbers, levels, settings.first_levels()[1])
    if not ((levels == given) & (levels <= np.where(numbers, MOST_LEVELS, given)) & ((levels >= 2) | ~numbers)).all():
        return False
    rises = np.diff(knots[:, :MOST_LEVELS], axis=1) > 0
    needed = np.arange(1, MOST_LEVELS) < levels[:, None]
    in_order = bool((rises | ~needed)[numbers].all() and (knots[numbers, 0] == 0.0).all())
    return in_order and bool((knots[numbers, SCALE] > 0).all())
