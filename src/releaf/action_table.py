"""`ActionTable`: actions with features of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from releaf.arrays import Array, Row
from releaf.decision import ActionName
from releaf.features import Quantile
from releaf.policy import action_names, plain_name
from releaf.schema import Features, Schema
from releaf.table import is_table, table_columns


class ActionTable:
    """Actions by name, with the features of each.

    Parameters
    ----------
    actions
        A mapping from names to the features of each action, as a mapping or a sequence; or a pandas, polars or pyarrow
        table with a row for each action.
    features
        The features of an action, as ``features`` of a policy; all but :class:`releaf.Quantile`. When None they are
        guessed from the actions: numbers are within the range of these. A count stands for y0, y1 and so on.
    name
        The column of a table that has the names.

    Attributes
    ----------
    names
        Names of the actions.
    schema
        Features of an action; None where the actions are names only.
    values
        Encoded features, a row for each action.

    Examples
    --------
    >>> import releaf
    >>> table = releaf.ActionTable({"tea": {"price": 2.0, "hot": True}, "cola": {"price": 3.0, "hot": False}})
    >>> table
    ActionTable(2 actions, 2 features)
    >>> table.schema.names, table.values.tolist()
    (('price', 'hot'), [[0.0, 0.5], [1.0, 0.16666666666666666]])
    """

    def __init__(self, actions: Any, features: Features | None = None, *, name: str = "action") -> None:
        given = _as_mapping(actions, name)
        if features is None and not given:
            raise ValueError("action_features is needed where there are no actions yet, got None")
        self.schema: Schema | None = _guess(given) if features is None else _schema_of(features)
        for feature, kind in self.schema.inputs.items():
            if isinstance(kind, Quantile):
                raise ValueError(
                    f"feature {feature!r} of the actions is a Quantile, whose ranks change as values come: "
                    "expected Continuous(low, high)"
                )
        self.names: tuple[ActionName, ...] = action_names(list(given)) if given else ()
        self.values: Array = self.encode(given)

    @classmethod
    def of(cls, actions: Any, features: Features | None = None) -> ActionTable:
        """Actions as policies take them: a table, a mapping, or names or a count of actions without features."""
        if isinstance(actions, ActionTable):
            if features is not None and _schema_of(features) != actions.schema:
                raise ValueError("action_features differs from the features of the ActionTable: expected None")
            return actions
        if isinstance(actions, Mapping) or is_table(actions):
            return cls(actions, features)
        if features is not None:
            raise ValueError(
                f"action_features is given, but actions has names only: expected the features of each action by name, "
                f"got actions={actions!r}"
            )
        return cls.without_values(action_names(actions), None)

    @classmethod
    def without_values(cls, names: Sequence[ActionName], schema: Schema | None) -> ActionTable:
        """A table whose features are all 0, to be replaced."""
        table = cls.__new__(cls)
        table.names, table.schema = tuple(names), schema
        table.values = np.zeros((len(table.names), 0 if schema is None else len(schema)))
        return table

    def encode(self, features: Mapping[Any, Any]) -> Row:
        """Encode the features of actions, a row for each; an error names the action."""
        if self.schema is None:
            return np.zeros((len(features), 0))
        encoder = self.schema.encoder()
        try:
            return encoder.encode_many(list(features.values()))
        except (ValueError, TypeError):  # again one by one, to name the action
            for name, own in features.items():
                try:
                    encoder.encode(own)
                except (ValueError, TypeError) as error:
                    raise type(error)(f"action {name!r}: {error}".replace("context", "its features", 1)) from None
            raise

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[ActionName]:
        return iter(self.names)

    def __repr__(self) -> str:
        return f"ActionTable({len(self)} actions, {0 if self.schema is None else len(self.schema)} features)"


def _as_mapping(actions: Any, name: str) -> dict[Any, Any]:
    if isinstance(actions, Mapping):
        return {plain_name(action): features for action, features in actions.items()}
    if not is_table(actions):
        raise TypeError(f"actions must be a mapping from names to features, or a table, got {actions!r}")
    columns = table_columns(actions)
    if name not in columns:
        raise ValueError(f"actions has no column {name!r} of names; it has {', '.join(columns)}")
    names, others = columns.pop(name), list(columns)
    action_names(names)
    rows = zip(*columns.values(), strict=True)
    return {plain_name(action): dict(zip(others, row, strict=True)) for action, row in zip(names, rows, strict=True)}


def _schema_of(features: Features) -> Schema:
    """Schema of actions: as of a context, but that a count names other features, y0 and so on."""
    if isinstance(features, int | np.integer) and not isinstance(features, bool) and features > 0:
        return Schema.of([f"y{i}" for i in range(features)])
    return Schema.of(features)


def _guess(given: dict[Any, Any]) -> Schema:
    """Features of actions by their values: numbers within their range."""
    rows = list(given.values())
    if not all(isinstance(row, Mapping) for row in rows):
        widths = {len(row) if hasattr(row, "__len__") and not isinstance(row, str) else -1 for row in rows}
        if len(widths) == 1 and min(widths) > 0:
            return _schema_of(widths.pop())
        raise ValueError("actions have features of different lengths, or none: expected a mapping for each action")
    names = list(dict.fromkeys(name for row in rows for name in row))
    lacking = [(action, name) for action, row in given.items() for name in names if name not in row]
    if lacking:
        action, name = lacking[0]
        raise ValueError(f"action {action!r} lacks feature {name!r}, which others have; None where it is missing")
    return Schema.guess({name: [row[name] for row in rows] for name in names}, keep=names, numbers="range")
