"""Passes of an executor's workers over all parts of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from releaf.arrays import Array
from releaf.core.releaf import summing
from releaf.decision import ActionName
from releaf.executors import Executor
from releaf.features import Quantile
from releaf.streams.batches import LogPart
from releaf.train import histogram, log_summary
from releaf.train.fit_tasks import Histograms, LogColumns, Ranges, ReadJob, count_quantile_values, summarize_parts
from releaf.train.log_summary import LogSummary

MAX_TASKS = 256
MAX_TASK_ROWS = 2**22  # if the log needs more than MAX_TASKS tasks
FitProgress = Callable[[str, int, int], None]  # name of the pass, rows done, rows in total


class LogPasses:
    """The passes over one log.

    Parameters
    ----------
    parts
        All parts of the log.
    columns
        What is read of it.
    actions
        The actions, if they are given.
    executor
        Runs a task for each group of parts.
    progress
        Called with the name of a pass, the rows done and the rows in total.
    """

    def __init__(
        self,
        parts: list[LogPart],
        columns: LogColumns,
        actions: tuple[ActionName, ...],
        executor: Executor,
        progress: FitProgress,
    ) -> None:
        self._groups = _group_parts(parts)
        self._executor, self._progress = executor, progress
        self.rows = sum(part.rows for part in parts)
        self.job = ReadJob(columns, actions=actions)
        self._check_row_count()

    @property
    def longest_task(self) -> int:
        """Most rows of a task."""
        return max(sum(part.rows for part in parts) for parts in self._groups)

    def run(self, what: str, function: Callable[..., Any], *arguments: Any) -> Iterable[Any]:
        """Call a function with arguments and each group of parts; yields results as they complete."""
        sizes = [sum(part.rows for part in parts) for parts in self._groups]
        return (result for _, result in self._map(what, partial(function, *arguments), self._groups, sizes))

    def map(self, what: str, function: Callable[[Any], Any], tasks: list[Any], sizes: list[int]) -> list[Any]:
        """Results of other tasks than reading the log, in their order; ``sizes`` are their rows."""
        results = dict(self._map(what, function, tasks, sizes))
        return [results[index] for index in range(len(tasks))]

    def _map(
        self, what: str, function: Callable[[Any], Any], tasks: list[Any], sizes: list[int]
    ) -> Iterable[tuple[int, Any]]:
        done, total = 0, sum(sizes)
        self._progress(what, 0, total)
        for index, result in self._executor.map(function, tasks):
            done += sizes[index]
            self._progress(what, done, total)
            yield index, result

    # --- passes for all policies --------------------------------------------------------------------------------

    def rank_quantiles(self) -> dict[str, Array] | None:
        """Rank the values of quantile features among all of the log; returns the state of the encoder that does."""
        schema = self.job.columns.schema
        indices = [index for index, feature in enumerate(schema.features) if isinstance(feature, Quantile)]
        if not indices:
            return None
        found = self._count("ranking", count_quantile_values, (histogram.ALL_KEYS,) * len(indices))
        found = self.refine("ranking frequent values", count_quantile_values, found)
        encoder = {
            f"quantile{index}": histogram.to_quantile_sketch(bins, getattr(schema.features[index], "size", 0))
            for index, bins in zip(indices, found, strict=True)
        }
        self.job = self.job._replace(encoder=encoder)
        return encoder

    def summarize(self, new_tally: Callable[[], Any]) -> tuple[LogSummary, Any]:
        """Summary of the log, and the policy's own tally of all rows."""
        seen, tally = log_summary.EMPTY, new_tally()
        for found, counted in self.run("counting", summarize_parts, self.job, new_tally):
            seen = log_summary.merge(seen, found)
            tally.merge(counted)
            if not self.job.actions:
                log_summary.check_action_count(seen, self.job.columns.action)
        if not seen.rows:
            raise ValueError(f"none of the {seen.left_out:,} rows can be used; the first: {seen.problems[0][2]}")
        return seen, tally

    def refine(self, what: str, function: Callable[..., Histograms], counted: Histograms) -> Histograms:
        """Refine heavy bins of histograms in further passes until none is left."""
        while any(heavy := tuple(histogram.heavy_ranges(own) for own in counted)):
            finer = self._count(what, function, heavy)
            counted = [histogram.refine(*pair) for pair in zip(counted, finer, strict=True)]
        return counted

    def _count(self, what: str, function: Callable[..., Histograms], ranges: Ranges) -> Histograms:
        """Histograms over all parts."""
        totals = [histogram.EMPTY] * len(ranges)
        for counted in self.run(what, function, self.job, ranges):
            totals = histogram.merge_each(totals, counted)
        return totals

    def _check_row_count(self) -> None:
        weighted = self.job.columns.probability is not None
        most = summing.MOST_WEIGHTED_ROWS if weighted else summing.MOST_ROWS
        if self.rows > most:
            raise ValueError(
                f"the log has {self.rows:,} rows, and up to {most:,} can be summed"
                f"{' with probabilities' if weighted else ''}: fit parts of it separately, and merge the learners"
            )


def _group_parts(parts: list[LogPart]) -> list[tuple[LogPart, ...]]:
    """Groups of parts, one per task: few enough that transferring results does not dominate."""
    count = min(len(parts), max(MAX_TASKS, sum(part.rows for part in parts) // MAX_TASK_ROWS))
    return [tuple(parts[number::count]) for number in range(count)]
