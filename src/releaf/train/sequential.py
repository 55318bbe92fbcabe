"""`learn_file`: sequential training from a log that may be larger than memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.decision import ActionName
from releaf.policy import Policy
from releaf.progress import Progress, ProgressBar, report_progress
from releaf.streams.batches import ROWS, Batch, read_log
from releaf.streams.data_files import UnusableRowError
from releaf.streams.table_files import row_unit

MAX_ACTIONS = 1_000  # distinct values that a column of actions may plausibly have
MAX_PROBLEMS = 100  # unusable rows that a report lists one by one


class ActionRows(NamedTuple):
    """Number of learnt rows of an action, and their mean reward."""

    rows: int
    mean_reward: float

    def add(self, rewards: Array) -> ActionRows:
        """The same with further rewards."""
        rows = self.rows + len(rewards)
        return ActionRows(rows, (self.rows * self.mean_reward + float(rewards.sum())) / rows) if rows else self

    def merge(self, other: ActionRows) -> ActionRows:
        """Rows of both together."""
        rows = self.rows + other.rows
        return ActionRows(rows, (self.rows * self.mean_reward + other.rows * other.mean_reward) / rows)


@dataclass(slots=True)
class Report:
    """Outcome of a training run.

    Attributes
    ----------
    learnt
        Number of learnt rows.
    left_out
        Number of skipped, unusable rows.
    problems
        Line and reason of the first hundred of them.
    cut
        Number of rows whose weight :func:`releaf.fit_log` clipped at 1,024, because of a smaller propensity.
    actions
        Number of learnt rows and mean reward of each action of the log. A misspelt name is an action with few rows.
    """

    learnt: int = 0
    left_out: int = 0
    problems: list[tuple[int, str]] = field(default_factory=list)
    cut: int = 0
    actions: dict[ActionName, ActionRows] = field(default_factory=dict)


def learn_file(
    learner: Policy,
    path: str | os.PathLike[str],
    *,
    action: str = "action",
    reward: str = "reward",
    actions: Sequence[ActionName] | None = None,
    skip_bad: bool = False,
    size: int = ROWS,
    progress: Progress = None,
) -> Report:
    """Train a learner on a CSV, Parquet, Arrow or DSJSON file of decisions, batch by batch.

    Parameters
    ----------
    learner
        A policy that learns from logs; its schema names the columns of the context.
    path
        The file.
    action, reward
        The columns of the action taken, and of its reward.
    actions
        The actions to learn of: rows of others are unusable. When None, the learner learns of all, and adds those that
        it does not have. A misspelt name becomes an action too: ``report.actions`` counts the rows of each.
    skip_bad
        Skip unusable rows and report them. Otherwise the first of them raises, with its line, after the batches before
        it have been learnt.
    size
        Number of rows per batch.
    progress
        True for a bar, in a notebook or a terminal; or a function, called with the number of rows read so far.
    """
    report, show = Report(), report_progress(progress, f"Learning {Path(path).name}", "rows")
    batches = read_log(
        path,
        learner.schema,
        action=action,
        reward=reward,
        actions=learner.actions if actions is None else actions,
        only=actions is not None,
        reward_range=learner.reward_range,
        size=size,
    )
    unit = row_unit(Path(path))
    for batch in _prefetch(batches):
        if batch.problems and not skip_bad:
            line, why = batch.problems[0]
            raise UnusableRowError(f"{path}, {unit} {line}: {why}")
        for label in _new_actions(batch, learner):
            learner.add_action(label)
        learner.learn_log(batch.contexts, batch.actions, batch.rewards)
        _count_rows(report, batch)
        report.learnt += len(batch.rewards)
        report.left_out += len(batch.problems)
        report.problems += batch.problems[: MAX_PROBLEMS - len(report.problems)]
        show(batch.rows)
    if isinstance(show, ProgressBar):
        show.end()
    return report


def _count_rows(report: Report, batch: Batch) -> None:
    labels, taken = indexed_actions(batch.actions)
    for index, label in enumerate(labels):
        known = report.actions.get(label, ActionRows(0, 0.0))
        report.actions[label] = known.add(batch.rewards[taken == index])


def indexed_actions(actions: Sequence[ActionName] | Array) -> tuple[list[ActionName], Array]:
    """The distinct actions, and the index of each row's among them."""
    if isinstance(actions, np.ndarray):
        labels, taken = np.unique(actions, return_inverse=True)
        return labels.tolist(), taken
    index_of = {label: index for index, label in enumerate(dict.fromkeys(actions))}
    return list(index_of), np.fromiter(map(index_of.__getitem__, actions), dtype=np.int64, count=len(actions))


def _new_actions(batch: Batch, learner: Policy) -> list[ActionName]:
    """Actions of a batch that the learner does not have, in order of appearance."""
    known = set(learner.actions)
    return [label for label in indexed_actions(batch.actions)[0] if label not in known]


def _prefetch(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Read each batch in a thread while the previous one is learnt; kernels release the GIL."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, batches, None)
        while (batch := waiting.result()) is not None:
            waiting = pool.submit(next, batches, None)
            yield batch
