"""`learn_file`: sequential training from a log that may be larger than memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from releaf.decision import ActionName
from releaf.policy import Policy
from releaf.progress import Progress, ProgressBar, report_progress
from releaf.streams.batches import ROWS, Batch, read_log
from releaf.streams.data_files import UnusableRowError
from releaf.streams.table_files import row_unit

MAX_ACTIONS = 1_000  # distinct values that a column of actions may plausibly have
MAX_PROBLEMS = 100  # unusable rows that a report lists one by one


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
    """

    learnt: int = 0
    left_out: int = 0
    problems: list[tuple[int, str]] = field(default_factory=list)
    cut: int = 0


def learn_file(
    learner: Policy,
    path: str | os.PathLike[str],
    *,
    action: str = "action",
    reward: str = "reward",
    skip_bad: bool = False,
    size: int = ROWS,
    progress: Progress = None,
) -> Report:
    """Train a learner on a CSV, Parquet, Arrow or DSJSON file of decisions, batch by batch.

    Unknown actions are added to the learner.

    Parameters
    ----------
    learner
        A policy that learns from logs; its schema names the columns of the context.
    path
        The file.
    action, reward
        The columns of the action taken, and of its reward.
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
        actions=learner.actions,
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
        report.learnt += len(batch.rewards)
        report.left_out += len(batch.problems)
        report.problems += batch.problems[: MAX_PROBLEMS - len(report.problems)]
        show(batch.rows)
    if isinstance(show, ProgressBar):
        show.end()
    return report


def _new_actions(batch: Batch, learner: Policy) -> list[ActionName]:
    """Actions of a batch that the learner does not have, in order of appearance."""
    taken = batch.actions
    labels = np.unique(taken).tolist() if isinstance(taken, np.ndarray) else dict.fromkeys(taken)
    known = set(learner.actions)
    return [label for label in labels if label not in known]


def _prefetch(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Read each batch in a thread while the previous one is learnt; kernels release the GIL."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, batches, None)
        while (batch := waiting.result()) is not None:
            waiting = pool.submit(next, batches, None)
            yield batch
