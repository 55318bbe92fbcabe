"""The book of decisions that wait for their reward."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
# A decision whose reward is wanted: context, action, and how many actions there were.
Waiting = tuple[Array, int, int]


def without_action(waiting: OrderedDict[int, Waiting], removed: int) -> OrderedDict[int, Waiting]:
    """The decisions for all other actions, those after the removed one moved up by one place."""
    return OrderedDict(
        (number, (context, action - (action > removed), actions - (actions > removed)))
        for number, (context, action, actions) in waiting.items()
        if action != removed
    )
