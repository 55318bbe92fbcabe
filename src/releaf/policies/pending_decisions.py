"""Pending decisions: those whose reward is wanted and not yet known."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain

import numpy as np

from releaf.arrays import Array
from releaf.decision import Decision

# Context, index of the action, the number of actions at that time, and a byte for each of them that is 1 where it was
# eligible; None where all were.
PendingDecision = tuple[Array, int, int, bytes | None]
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
        (number, (context, action - (action > removed), actions - (actions > removed), _without(eligible, removed)))
        for number, (context, action, actions, eligible) in pending.items()
        if action != removed
    )


def _without(eligible: bytes | None, removed: int) -> bytes | None:
    return None if eligible is None else canonical(eligible[:removed] + eligible[removed + 1 :])


def canonical(eligible: bytes) -> bytes | None:
    """None instead of bytes that are all 1."""
    return eligible if 0 in eligible else None


def as_arrays(numbers: list[int], pending: list[PendingDecision], width: int) -> dict[str, Array]:
    """Arrays of the state file: ids, contexts, and actions of the pending decisions."""
    count = len(pending)
    contexts = np.concatenate([entry[0] for entry in pending]) if pending else np.empty(0)
    choices = np.empty((count, 2), dtype=np.int64)
    choices[:, 0] = np.fromiter((entry[1] for entry in pending), dtype=np.int64, count=count)
    choices[:, 1] = np.fromiter((entry[2] for entry in pending), dtype=np.int64, count=count)
    arrays = {
        "waiting.numbers": np.array(numbers, dtype=np.int64),
        "waiting.contexts": contexts.reshape(-1, width),
        "waiting.choices": choices,
    }
    if any(entry[3] is not None for entry in pending):
        arrays["waiting.eligible"] = _eligible_table(pending)
    return arrays


def _eligible_table(pending: list[PendingDecision]) -> Array:
    """Which actions were eligible: a row for each pending decision, with 1 for actions that were added since."""
    table = np.ones((len(pending), max(actions for _, _, actions, _ in pending)), dtype=np.uint8)
    for row, (*_, eligible) in enumerate(pending):
        if eligible is not None:
            table[row, : len(eligible)] = np.frombuffer(eligible, dtype=np.uint8)
    return table


def from_arrays(arrays: Mapping[str, Array]) -> OrderedDict[int, PendingDecision]:
    """Pending decisions from what ``as_arrays`` returned."""
    numbers, contexts, choices = (arrays[f"waiting.{part}"] for part in ("numbers", "contexts", "choices"))
    table = arrays.get("waiting.eligible")
    eligible = [None] * len(numbers) if table is None else [row.tobytes() for row in table]
    rows = zip(numbers.tolist(), np.array(contexts), choices.tolist(), eligible, strict=True)
    return OrderedDict(
        (number, (context, index, actions, None if marks is None else canonical(marks[:actions])))
        for number, context, (index, actions), marks in rows
    )


def are_eligible(table: Array, choices: Array) -> bool:
    """Whether a table of a file marks the chosen action of each pending decision, and has valid marks only."""
    if table.dtype != np.dtype(np.uint8) or table.ndim != 2 or len(table) != len(choices) or not len(choices):
        return False
    if table.shape[1] != choices[:, 1].max() or (table > 1).any():
        return False
    return bool(table[np.arange(len(table)), choices[:, 0]].all())


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
    choice: Decision | int, number: int, steps: int, observe: str, max_pending: int, policy: str, rule: str
) -> str:
    """Error message for a reward of a decision that is not pending; ``rule`` tells why it was not requested."""
    if not 1 <= number <= steps:
        return f"unknown decision {number}: this learner has made decisions 1 to {steps}"
    if observe == "never":
        return f"decision {number} is not pending: {policy} never requests a reward"
    if isinstance(choice, Decision) and not choice.wants_reward:
        return f"decision {number} did not request a reward ({rule}): learn only if wants_reward"
    return (
        f"decision {number} is not pending: its reward was learnt already or not requested, it is a row of a log "
        f"(whose rows count as decisions), it is older than the newest {max_pending} pending ones (max_pending), or "
        "its action was removed"
    )
