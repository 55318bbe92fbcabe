"""Learn from a log of any size, many parts of it at once: the same learner, bit for bit, however the work is divided.

The log is read twice. First the values of every feature are counted on a fine grid; from the counts of all parts follow
the partitions, by the paper's rule on the number of arrivals. Then the rewards are summed in all cells of these
partitions, none thrown away. Both are sums of whole numbers, so the order of files and the number of workers make no
difference. Quantiles, where there are some, come from counts too, in a reading before the other two; where a value is
very frequent, a further reading tells it from its neighbours.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from releaf.core.releaf import summing
from releaf.core.releaf.cells import GRAIN
from releaf.core.releaf.engine import EngineSettings
from releaf.core.releaf.merging import Leaves, Rows
from releaf.decision import ActionName
from releaf.executors import Executor, Local
from releaf.features import Quantile
from releaf.policies import Releaf
from releaf.schema import Features, Schema
from releaf.streams.batches import Batch, Part, parts_of, read_parts, require_apart
from releaf.streams.files import named_errors
from releaf.train import counting, looked, sampling
from releaf.train.looked import Looked
from releaf.train.stream import SHOWN, Report

Array = np.ndarray[Any, np.dtype[Any]]
MOST_TASKS = 256
MOST_ROWS = 2**22  # of a task, where there are more than so many tasks
MOST_CELLS = 2**22  # that a worker sums at a time, for all actions together: 100 MB, or near twice that with weights
Parts = tuple[Part, ...]
Cells = list[counting.Cells]
Progress = Callable[[str, int, int], None]


class Columns(NamedTuple):
    """Where in the log things stand, and what is done with rows that can't be used."""

    schema: Schema
    action: str
    reward: str
    probability: str | None
    skip_bad: bool


class Job(NamedTuple):
    """What is to be done with all parts of the log; workers share it."""

    columns: Columns
    encoder: dict[str, Array] | None = None  # the quantiles
    actions: tuple[ActionName, ...] = ()
    categories: Array | None = None
    places: Array | None = None
    layout: summing.SumsLayout | None = None
    last: bool = False  # whether to draw a sample of contexts too
    ranges: tuple[counting.Ranges, ...] = ()  # what to count, of each feature that is ranked or of rows
    often: Array = sampling.NONE  # the hashes of rows that are often there


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
    progress: Progress | None = None,
    **parameters: Any,
) -> Releaf:
    """A :class:`releaf.Releaf` that knows what a log of any size tells; it goes on learning online, or in the service.

    Unlike :func:`releaf.train.learn_file`, which lives through a log row by row, this sums all rows on the partitions
    that all of them lead to, so that nothing is forgotten when an interval splits; and parts of the log are summed at
    the same time, on this machine's cores or a cluster's. The result is the same, bit for bit, for any number of
    workers and any order of files and rows.

    The ranks of :class:`releaf.Quantile` features are those among all values of the log, to about a thousandth.

    Rewards count as multiples of 2⁻²⁶ and are summed as whole numbers, up to 2³⁷ rows, or 2³³ with ``probability``; a
    log with more raises. A learner keeps 53 bits of a sum, and counts 2³¹ - 1 rewards of an action in a cell at most:
    one that has more gets that count and the mean of all. Memory follows the cells that were observed.

    Parameters
    ----------
    dataset
        A Parquet file, a folder of them, a pattern such as ``"logs/*.parquet"``, or several of these. A file counts
        once, however often it is given. Columns are read from files, not from the names of folders (``day=1/``).
    features
        As for :class:`releaf.Releaf`; names are those of the columns.
    actions
        The actions that there are; those of the log, in their order, when None: a thousand at most, and of one kind.
    action, reward
        The columns of the action taken, and of its reward, from 0 to 1.
    probability
        The column of the probability with which the action was taken. Where it is given, rewards are weighted by its
        inverse, so that what the log preferred does not count for more within an interval. No reward weighs more than
        1,024: where an action was less probable, ``report.cut`` counts the row.
    executor
        Where to work; on this machine's cores when None. These are processes, so a script calls this under
        ``if __name__ == "__main__":``; with ``Local(1)`` it need not.
    skip_bad
        Leave out rows that can't be used. Otherwise the first of them raises, with its file and row.
    report
        Is told what became of the rows.
    progress
        Told what is being done, how many rows are done, and how many there are.
    **parameters
        Of the learner, such as ``seed`` and ``rho``.
    """
    columns = Columns(Schema.of(features), action, reward, probability, skip_bad)
    require_apart(columns.schema.names, reward=reward, action=action, probability=probability)
    parts = _all_parts(dataset)
    work = _Work(parts, columns, executor or Local(), progress or (lambda what, done, total: None))
    encoder = work.quantiles()
    parameters = {"seed": 0, **parameters}  # the same learner for everyone
    settings = Releaf(actions or 2, columns.schema, **parameters)._engine.settings
    seen = work.look(encoder, actions, settings)
    labels = looked.actions_of(seen, actions, action)
    report = report if report is not None else Report()
    report.learnt, report.left_out, report.cut = seen.rows, seen.left_out, seen.cut
    report.problems = [(line, f"{path}: {why}") for path, line, why in sorted(seen.problems)[:SHOWN]]
    learner = Releaf(labels, columns.schema, **parameters)
    leaves = summing.partitions(settings, seen.counts)
    rows, sample = work.sum(encoder, labels, settings, leaves)
    known = summing.sufficient_statistics(leaves, rows, seen.rows, len(labels))
    fitted = learner._with_statistics(known)
    fitted._token = 0  # of a learner that anyone would have made of this log
    if encoder is not None:
        fitted._encoder.restore(encoder)
    if len(sample):
        fitted._engine.tally_relevance(sample)
    return fitted


