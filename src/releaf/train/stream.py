"""Learn from a log that is larger than memory; the result goes on learning online."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from releaf.decision import ActionName
from releaf.streams.batches import ROWS, Batch, read_log
from releaf.streams.tables import kind_of

MOST_ACTIONS = 1_000  # that a column of actions may well have
SHOWN = 100  # broken rows that are kept by their lines


@dataclass(slots=True)
class Report:
    """What became of the rows of a log.

    Attributes
    ----------
    learnt
        Rows that were learnt.
    left_out
        Rows that could not be used.
    problems
        Line and reason of the first of these, a hundred at most.
    cut
        Rows of :func:`releaf.fit_log` whose actions were less probable than 1 in 1,024, and weigh as if they had been
        just that.
    """

    learnt: int = 0
    left_out: int = 0
    problems: list[tuple[int, str]] = field(default_factory=list)
    cut: int = 0


def learn_file(
    learner: Any,
    path: str | os.PathLike[str],
    *,
    action: str = "action",
    reward: str = "reward",
    skip_bad: bool = False,
    size: int = ROWS,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Let a learner learn from a CSV, Parquet or Arrow file of decisions, some rows at a time.

    An action that it does not know yet is added to its actions.

    Parameters
    ----------
    learner
        A policy that learns from logs; its schema names the columns that make a context.
    path
        The file.
    action, reward
        The columns of the action taken, and of its reward.
    skip_bad
        Leave out rows that can't be used, and report them. Otherwise the first of them raises, with its line; batches
        before the one that it is in have been learnt.
    size
        How many rows to read at a time.
    progress
        Told the number of rows so far.
    """
    report = Report()
    limits = getattr(learner, "reward_range", (0.0, 1.0))
    columns = {"action": action, "reward": reward}
    batches = read_log(path, learner.schema, **columns, actions=learner.actions, reward_range=limits, size=size)
    unit = "line" if kind_of(Path(path)) == "csv" else "row"
    for batch in _ahead(batches):
        if batch.problems and not skip_bad:
            line, why = batch.problems[0]
            raise ValueError(f"{path}, {unit} {line}: {why}")
        for label in _new_actions(batch, learner):
            learner.add_action(label)
        learner.learn_log(batch.contexts, batch.actions, batch.rewards)
        report.learnt += len(batch.rewards)
        report.left_out += len(batch.problems)
        report.problems += batch.problems[: SHOWN - len(report.problems)]
        if progress is not None:
            progress(batch.rows)
    return report


def _new_actions(batch: Batch, learner: Any) -> list[ActionName]:
    """The actions that the learner does not know yet, in their order."""
    taken = batch.actions
    labels = np.unique(taken).tolist() if isinstance(taken, np.ndarray) else dict.fromkeys(taken)
    known = set(learner.actions)
    return [label for label in labels if label not in known]


def _ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same batches, each read while the one before is learnt; kernels let other threads run."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, batches, None)
        while (batch := waiting.result()) is not None:
            waiting = pool.submit(next, batches, None)
            yield batch
