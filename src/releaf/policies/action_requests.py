"""Actions that come with a request: validation of their names and features."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from releaf.action_table import ActionTable
from releaf.arrays import Array
from releaf.decision import ActionName
from releaf.policy import plain_name

_NOTHING: Array = np.zeros(0)


class ActionRequest(NamedTuple):
    """Actions of a request, and the encoded features of those that it describes."""

    names: list[ActionName]
    values: dict[ActionName, Array]


def checked_request(actions: Any, table: ActionTable, known: Collection[ActionName], most: int) -> ActionRequest:
    """Validate the actions of a request, and encode their features; new ones need features, ``known`` ones don't."""
    if not isinstance(actions, Mapping):
        raise TypeError(f"actions must be a mapping from names to features, got actions={actions!r}")
    given = {plain_name(name): features for name, features in actions.items()}
    if len(given) > most:
        raise ValueError(f"actions has {len(given):,} actions: expected at most max_actions={most:,}")
    described = {name: features for name, features in given.items() if features is not None}
    if table.schema is None:
        if described:
            name = next(iter(described))
            raise ValueError(f"action {name!r} has features, but actions of this policy have none: expected None")
        return ActionRequest(list(given), dict.fromkeys(given, _NOTHING))
    for name in given:
        if name not in known and name not in described:
            raise ValueError(f"action {name!r} is new and has features None: expected its features")
    return ActionRequest(list(given), dict(zip(described, table.encode(described), strict=True)))
