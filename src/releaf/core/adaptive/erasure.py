"""Erasure: the contexts of some decisions leave the samples of a learner."""

from __future__ import annotations

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.decision_step import set_levels
from releaf.core.adaptive.engine import ROWS_OF, MixtureEngine
from releaf.core.adaptive.state import FITTED, NONE, ROWS, STARTED, Sample


def begin_erasure(engine: MixtureEngine, steps: Array) -> int:
    """Remove the contexts of decisions from all samples, and return how many there were.

    Levels are set from the contexts that are left, since a knot may be a value of one that is not. So all models are
    fitted anew, in a thread, to the rows that are left, and replaced by `MixtureEngine.finish_refits`. Losses of the
    experts and sums of rewards stay.
    """
    state = engine.state
    erased = _erase_seen(engine, steps) + sum(_erase_rows(sample, steps) for sample in engine.samples)
    state.fresh_knots[...], state.fresh_levels[...] = engine.settings.first_levels()
    if state.seen_counts[0] > 1:
        set_levels(state.pointer_table)
    engine.start_refits()
    return erased


def _erase_seen(engine: MixtureEngine, steps: Array) -> int:
    state, stored = engine.state, int(engine.state.seen_counts[0])
    kept = ~np.isin(state.seen_steps[:stored], steps)
    state.seen_counts[0] = _keep([state.seen, state.seen_keys, state.seen_steps], kept)
    return int((~kept).sum())


def _erase_rows(sample: Sample, steps: Array) -> int:
    counts, stored = sample.counts, int(sample.counts[ROWS])
    kept = ~np.isin(sample.steps[:stored], steps)
    for field in (FITTED, STARTED):
        if counts[field] != NONE:
            counts[field] = kept[: counts[field]].sum()
    counts[ROWS] = _keep([getattr(sample, name) for name in ROWS_OF], kept)
    return int((~kept).sum())


def _keep(arrays: list[Array], kept: Array) -> int:
    """Keep some of the first rows of arrays, and return their number; all others become 0, also those out of use."""
    left = int(kept.sum())
    for array in arrays:
        array[:left] = array[: len(kept)][kept]
        array[left:] = 0
    return left
