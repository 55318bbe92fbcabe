"""Tasks of a parallel fit: what a worker computes from some parts of a log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.releaf import summing
from releaf.core.releaf.cells import GRAIN
from releaf.decision import ActionName
from releaf.features import Quantile
from releaf.schema import Schema
from releaf.streams.batches import Batch, LogPart, read_parts
from releaf.streams.data_files import errors_with_path
from releaf.train import histogram, log_summary, sampling
from releaf.train.log_summary import LogSummary
from releaf.train.sequential import MAX_PROBLEMS

LogParts = tuple[LogPart, ...]
Histograms = list[histogram.KeyHistogram]


class LogColumns(NamedTuple):
    """Names of the log's columns, and whether to skip unusable rows."""

    schema: Schema
    action: str
    reward: str
    probability: str | None
    skip_bad: bool


class FitJob(NamedTuple):
    """Arguments of one pass over the log; all workers share it."""

    columns: LogColumns
    encoder: dict[str, Array] | None = None  # state of the quantile encoder
    actions: tuple[ActionName, ...] = ()
    categories: Array | None = None
    stretches: Array | None = None
    layout: summing.SumsLayout | None = None
    last: bool = False  # whether to draw a sample of contexts too
    ranges: tuple[histogram.KeyRanges, ...] = ()  # keys to count, per histogram
    frequent: Array = sampling.NO_HASHES  # hashes of frequent rows


def count_quantile_values(job: FitJob, parts: LogParts) -> Histograms:
    """Histograms of the values of all quantile features."""
    schema = job.columns.schema
    names = [name for name, feature in zip(schema.names, schema.features, strict=True) if isinstance(feature, Quantile)]
    keys = ([histogram.keys_of(_numbers(batch, name)) for name in names] for _, batch, _ in _batches(job, parts))
    return _histograms(job, keys)


def count_row_hashes(job: FitJob, parts: LogParts) -> Histograms:
    """KeyHistogram of the hashes of encoded rows."""
    return _histograms(job, ([sampling.hash_rows(_units(job, batch))] for _, batch, _ in _batches(job, parts)))


def _histograms(job: FitJob, batches: Iterable[list[Array]]) -> Histograms:
    totals = [histogram.EMPTY] * len(job.ranges)
    for columns in batches:
        totals = histogram.merge_each(totals, map(histogram.histogram_of, columns, job.ranges))
    return totals


def summarize_part(job: FitJob, parts: LogParts) -> LogSummary:
    """Summary of the parts: counts of values and rows, the actions, and the problems of unusable rows."""
    assert job.stretches is not None
    counts = np.zeros((len(job.stretches), int(job.stretches.max()) + 1), dtype=np.int64)
    seen = log_summary.EMPTY
    for part, batch, probabilities in _batches(job, parts):
        units = _units(job, batch)
        summing.count_values(units, job.categories, job.stretches, counts)
        taken = np.unique(batch.actions).tolist() if isinstance(batch.actions, np.ndarray) else set(batch.actions)
        summary = log_summary.EMPTY._replace(
            labels={(log_summary.type_name(label), label): part.path for label in taken},
            rows=len(batch.rewards),
            left_out=len(batch.problems),
            cut=0 if probabilities is None else int((1.0 / probabilities > summing.HEAVIEST).sum()),
            problems=[(part.path, line, why) for line, why in batch.problems[:MAX_PROBLEMS]],
            row_hashes=histogram.histogram_of(sampling.hash_rows(units)),
        )
        seen = log_summary.merge(seen, summary)
        if not job.actions:
            log_summary.check_action_count(seen, job.columns.action)
    return seen._replace(counts=counts)


def sum_part(job: FitJob, parts: LogParts) -> tuple[summing.Sums, sampling.Sample]:
    """Counts and sums of rewards per observed cell of a layout, and a sample of contexts."""
    layout, columns = job.layout, job.columns
    assert layout is not None
    sums = summing.LogSummer(layout, len(job.actions), reward_columns(columns))
    position = {label: index for index, label in enumerate(job.actions)}
    drawn = sampling.empty_sample(len(columns.schema))
    for _, batch, probabilities in read_parts(parts, columns.schema, **_names(columns)):
        units = _units(job, batch)
        labels = batch.actions.tolist() if isinstance(batch.actions, np.ndarray) else batch.actions
        taken = np.fromiter((position[label] for label in labels), dtype=np.int64, count=len(labels))
        leaves = np.empty(units.shape, dtype=np.int32)
        summing.find_leaves(units, job.categories, job.stretches, layout.leaf_of, leaves)
        sums.add(leaves, taken, _observed(batch.rewards, probabilities))
        if job.last:
            drawn = sampling.merge(drawn, sampling.draw(units, job.frequent))
    return sums.total(), drawn


def reward_columns(columns: LogColumns) -> int:
    """Number of values summed per row."""
    return 2 if columns.probability is None else 4


def _observed(rewards: Array, probabilities: Array | None) -> Array:
    """Fixed-point columns to sum: 1 and the reward r; with probabilities also the weight w = 1 / p, and w·r."""
    columns = [np.ones(len(rewards)), rewards / GRAIN]
    if probabilities is not None:
        heavy = np.minimum(1.0 / probabilities, summing.HEAVIEST)
        columns += [heavy / summing.WEIGHT_GRAIN, heavy * rewards / summing.WEIGHTED_GRAIN]
    return np.floor(np.column_stack(columns) + 0.5).astype(np.int64)


def _names(columns: LogColumns) -> dict[str, Any]:
    return {"action": columns.action, "reward": columns.reward, "probability": columns.probability}


def _batches(job: FitJob, parts: LogParts) -> Iterable[tuple[LogPart, Batch, Any]]:
    """Batches of the parts with their propensities; unusable rows raise, or are skipped with ``skip_bad``."""
    for part in parts:
        with errors_with_path(part.path):
            for _, batch, probabilities in read_parts([part], job.columns.schema, **_names(job.columns)):
                if batch.problems and not job.columns.skip_bad:
                    line, why = batch.problems[0]
                    raise ValueError(f"{part.path}, row {line}: {why}")
                yield part, batch, probabilities


def _units(job: FitJob, batch: Batch) -> Array:
    encoder = job.columns.schema.encoder()
    if job.encoder is not None:
        encoder.restore(job.encoder)
    return encoder.encode_many(batch.contexts, learns=False)


def _numbers(batch: Batch, name: str) -> Array:
    column = batch.contexts.columns[name]
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiu":
        return column.astype(np.float64)
    return np.array([np.nan if value is None else value for value in column], dtype=np.float64)