def files_of(dataset: Any) -> list[str]:
    """The Parquet files that are meant, in the order of their names."""
    given = [dataset] if isinstance(dataset, str | os.PathLike) else list(dataset)
    files: dict[str, str] = {}  # one file may be given by several spellings of its path
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
    """Tell what is no Parquet file by its first bytes, before any work is done."""
    with open(path, "rb") as file:
        if file.read(4) != b"PAR1":
            raise ValueError(
                f"{path} is no Parquet file, which a log must be to be read in parts. Write it as Parquet, or let a "
                "learner go through it row by row: releaf.train.learn_file, or releaf train without --workers and --ray"
            )


def _all_parts(dataset: Any) -> list[Part]:
    files = files_of(dataset)
    parts = []
    for path in files:
        with named_errors(path):
            parts += parts_of(path)
    if not sum(part.rows for part in parts):
        raise ValueError(f"the log has no rows: {', '.join(files[:3])}")
    return parts


class _Work:
    """The readings of one log."""

    def __init__(self, parts: list[Part], columns: Columns, executor: Executor, progress: Progress) -> None:
        self._groups = _grouped(parts)
        self._columns, self._executor, self._progress = columns, executor, progress
        self._total = sum(part.rows for part in parts)
        self._often = sampling.NONE
        self._require_not_too_many()

    def _run(self, what: str, function: Callable[[Job, Parts], Any], job: Job) -> Iterable[Any]:
        """The results for all groups of parts, as they are done."""
        done = 0
        self._progress(what, 0, self._total)
        for place, result in self._executor.map(partial(function, job), self._groups):
            done += sum(part.rows for part in self._groups[place])
            self._progress(what, done, self._total)
            yield result

    def quantiles(self) -> dict[str, Array] | None:
        """What the quantiles of the log are, as an encoder keeps them; None where no feature asks for them."""
        schema = self._columns.schema
        places = [place for place, feature in enumerate(schema.features) if isinstance(feature, Quantile)]
        if not places:
            return None
        job = Job(self._columns, ranges=(counting.EVERYTHING,) * len(places))
        found = self._counted("ranking", rank_part, job)
        found = self._refined("ranking frequent values", rank_part, job, found)
        return {
            f"quantile{place}": counting.as_sketch(cells, getattr(schema.features[place], "size", 0))
            for place, cells in zip(places, found, strict=True)
        }

    def _counted(self, what: str, function: Callable[[Job, Parts], Cells], job: Job) -> Cells:
        """The cells of what is counted, in all parts together."""
        cells = [counting.NOTHING] * len(job.ranges)
        for found in self._run(what, function, job):
            cells = [counting.joined(*pair) for pair in zip(cells, found, strict=True)]
        return cells

    def _refined(self, what: str, function: Callable[[Job, Parts], Cells], job: Job, cells: Cells) -> Cells:
        """The same cells without heavy ones, which are looked into until there are none."""
        while any(heavy := [counting.heavy(own) for own in cells]):
            finer = self._counted(what, function, job._replace(ranges=tuple(heavy)))
            cells = [counting.refined(*pair) for pair in zip(cells, finer, strict=True)]
        return cells

    def look(
        self, encoder: dict[str, Array] | None, actions: Sequence[ActionName] | None, settings: EngineSettings
    ) -> Looked:
        """Count the values of all features, and find the actions."""
        categories, places = np.array(settings.categories), summing.stretches(settings)
        job = Job(self._columns, encoder, tuple(actions or ()), categories, places)
        seen = looked.NOTHING
        for found in self._run("counting", look_part, job):
            seen = looked.both(seen, found)
            if actions is None:
                looked.require_few(seen, self._columns.action)
        if not seen.rows:
            raise ValueError(f"none of the {seen.left_out:,} rows can be used; the first: {seen.problems[0][2]}")
        job = Job(self._columns, encoder, ranges=(counting.EVERYTHING,))
        cells = self._refined("counting frequent rows", often_part, job, [seen.cells])
        self._often = counting.frequent(cells[0])
        return seen

    def sum(
        self,
        encoder: dict[str, Array] | None,
        actions: tuple[ActionName, ...],
        settings: EngineSettings,
        leaves: tuple[Leaves, ...],
    ) -> tuple[Rows, Array]:
        """The cells that were observed, and a sample of encoded contexts."""
        longest = max(sum(part.rows for part in parts) for parts in self._groups)
        blocks = summing.layouts(settings, leaves, len(actions), longest, MOST_CELLS)
        categories, places = np.array(settings.categories), summing.stretches(settings)
        job = Job(self._columns, encoder, actions, categories, places, often=self._often)
        rows, drawn = [], sampling.nothing(len(leaves))
        for number, layout in enumerate(blocks, 1):
            what = "summing" if len(blocks) == 1 else f"summing, block {number} of {len(blocks)}"
            tally = summing.SparseSums(layout.entries, _width(self._columns))
            given = job._replace(layout=layout, last=number == len(blocks))
            for found, sample in self._run(what, sum_part, given):
                tally.add(found)
                drawn = sampling.joined(drawn, sample)
            rows.append(summing.observed_rows(layout, len(actions), tally.total()))
        return summing.all_rows(rows), sampling.in_proportion(drawn)

    def _require_not_too_many(self) -> None:
        weighted = self._columns.probability is not None
        most = summing.MOST_WEIGHTED_ROWS if weighted else summing.MOST_ROWS
        if self._total > most:
            raise ValueError(
                f"the log has {self._total:,} rows, and up to {most:,} can be summed"
                f"{', where there are probabilities' if weighted else ''}: fit its weeks one by one, and merge the fits"
            )


