"""`fit_log`: fit a learner to a log of any size in parallel, with the same result for any division of the work.

The first pass counts the values of every feature on a fine grid. The counts of all parts determine the partitions, by
the paper's rule on the number of arrivals. The second pass sums the rewards in all cells of these partitions. Both are
sums of integers, so neither the order of files nor the number of workers changes the result. Quantile features need
another pass before, which counts their values; frequent values need further passes that separate them from their
neighbours.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.core.releaf import summing
from releaf.core.releaf.engine import EngineSettings
from releaf.core.releaf.merging import Leaves, Rows
from releaf.decision import ActionName
from releaf.executors import Executor, Local
from releaf.features import Quantile
from releaf.policies import Releaf
from releaf.schema import Features, Schema
from releaf.streams.batches import LogPart, check_distinct_columns, parts_of
from releaf.streams.data_files import errors_with_path
from releaf.train import histogram, log_summary, sampling
from releaf.train.fit_tasks import (
    FitJob,
    Histograms,
    LogColumns,
    LogParts,
    count_quantile_values,
    count_row_hashes,
    reward_columns,
    sum_part,
    summarize_part,
)
from releaf.train.log_summary import LogSummary
from releaf.train.sequential import MAX_PROBLEMS, Report

MAX_TASKS = 256
MAX_TASK_ROWS = 2**22  # if the log needs more than MAX_TASKS tasks
MAX_CELLS = 2**22  # summed by a worker at a time, for all actions together: 100 MB, or nearly twice that with weights
FitProgress = Callable[[str, int, int], None]  # name of the pass, rows done, rows in total


def fit_log(
    dataset: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    features: Features,
    *,
    actions: Sequence[ActionName] | None = None,
    action: str = "action",
    reward: str = "reward",
    probability: str | None = None,
    executor: Executor | None = None,
    skip_bad: bool = False,
    report: Report | None = None,
    progress: FitProgress | None = None,
    **parameters: Any,
) -> Releaf:
    """Fit a :class:`releaf.Releaf` learner to a log of any size, in parallel. The learner can go on learning online.

    :func:`releaf.train.learn_file` replays a log row by row. This function sums all rows on the final partitions
    instead, so that no reward is lost when an interval splits. The parts of the log are summed in parallel, on this
    machine's cores or on a cluster. The result is identical, bit for bit, for any number of workers and any order of
    files and rows.

    Ranks of :class:`releaf.Quantile` features are computed over all values of the log, with an error of about 0.001.

    Rewards are rounded to multiples of 2⁻²⁶ and summed as integers, up to 2³⁷ rows, or 2³³ with ``probability``; a
    larger log raises. A learner stores 53 bits of a sum, and counts up to 2³¹ - 1 rewards of an action in a cell;
    a cell with more gets that count and the mean of all. Memory grows with the number of observed cells.

    Parameters
    ----------
    dataset
        A Parquet file, a folder of them, a pattern such as ``"logs/*.parquet"``, or several of these. A file counts
        once, however often it is given. Columns are read from files, not from the names of folders (``day=1/``).
    features
        As for :class:`releaf.Releaf`; names are those of the columns.
    actions
        The actions; when None, the sorted actions of the log: at most a thousand, and of one type.
    action, reward
        The columns of the action taken, and of its reward, from 0 to 1.
    probability
        The column of propensities. If given, rewards are weighted by inverse propensity, so that the logging policy's
        preferences within an interval cancel out. Weights are clipped at 1,024; ``report.cut`` counts the clipped rows.
    executor
        Where tasks run; this machine's cores when None. Workers are processes, so a script must call this function
        under ``if __name__ == "__main__":``, except with ``Local(1)``.
    skip_bad
        Skip unusable rows. Otherwise the first of them raises, with its file and row.
    report
        Filled with the numbers of learnt and skipped rows.
    progress
        Called with the name of the pass, the rows done and the rows in total.
    **parameters
        Parameters of the learner, such as ``seed`` and ``rho``.
    """
    columns = LogColumns(Schema.of(features), action, reward, probability, skip_bad)
    check_distinct_columns(columns.schema.names, reward=reward, action=action, probability=probability)
    parts = _all_parts(dataset)
    passes = _LogPasses(parts, columns, executor or Local(), progress or (lambda what, done, total: None))
    encoder = passes.quantiles()
    parameters = {"seed": 0, **parameters}  # so that the result is reproducible
    settings = Releaf(actions or 2, columns.schema, **parameters).engine_settings
    seen = passes.summarize(encoder, actions, settings)
    labels = log_summary.actions_of(seen, actions, action)
    report = report if report is not None else Report()
    report.learnt, report.left_out, report.cut = seen.rows, seen.left_out, seen.cut
    report.problems = [(line, f"{path}: {why}") for path, line, why in sorted(seen.problems)[:MAX_PROBLEMS]]
    learner = Releaf(labels, columns.schema, **parameters)
    leaves = summing.partitions(settings, seen.counts)
    rows, sample = passes.sum(encoder, labels, settings, leaves)
    known = summing.sufficient_statistics(leaves, rows, seen.rows, len(labels))
    return learner.with_statistics(known, quantiles=encoder, sample=sample)


def files_of(dataset: Any) -> list[str]:
    """The Parquet files of a dataset, sorted by path."""
    given = [dataset] if isinstance(dataset, str | os.PathLike) else list(dataset)
    files: dict[str, str] = {}  # by real path, since a path has several spellings
    for entry in given:
        found = _matching(os.fspath(entry))
        if not found:
            raise FileNotFoundError(f"there is no Parquet file at {entry}")
        for path in found:
            _require_parquet(path)
            files.setdefault(os.path.realpath(path), path)
    return [files[path] for path in sorted(files)]


def _matching(entry: str) -> list[str]:
    if os.path.isdir(entry):
        return [str(path) for path in Path(entry).glob("**/*.parquet")]
    return [entry] if os.path.exists(entry) else glob.glob(entry, recursive=True)


def _require_parquet(path: str) -> None:
    """Reject other files by their first bytes, before any work is done."""
    with open(path, "rb") as file:
        if file.read(4) != b"PAR1":
            raise ValueError(
                f"{path} is no Parquet file, which parallel training needs. Write it as Parquet, or train row by row: "
                "releaf.train.learn_file, or releaf train without --workers and --ray"
            )


def _all_parts(dataset: Any) -> list[LogPart]:
    files = files_of(dataset)
    parts = []
    for path in files:
        with errors_with_path(path):
            parts += parts_of(path)
    if not sum(part.rows for part in parts):
        raise ValueError(f"the log has no rows: {', '.join(files[:3])}")
    return parts


class _LogPasses:
    """The passes over one log."""

    def __init__(self, parts: list[LogPart], columns: LogColumns, executor: Executor, progress: FitProgress) -> None:
        self._groups = _group_parts(parts)
        self._columns, self._executor, self._progress = columns, executor, progress
        self._total = sum(part.rows for part in parts)
        self._frequent = sampling.NO_HASHES
        self._check_row_count()

    def _run(self, what: str, function: Callable[[FitJob, LogParts], Any], job: FitJob) -> Iterable[Any]:
        """Run a pass; yields the result of each group of parts as it completes."""
        done = 0
        self._progress(what, 0, self._total)
        for index, result in self._executor.map(partial(function, job), self._groups):
            done += sum(part.rows for part in self._groups[index])
            self._progress(what, done, self._total)
            yield result

    def quantiles(self) -> dict[str, Array] | None:
        """State of an encoder with the quantiles of the log; None without quantile features."""
        schema = self._columns.schema
        indices = [index for index, feature in enumerate(schema.features) if isinstance(feature, Quantile)]
        if not indices:
            return None
        job = FitJob(self._columns, ranges=(histogram.ALL_KEYS,) * len(indices))
        found = self._count("ranking", count_quantile_values, job)
        found = self._refine("ranking frequent values", count_quantile_values, job, found)
        return {
            f"quantile{index}": histogram.to_quantile_sketch(bins, getattr(schema.features[index], "size", 0))
            for index, bins in zip(indices, found, strict=True)
        }

    def _count(self, what: str, function: Callable[[FitJob, LogParts], Histograms], job: FitJob) -> Histograms:
        """Histograms over all parts."""
        totals = [histogram.EMPTY] * len(job.ranges)
        for counted in self._run(what, function, job):
            totals = histogram.merge_each(totals, counted)
        return totals

    def _refine(
        self, what: str, function: Callable[[FitJob, LogParts], Histograms], job: FitJob, counted: Histograms
    ) -> Histograms:
        """Refine heavy bins in further passes until none is left."""
        while any(heavy := [histogram.heavy_ranges(own) for own in counted]):
            finer = self._count(what, function, job._replace(ranges=tuple(heavy)))
            counted = [histogram.refine(*pair) for pair in zip(counted, finer, strict=True)]
        return counted

    def summarize(
        self, encoder: dict[str, Array] | None, actions: Sequence[ActionName] | None, settings: EngineSettings
    ) -> LogSummary:
        """Summary of the log: counts of the values of all features, and the actions."""
        categories, stretches = np.array(settings.categories), summing.stretches(settings)
        job = FitJob(self._columns, encoder, tuple(actions or ()), categories, stretches)
        seen = log_summary.EMPTY
        for found in self._run("counting", summarize_part, job):
            seen = log_summary.merge(seen, found)
            if actions is None:
                log_summary.check_action_count(seen, self._columns.action)
        if not seen.rows:
            raise ValueError(f"none of the {seen.left_out:,} rows can be used; the first: {seen.problems[0][2]}")
        job = FitJob(self._columns, encoder, ranges=(histogram.ALL_KEYS,))
        (hashes,) = self._refine("counting frequent rows", count_row_hashes, job, [seen.row_hashes])
        self._frequent = histogram.frequent_keys(hashes)
        return seen

    def sum(
        self,
        encoder: dict[str, Array] | None,
        actions: tuple[ActionName, ...],
        settings: EngineSettings,
        leaves: tuple[Leaves, ...],
    ) -> tuple[Rows, Array]:
        """The observed cells, and a sample of encoded contexts."""
        longest = max(sum(part.rows for part in parts) for parts in self._groups)
        blocks = summing.layouts(settings, leaves, len(actions), longest, MAX_CELLS)
        categories, stretches = np.array(settings.categories), summing.stretches(settings)
        job = FitJob(self._columns, encoder, actions, categories, stretches, frequent=self._frequent)
        rows, drawn = [], sampling.empty_sample(len(leaves))
        for number, layout in enumerate(blocks, 1):
            what = "summing" if len(blocks) == 1 else f"summing, block {number} of {len(blocks)}"
            tally = summing.SparseSums(layout.entries, reward_columns(self._columns))
            given = job._replace(layout=layout, last=number == len(blocks))
            for found, sample in self._run(what, sum_part, given):
                tally.add(found)
                drawn = sampling.merge(drawn, sample)
            rows.append(summing.observed_rows(layout, len(actions), tally.total()))
        return summing.all_rows(rows), sampling.resample(drawn)

    def _check_row_count(self) -> None:
        weighted = self._columns.probability is not None
        most = summing.MOST_WEIGHTED_ROWS if weighted else summing.MOST_ROWS
        if self._total > most:
            raise ValueError(
                f"the log has {self._total:,} rows, and up to {most:,} can be summed"
                f"{' with probabilities' if weighted else ''}: fit parts of it separately, and merge the learners"
            )


def _group_parts(parts: list[LogPart]) -> list[tuple[LogPart, ...]]:
    """Groups of parts, one per task: few enough that transferring results does not dominate."""
    count = min(len(parts), max(MAX_TASKS, sum(part.rows for part in parts) // MAX_TASK_ROWS))
    return [tuple(parts[number::count]) for number in range(count)]
