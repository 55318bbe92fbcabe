"""Parallel fit of `Releaf`: partitions from the counts of all values, then sums of rewards in their cells.

The first pass counts the values of every feature on a fine grid. The counts of all parts determine the partitions, by
the paper's rule on the number of arrivals. The second pass sums the rewards in all cells of these partitions. Both are
sums of integers, so neither the order of files nor the number of workers changes the result. Frequent contexts need
further passes that separate them from others of similar hash.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.releaf import summing
from releaf.core.releaf.engine import EngineSettings
from releaf.core.releaf.merging import Leaves, Rows
from releaf.decision import ActionName
from releaf.policies import Releaf
from releaf.train import context_sampling, histogram
from releaf.train.context_sampling import ContextSample
from releaf.train.fit_tasks import EncodedRows, Histograms, LogParts, Ranges, ReadJob, encoded_rows, histograms_of
from releaf.train.log_passes import LogPasses
from releaf.train.log_summary import LogSummary
from releaf.train.row_hashes import NO_HASHES, hash_rows

MAX_CELLS = 2**22  # summed by a worker at a time, for all actions together: 100 MB, or nearly twice that with weights


class ValueGrid(NamedTuple):
    """Grid on which values are counted."""

    categories: Array
    stretches: Array  # number of bins of each feature


class ValueTally:
    """Counts of the values of every feature on the grid, and a histogram of the hashes of contexts."""

    def __init__(self, grid: ValueGrid) -> None:
        self._grid, self.hashes = grid, histogram.EMPTY
        self.counts = np.zeros((len(grid.stretches), int(grid.stretches.max()) + 1), dtype=np.int64)

    def add(self, rows: EncodedRows) -> None:
        summing.count_values(rows.units, *self._grid, self.counts)
        self.hashes = histogram.merge(self.hashes, histogram.histogram_of(hash_rows(rows.units)))

    def merge(self, other: ValueTally) -> None:
        self.counts += other.counts
        self.hashes = histogram.merge(self.hashes, other.hashes)


class SumJob(NamedTuple):
    """Where rewards are summed."""

    read: ReadJob
    actions: tuple[ActionName, ...]
    grid: ValueGrid
    layout: summing.SumsLayout
    last: bool  # whether to draw a sample of contexts too
    frequent: Array = NO_HASHES  # hashes of frequent contexts


def fit_partitions(passes: LogPasses, prototype: Releaf, new_learner: Callable[[LogSummary], Releaf]) -> Releaf:
    """Fit a learner; ``new_learner`` makes one for the actions of a log."""
    settings = prototype.engine_settings
    grid = ValueGrid(np.array(settings.categories), summing.stretches(settings))
    seen, tally = passes.summarize(partial(ValueTally, grid))
    (hashes,) = passes.refine("counting frequent rows", count_context_hashes, [tally.hashes])
    learner, leaves = new_learner(seen), summing.partitions(settings, tally.counts)
    rows, sample = _sum(passes, learner.actions, settings, grid, leaves, histogram.frequent_keys(hashes))
    known = summing.sufficient_statistics(leaves, rows, seen.rows, len(learner.actions))
    return learner.with_statistics(known, quantiles=passes.job.encoder, sample=sample)


def _sum(
    passes: LogPasses,
    actions: tuple[ActionName, ...],
    settings: EngineSettings,
    grid: ValueGrid,
    leaves: tuple[Leaves, ...],
    frequent: Array,
) -> tuple[Rows, Array]:
    """The observed cells, and a sample of encoded contexts."""
    blocks = summing.layouts(settings, leaves, len(actions), passes.longest_task, MAX_CELLS)
    rows, drawn = [], context_sampling.empty_sample(len(leaves))
    for number, layout in enumerate(blocks, 1):
        what = "summing" if len(blocks) == 1 else f"summing, block {number} of {len(blocks)}"
        job = SumJob(passes.job, actions, grid, layout, number == len(blocks), frequent)
        tally = summing.SparseSums(layout.entries, _summed_columns(job))
        for found, sample in passes.run(what, sum_parts, job):
            tally.add(found)
            drawn = context_sampling.merge(drawn, sample)
        rows.append(summing.observed_rows(layout, len(actions), tally.total()))
    return summing.all_rows(rows), context_sampling.resample(drawn)


# --- tasks --------------------------------------------------------------------------------------------------


def count_context_hashes(job: ReadJob, ranges: Ranges, parts: LogParts) -> Histograms:
    """Histogram of the hashes of encoded contexts."""
    return histograms_of(([hash_rows(rows.units)] for rows in encoded_rows(job, parts)), ranges)


def sum_parts(job: SumJob, parts: LogParts) -> tuple[summing.Sums, ContextSample]:
    """Counts and sums of rewards per observed cell of a layout, and a sample of contexts."""
    sums = summing.LogSummer(job.layout, len(job.actions), _summed_columns(job))
    drawn = context_sampling.empty_sample(len(job.grid.categories))
    for rows in encoded_rows(job.read, parts):
        leaves = np.empty(rows.units.shape, dtype=np.int32)
        summing.find_leaves(rows.units, *job.grid, job.layout.leaf_of, leaves)
        sums.add(leaves, rows.indices_among(job.actions), rows.observed())
        if job.last:
            drawn = context_sampling.merge(drawn, context_sampling.draw(rows.units, job.frequent))
    return sums.total(), drawn


def _summed_columns(job: SumJob) -> int:
    """Number of values summed per row."""
    return 2 if job.read.columns.probability is None else 4