def _grouped(parts: list[Part]) -> list[tuple[Part, ...]]:
    """Parts for one task each: not so many that handing results over takes longer than the work."""
    count = min(len(parts), max(MOST_TASKS, sum(part.rows for part in parts) // MOST_ROWS))
    return [tuple(parts[number::count]) for number in range(count)]


# --- what workers do ----------------------------------------------------------------------------------------


def rank_part(job: Job, parts: Parts) -> Cells:
    """Count the values of features that are ranked."""
    schema = job.columns.schema
    names = [name for name, feature in zip(schema.names, schema.features, strict=True) if isinstance(feature, Quantile)]
    found = ([counting.keys_of(_numbers(batch, name)) for name in names] for _, batch, _ in _batches(job, parts))
    return _cells(job, found)


def often_part(job: Job, parts: Parts) -> Cells:
    """Count rows by their hashes."""
    return _cells(job, ([sampling.hashes_of(_units(job, batch))] for _, batch, _ in _batches(job, parts)))


def _cells(job: Job, batches: Iterable[list[Array]]) -> Cells:
    cells = [counting.NOTHING] * len(job.ranges)
    for columns in batches:
        found = map(counting.counted, columns, job.ranges)
        cells = [counting.joined(*pair) for pair in zip(cells, found, strict=True)]
    return cells


def look_part(job: Job, parts: Parts) -> Looked:
    """Count values and rows, and find the actions, and what is wrong with rows that can't be used."""
    assert job.places is not None
    counts = np.zeros((len(job.places), int(job.places.max()) + 1), dtype=np.int64)
    seen = looked.NOTHING
    for part, batch, chances in _batches(job, parts):
        units = _units(job, batch)
        summing.count_values(units, job.categories, job.places, counts)
        taken = np.unique(batch.actions).tolist() if isinstance(batch.actions, np.ndarray) else set(batch.actions)
        found = looked.NOTHING._replace(
            labels={(looked.kind_of(label), label): part.path for label in taken},
            rows=len(batch.rewards),
            left_out=len(batch.problems),
            cut=0 if chances is None else int((1.0 / chances > summing.HEAVIEST).sum()),
            problems=[(part.path, line, why) for line, why in batch.problems[:SHOWN]],
            cells=counting.counted(sampling.hashes_of(units)),
        )
        seen = looked.both(seen, found)
        if not job.actions:
            looked.require_few(seen, job.columns.action)
    return seen._replace(counts=counts)


def sum_part(job: Job, parts: Parts) -> tuple[summing.Sums, sampling.Sample]:
    """Counts and sums of rewards in the cells of a layout that were observed, and a sample of contexts."""
    layout, columns = job.layout, job.columns
    assert layout is not None
    sums = summing.LogSummer(layout, len(job.actions), _width(columns))
    position = {label: place for place, label in enumerate(job.actions)}
    drawn = sampling.nothing(len(columns.schema))
    for _, batch, chances in read_parts(parts, columns.schema, **_names(columns)):
        units = _units(job, batch)
        labels = batch.actions.tolist() if isinstance(batch.actions, np.ndarray) else batch.actions
        taken = np.fromiter((position[label] for label in labels), dtype=np.int64, count=len(labels))
        leaves = np.empty(units.shape, dtype=np.int32)
        summing.find_leaves(units, job.categories, job.places, layout.leaf_of, leaves)
        sums.add(leaves, taken, _observed(batch.rewards, chances))
        if job.last:
            drawn = sampling.joined(drawn, sampling.draw(units, job.often))
    return sums.total(), drawn


def _width(columns: Columns) -> int:
    """How many numbers are summed."""
    return 2 if columns.probability is None else 4


def _observed(rewards: Array, chances: Array | None) -> Array:
    """One, and the reward; with probabilities also their inverse, and the reward times it. All in whole grains."""
    columns = [np.ones(len(rewards)), rewards / GRAIN]
    if chances is not None:
        heavy = np.minimum(1.0 / chances, summing.HEAVIEST)
        columns += [heavy / summing.WEIGHT_GRAIN, heavy * rewards / summing.WEIGHTED_GRAIN]
    return np.floor(np.column_stack(columns) + 0.5).astype(np.int64)


def _names(columns: Columns) -> dict[str, Any]:
    return {"action": columns.action, "reward": columns.reward, "probability": columns.probability}


def _batches(job: Job, parts: Parts) -> Iterable[tuple[Part, Batch, Any]]:
    """The rows of parts, and the probabilities of their actions; those that can't be used raise, or are left out."""
    for part in parts:
        with named_errors(part.path):
            yield from _usable(job, part)


def _usable(job: Job, part: Part) -> Iterable[tuple[Part, Batch, Any]]:
    for _, batch, chances in read_parts([part], job.columns.schema, **_names(job.columns)):
        if batch.problems and not job.columns.skip_bad:
            line, why = batch.problems[0]
            raise ValueError(f"{part.path}, row {line}: {why}")
        yield part, batch, chances


def _units(job: Job, batch: Batch) -> Array:
    encoder = job.columns.schema.encoder()
    if job.encoder is not None:
        encoder.restore(job.encoder)
    return encoder.encode_many(batch.contexts, learns=False)


def _numbers(batch: Batch, name: str) -> Array:
    column = batch.contexts.columns[name]
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiu":
        return column.astype(np.float64)
    return np.array([np.nan if value is None else value for value in column], dtype=np.float64)
