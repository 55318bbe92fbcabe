"""Tasks of a parallel fit that all policies share: a worker reads, encodes and summarizes some parts of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from releaf.arrays import Array
from releaf.core.releaf.cells import GRAIN
from releaf.core.releaf.summing import HEAVIEST, WEIGHT_GRAIN, WEIGHTED_GRAIN
from releaf.decision import ActionName
from releaf.features import Quantile
from releaf.schema import Schema
from releaf.streams.batches import Batch, LogPart, read_parts
from releaf.streams.data_files import UnusableRowError, errors_with_path
from releaf.train import histogram, log_summary
from releaf.train.log_summary import LogSummary, action_key
from releaf.train.sequential import MAX_PROBLEMS, ActionRows, indexed_actions

LogParts = tuple[LogPart, ...]
Histograms = list[histogram.KeyHistogram]
Ranges = tuple[histogram.KeyRanges, ...]


class LogColumns(NamedTuple):
    """Names of the log's columns, whether to skip unusable rows, and the range of rewards."""

    schema: Schema
    action: str
    reward: str
    probability: str | None
    skip_bad: bool
    reward_range: tuple[float, float] = (0.0, 1.0)


class ReadJob(NamedTuple):
    """How the workers read the log."""

    columns: LogColumns
    encoder: dict[str, Array] | None = None  # state of the quantile encoder
    actions: tuple[ActionName, ...] = ()  # if they are known


class EncodedRows(NamedTuple):
    """Usable rows of a batch."""

    units: Array  # encoded contexts
    labels: list[ActionName]  # the different actions
    taken: Array  # index of each row's action among them
    rewards: Array  # scaled to [0, 1]
    weights: Array | None  # inverse propensities, clipped
    cut: int  # number of clipped ones

    def indices_among(self, actions: tuple[ActionName, ...]) -> Array:
        """Index of each row's action among all actions."""
        index_of = {label: index for index, label in enumerate(actions)}
        found: Array = np.array([index_of[label] for label in self.labels], dtype=np.int64)[self.taken]
        return found

    def observed(self) -> Array:
        """Fixed-point columns to sum: 1 and the reward r; with weights also the weight w, and w·r."""
        columns = [np.ones(len(self.rewards)), self.rewards / GRAIN]
        if self.weights is not None:
            columns += [self.weights / WEIGHT_GRAIN, self.weights * self.rewards / WEIGHTED_GRAIN]
        return np.floor(np.column_stack(columns) + 0.5).astype(np.int64)


class Tally(Protocol):
    """What a policy counts in the first pass over a log."""

    def add(self, rows: EncodedRows) -> None:
        """Count rows."""

    def merge(self, other: Self) -> None:
        """Count what another tally has counted."""


def count_quantile_values(job: ReadJob, ranges: Ranges, parts: LogParts) -> Histograms:
    """Histograms of the values of all quantile features."""
    schema = job.columns.schema
    names = [name for name, feature in zip(schema.names, schema.features, strict=True) if isinstance(feature, Quantile)]
    keys = ([histogram.keys_of(_numbers(batch, name)) for name in names] for _, batch, _ in _batches(job, parts))
    return histograms_of(keys, ranges)


def histograms_of(batches: Iterable[list[Array]], ranges: Ranges) -> Histograms:
    """Histograms of the columns of all batches within ranges."""
    totals = [histogram.EMPTY] * len(ranges)
    for columns in batches:
        totals = histogram.merge_each(totals, map(histogram.histogram_of, columns, ranges))
    return totals


def summarize_parts(job: ReadJob, new_tally: Callable[[], Any], parts: LogParts) -> tuple[LogSummary, Any]:
    """Summary of the parts, with the actions and the problems of unusable rows, and a tally of their rows."""
    seen, tally = log_summary.EMPTY, new_tally()
    for part, batch, probabilities in _batches(job, parts):
        rows = _encoded(job, batch, probabilities)
        tally.add(rows)
        summary = LogSummary(
            labels={action_key(label): part.path for label in rows.labels},
            actions={
                action_key(label): ActionRows(0, 0.0).add(batch.rewards[rows.taken == index])
                for index, label in enumerate(rows.labels)
            },
            rows=len(batch.rewards),
            left_out=len(batch.problems),
            cut=rows.cut,
            problems=[(part.path, line, why) for line, why in batch.problems[:MAX_PROBLEMS]],
        )
        seen = log_summary.merge(seen, summary)
        if not job.actions:
            log_summary.check_action_count(seen, job.columns.action)
    return seen, tally


def encoded_rows(job: ReadJob, parts: LogParts) -> Iterator[EncodedRows]:
    """The usable rows of the parts, in batches."""
    return (_encoded(job, batch, probabilities) for _, batch, probabilities in _batches(job, parts))


def _batches(job: ReadJob, parts: LogParts) -> Iterator[tuple[LogPart, Batch, Array | None]]:
    """Batches of the parts with their propensities; unusable rows raise, or are skipped with ``skip_bad``."""
    columns = job.columns
    for part in parts:
        with errors_with_path(part.path):
            for _, batch, probabilities in read_parts(
                [part],
                columns.schema,
                action=columns.action,
                reward=columns.reward,
                probability=columns.probability,
                actions=job.actions,
                reward_range=columns.reward_range,
            ):
                if batch.problems and not columns.skip_bad:
                    line, why = batch.problems[0]
                    raise UnusableRowError(f"{part.path}, row {line}: {why}")
                yield part, batch, probabilities


def _encoded(job: ReadJob, batch: Batch, probabilities: Array | None) -> EncodedRows:
    encoder = job.columns.schema.encoder()
    if job.encoder is not None:
        encoder.restore(job.encoder)
    low, high = job.columns.reward_range
    rewards = batch.rewards if (low, high) == (0.0, 1.0) else (batch.rewards - low) / (high - low)
    weights, cut = None, 0
    if probabilities is not None:
        weights = 1.0 / probabilities
        cut = int((weights > HEAVIEST).sum())
        weights = np.minimum(weights, HEAVIEST)
    labels, taken = indexed_actions(batch.actions)
    return EncodedRows(encoder.encode_many(batch.contexts, learns=False), labels, taken, rewards, weights, cut)


def _numbers(batch: Batch, name: str) -> Array:
    column = batch.contexts.columns[name]
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiu":
        return column.astype(np.float64)
    return np.array([np.nan if value is None else value for value in column], dtype=np.float64)
