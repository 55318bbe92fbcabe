"""A table as a bandit problem: one action for each class, a reward of 1 for the right one.

Numbers are scaled to [0, 1] by the minimum and maximum of their column; categories stay categories; missing values stay
missing. Policies of releaf get a `releaf.Schema` that says so. Baselines that need numbers get one-hot columns for
categories, and for missing numbers the column's mean beside a column that marks them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from releaf import Categorical, Continuous, Schema
from releaf.streams import Stream

Array = np.ndarray[Any, np.dtype[Any]]
MOST_CATEGORIES = 64  # a column with more, such as names, is left out
SMALL = 2_000  # steps that small tables are passed over again to reach
LONGEST = 10_000  # steps after which a stream ends


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name, and a label for each row.

    A column of float64 holds numbers, NaN where one is missing; a column of objects holds categories as text, None
    where one is missing. With ``ordered`` labels, an action's reward falls with its distance from the right one.
    """

    columns: dict[str, Array]
    labels: Array
    ordered: bool = False

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Problem:
    """A table's rows in a form that policies take.

    Attributes
    ----------
    contexts
        Rows × D: numbers in [0, 1], or the number of a category; NaN where a value is missing.
    onehot
        Rows × D', the same without categories or missing values.
    rewards
        Rows × A.
    schema
        Of ``contexts``.
    expected
        Rows × A, expected rewards where they are known.
    """

    contexts: Array
    onehot: Array
    rewards: Array
    schema: Schema
    expected: Array | None = None

    @property
    def actions(self) -> tuple[int, ...]:
        return tuple(range(self.rewards.shape[1]))

    def __len__(self) -> int:
        return len(self.rewards)

    def taken(self, order: Array) -> Problem:
        """Rows in another order, some of them several times."""
        expected = None if self.expected is None else self.expected[order]
        return Problem(self.contexts[order], self.onehot[order], self.rewards[order], self.schema, expected)

    def encoded(self) -> Array:
        """The contexts as a policy encodes them: in [0, 1], and -1 for a missing number."""
        return self.schema.encoder().encode_many(self.contexts)


def problem_of_table(table: Table) -> Problem:
    """Encode a table. Columns that are constant, or have too many categories, are left out."""
    contexts, onehot, features = [], [], {}
    for name, column in table.columns.items():
        encode = _number if column.dtype.kind == "f" else _category
        found = encode(column)
        if found is not None:
            values, numbers, feature = found
            contexts.append(values)
            onehot.append(numbers)
            features[name] = feature
    return Problem(np.column_stack(contexts), np.column_stack(onehot), _rewards(table), Schema(features))


def problem_of_stream(stream: Stream) -> Problem:
    """A stream whose contexts are numbers, with its own rewards."""
    columns = {f"x{place}": column for place, column in enumerate(np.asarray(stream.contexts, dtype=np.float64).T)}
    labels = stream.rewards.argmax(axis=1)
    made = problem_of_table(Table(columns, labels))
    return Problem(made.contexts, made.onehot, stream.rewards, made.schema, stream.expected)


def order(rows: int, seed: int | None) -> Array:
    """Passes over all rows, as many as make about 2,000 steps, of at most 10,000; shuffled where there is a seed."""
    passes = max(1, round(SMALL / rows))
    if seed is None:
        return np.tile(np.arange(rows), passes)[:LONGEST]
    generator = np.random.default_rng(seed)
    return np.concatenate([generator.permutation(rows) for _ in range(passes)])[:LONGEST]


def _number(column: Array) -> tuple[Array, Array, Any] | None:
    missing = np.isnan(column)
    if missing.all():
        return None
    low, high = float(np.nanmin(column)), float(np.nanmax(column))
    if low == high and not missing.any():
        return None
    scaled = np.clip((column - low) / ((high - low) or 1.0), 0.0, 1.0)
    if not missing.any():
        return scaled, scaled, Continuous(0, 1)
    filled = np.where(missing, np.nanmean(scaled), scaled)
    return scaled, np.column_stack([filled, missing]), Continuous(0, 1, missing=True)


def _category(column: Array) -> tuple[Array, Array, Any] | None:
    missing = np.array([value is None for value in column])
    values, codes = np.unique(column[~missing].astype(str), return_inverse=True)
    kinds = len(values) + int(missing.any())
    if not 1 < kinds <= MOST_CATEGORIES:
        return None
    numbers = np.full(len(column), len(values))
    numbers[~missing] = codes
    places = np.where(missing, np.nan, numbers)
    feature = Categorical(*range(len(values)), missing=bool(missing.any()))
    return places, np.eye(kinds)[numbers], feature


def _rewards(table: Table) -> Array:
    """1 for the right action; with ordered labels, less by its distance, 0 for the farthest one."""
    classes, places = np.unique(table.labels, return_inverse=True)
    if not table.ordered:
        return np.eye(len(classes))[places]
    grades = np.asarray(classes, dtype=np.float64)
    distance = np.abs(grades[None, :] - grades[places][:, None])
    return np.asarray(1.0 - distance / distance.max())
