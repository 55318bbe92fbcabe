"""The book of decisions that wait for their reward."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
# A decision whose reward is wanted: context, action, and how many actions there were.
PendingDecision = tuple[Array, int, int]
SHARED = 1024  # bytes that contexts of one batch may share


def rows_to_keep(matrix: Array) -> Iterable[Array]:
    """The rows of a matrix, copied a few at a time, which is faster than one by one.

    Not all at once, or a single context that waits long for its reward would keep all of its batch in memory.
    """
    few = max(1, SHARED // (matrix.itemsize * matrix.shape[1]))
    return chain.from_iterable(matrix[start : start + few].copy() for start in range(0, len(matrix), few))


def without_action(pending: OrderedDict[int, PendingDecision], removed: int) -> OrderedDict[int, PendingDecision]:
    """The decisions for all other actions, those after the removed one moved up by one place."""
    return OrderedDict(
        (number, (context, action - (action > removed), actions - (actions > removed)))
        for number, (context, action, actions) in pending.items()
        if action != removed
    )


def as_arrays(numbers: list[int], pending: list[PendingDecision], width: int) -> dict[str, Array]:
    """The book as a file keeps it: the decisions' numbers, and what is known of each."""
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
