"""Pending decisions: those whose reward is wanted and not yet known."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import chain

import numpy as np

from releaf.arrays import Array
from releaf.decision import Decision

# Context, index of the action, and the number of actions at that time.
PendingDecision = tuple[Array, int, int]
SHARED = 1024  # bytes of one buffer that contexts of a batch may share


def copied_rows(matrix: Array) -> Iterable[Array]:
    """Copy the rows of a matrix, a few at a time, which is faster than one by one.

    With one copy of all rows, a single pending decision would keep its whole batch in memory.
    """
    few = max(1, SHARED // (matrix.itemsize * matrix.shape[1]))
    return chain.from_iterable(matrix[start : start + few].copy() for start in range(0, len(matrix), few))


def without_action(pending: OrderedDict[int, PendingDecision], removed: int) -> OrderedDict[int, PendingDecision]:
    """Drop the decisions for a removed action; indices of later actions decrease by one."""
    return OrderedDict(
        (number, (context, action - (action > removed), actions - (actions > removed)))
        for number, (context, action, actions) in pending.items()
        if action != removed
    )


def as_arrays(numbers: list[int], pending: list[PendingDecision], width: int) -> dict[str, Array]:
    """Arrays of the state file: ids, contexts, and actions of the pending decisions."""
    count = len(pending)
    contexts = np.concatenate([entry[0] for entry in pending]) if pending else np.empty(0)
    choices = np.empty((count, 2), dtype=np.int64)
    choices[:, 0] = np.fromiter((entry[1] for entry in pending), dtype=np.int64, count=count)
    choices[:, 1] = np.fromiter((entry[2] for entry in pending), dtype=np.int64, count=count)
    return {
        "waiting.numbers": np.array(numbers, dtype=np.int64),
        "waiting.contexts": contexts.reshape(-1, width),
        "waiting.choices": choices,
    }


def decision_id(choice: Decision | int, token: int) -> int:
    """Id of a decision, given as a decision of the learner with this token or as its id."""
    if type(choice) is int:
        return choice
    if isinstance(choice, Decision):
        if choice._learner != token:
            raise ValueError(f"{choice!r} was made by another learner: expected a decision of this one")
        return choice.id
    if isinstance(choice, bool) or not isinstance(choice, int | np.integer):
        raise TypeError(f"choice must be a Decision or its id, got {choice!r}")
    return int(choice)


def why_not_pending(
    choice: Decision | int, number: int, steps: int, observe: str, max_pending: int, policy: str
) -> str:
    """Error message for a reward of a decision that is not pending."""
    if not 1 <= number <= steps:
        return f"unknown decision {number}: this learner has made decisions 1 to {steps}"
    if observe == "never":
        return f"decision {number} is not pending: {policy} never requests a reward"
    if isinstance(choice, Decision) and not choice.wants_reward:
        return f"decision {number} did not request a reward (observe={observe!r}): learn only if wants_reward"
    return (
        f"decision {number} is not pending: its reward was learnt already or not requested, "
        f"it is older than the newest {max_pending} pending ones (max_pending), or its action was removed"
    )
