"""Streams and logs from CSV, Parquet and Arrow files, and from pandas, polars and pyarrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from releaf.decision import ActionName
from releaf.features import is_missing
from releaf.policy import plain_name
from releaf.schema import Schema
from releaf.streams.cost_column import costs_in_column
from releaf.streams.data_files import UnusableRowError
from releaf.streams.eligible_column import actions_among, masks_in_column
from releaf.streams.stream import Log, Stream
from releaf.streams.table_files import TableRows, read_table


def table(
    data: Any,
    *,
    label: str | None = None,
    rewards: Sequence[str] | Mapping[str, ActionName] | None = None,
    features: Sequence[str] | Schema | None = None,
    skip_bad: bool = False,
    seed: int | None = None,
) -> Stream:
    """A stream from a table with a label per row, or with the rewards of all actions.

    Parameters
    ----------
    data
        The name of a CSV, Parquet or Arrow file, or a pandas, polars or pyarrow table.
    label
        The column of labels: each distinct value is an action, with reward 1 if it is the row's label, and 0 otherwise.
    rewards
        Instead: the columns with the reward of each action, from 0 to 1; or a mapping from columns to actions.
    features
        The columns of the context. When None, all others that can be features, as :meth:`releaf.Schema.guess` tells.
        A :class:`releaf.Schema` also defines their types; otherwise numbers range from their smallest to their largest
        value, ISO dates are :class:`releaf.DateTime`, and text is categorical.
    skip_bad
        Skip unreadable rows and rows without a label or reward. Otherwise the first of them raises, with its line.
    seed
        Shuffle the rows with this seed; None keeps their order. Tables are often sorted, which is no order in which
        contexts arrive, and runs over one order tell nothing of how results vary.

    Examples
    --------
    >>> import pandas
    >>> cases = pandas.DataFrame({"age": [30, 60, 45], "plan": ["a", "b", "a"], "best": ["call", "mail", "call"]})
    >>> stream = table(cases, label="best")
    >>> stream.actions, stream.rewards.tolist()
    (('call', 'mail'), [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    """
    if (label is None) == (rewards is None):
        raise ValueError(f"expected either label or rewards, got label={label!r} and rewards={rewards!r}")
    rows = read_table(data, skip_bad, features, rewards or () if label is None else [label])
    if label is not None:
        rows = _drop_invalid(rows, [label], skip_bad)
        values = [normalize_action(value) for value in rows.column(label)]
        actions = sorted_actions(values)
        gained = np.array([[value == action for action in actions] for value in values], dtype=np.float64)
        used = {label}
    else:
        named = rewards if isinstance(rewards, Mapping) else {name: name for name in rewards or ()}
        rows = _drop_invalid(rows, list(named), skip_bad, limits=(0.0, 1.0))
        actions, used = tuple(named.values()), set(named)
        gained = np.column_stack([np.array(rows.column(name), dtype=np.float64) for name in named])
    contexts, described = _contexts(rows, features, used)
    stream = Stream(
        contexts, gained.reshape(-1, len(actions)), described, actions, None, len(rows.problems), rows.problems
    )
    return stream if seed is None else _shuffled(stream, seed)


def _shuffled(stream: Stream, seed: int) -> Stream:
    order = np.random.default_rng(seed).permutation(len(stream))
    return replace(stream, contexts=[stream.contexts[row] for row in order], rewards=stream.rewards[order])


def log(
    data: Any,
    *,
    action: str,
    reward: str,
    probability: str | None = None,
    eligible: str | None = None,
    cost: str | None = None,
    actions: Sequence[ActionName] | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    features: Sequence[str] | Schema | None = None,
    skip_bad: bool = False,
) -> Log:
    """A log of decisions: contexts, actions taken, their rewards and propensities.

    Parameters
    ----------
    data
        The name of a CSV, Parquet or Arrow file, or a pandas, polars or pyarrow table.
    action, reward
        The columns of the action taken, and of its reward.
    probability
        The column of propensities, which off-policy estimates need.
    eligible
        The column of the actions that could be taken: lists of names, or names in one text, separated by ``|``; empty
        where all could be taken. A row whose action was not eligible is unusable.
    cost
        The column of the costs of all actions, for policies that weigh costs: mappings or lists, or a text such as
        ``small=0.1|large=1`` or, in the order of the actions, ``1|0.1``. A row that lacks a cost is unusable.
    actions
        The actions, in the order of the policies to evaluate; when None, the sorted actions of the log, eligible ones
        included.
    reward_range
        The lowest and the highest reward there can be.
    features, skip_bad
        As for :func:`table`.
    """
    used = [action, reward] + ([probability] if probability is not None else [])
    texts = tuple(name for name in (eligible, cost) if name is not None)
    rows = _drop_invalid(read_table(data, skip_bad, features, [*used, *texts], texts), used[:1], skip_bad)
    rows = _drop_invalid(rows, [reward], skip_bad, limits=reward_range)
    rows = _drop_invalid(rows, used[2:], skip_bad, limits=(0.0, 1.0), above_zero=True)
    if actions is not None:
        rows = _drop_invalid(rows, [action], skip_bad, known=tuple(actions))
    known = tuple(actions or _actions_of(rows, action, eligible))
    rows = _drop_unencodable(rows, features, skip_bad)
    if eligible is not None:
        rows = _drop_ineligible(rows, action, eligible, known, skip_bad)
    if cost is not None:
        rows = _drop_unpriced(rows, cost, known, skip_bad)
    masks = None if eligible is None else masks_in_column(rows.column(eligible), known)[0]
    costs = None if cost is None else costs_in_column(rows.column(cost), known)[0]
    chosen = [normalize_action(value) for value in rows.column(action)]
    contexts, described = _contexts(rows, features, {*used, *texts})
    indices = {label: index for index, label in enumerate(known)}
    taken = np.array([indices[value] for value in chosen], dtype=np.int64)
    gained = np.array(rows.column(reward), dtype=np.float64)
    probabilities = None if probability is None else np.array(rows.column(probability), dtype=np.float64)
    unusable = len(rows.problems), rows.problems
    return Log(contexts, taken, gained, probabilities, described, known, *unusable, masks, costs)


def _actions_of(rows: TableRows, action: str, eligible: str | None) -> tuple[ActionName, ...]:
    """Actions of a log: those taken, and those that were only eligible."""
    taken = [normalize_action(value) for value in rows.column(action)]
    return sorted_actions(taken if eligible is None else actions_among(rows.column(eligible), taken, normalize_action))


def _drop_ineligible(
    rows: TableRows, action: str, eligible: str, known: tuple[ActionName, ...], skip_bad: bool
) -> TableRows:
    """Drop rows whose eligible actions are invalid, or do not include the action taken."""
    masks, wrong = masks_in_column(rows.column(eligible), known)
    bad = {row: f"{eligible!r} names {what}: expected some of {known!r}" for row, what in wrong.items()}
    for row, value in enumerate(rows.column(action)):
        if row not in bad and not masks[row, known.index(normalize_action(value))]:
            bad[row] = f"{action!r} is {value!r}, which was not eligible: {eligible!r} does not name it"
    return _drop(rows, bad, skip_bad)


def _drop_unpriced(rows: TableRows, cost: str, known: tuple[ActionName, ...], skip_bad: bool) -> TableRows:
    """Drop rows that lack the cost of an action."""
    wrong = costs_in_column(rows.column(cost), known)[1]
    return _drop(rows, {row: f"{cost!r}: {what}" for row, what in wrong.items()}, skip_bad)


def _drop(rows: TableRows, bad: dict[int, str], skip_bad: bool) -> TableRows:
    if bad and not skip_bad:
        raise UnusableRowError(f"{rows.where(min(bad))}: {bad[min(bad)]}")
    return rows.without(bad) if bad else rows


# --- checking -------------------------------------------------------------------------------------------------


def _drop_invalid(
    rows: TableRows,
    names: list[str],
    skip_bad: bool,
    limits: tuple[float, float] | None = None,
    above_zero: bool = False,
    known: tuple[ActionName, ...] | None = None,
) -> TableRows:
    """Drop rows with a missing value in these columns, or a value outside ``limits`` or ``known``."""
    bad: dict[int, str] = {}
    for name in names:
        for row, value in enumerate(rows.column(name)):
            wrong = is_missing(value) or (limits is not None and not is_within(value, limits))
            wrong = wrong or (above_zero and value == 0) or (known is not None and normalize_action(value) not in known)
            if wrong:
                expected = "a value" if limits is None else f"a number from {limits[0]:g} to {limits[1]:g}"
                expected = "a probability above 0, 1 at most" if above_zero else expected
                expected += " (or another reward_range)" if limits is not None and not above_zero else ""
                expected = f"one of {known!r}" if known is not None else expected
                bad.setdefault(row, f"{name!r} is {value!r}: expected {expected}")
                if not skip_bad:
                    raise UnusableRowError(f"{rows.where(row)}: {bad[row]}")
    return rows.without(bad) if bad else rows


def _drop_unencodable(rows: TableRows, features: Sequence[str] | Schema | None, skip_bad: bool) -> TableRows:
    """Drop rows that a given schema can't encode."""
    if not isinstance(features, Schema):
        return rows
    return _drop(rows, features.encoder().problems([rows.column(name) for name in features.inputs]), skip_bad)


def is_within(value: Any, limits: tuple[float, float]) -> bool:
    try:
        return not isinstance(value, str) and limits[0] <= float(value) <= limits[1]
    except (TypeError, ValueError):
        return False


def normalize_action(value: Any) -> ActionName:
    """Name of an action; an integral float becomes an integer."""
    label = plain_name(value)
    return int(label) if isinstance(label, float) and label.is_integer() else label


def normalize_actions(column: Any) -> Any:
    """Names of a column of actions, None if missing; integers stay an array."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu":
        return column
    values = column.tolist() if isinstance(column, np.ndarray) else column
    known: dict[Any, ActionName | None] = {}
    for value in set(values):
        known[value] = None if is_missing(value) else normalize_action(value)
    return [known[value] if value == value else None for value in values]


def sorted_actions(labels: Iterable[ActionName]) -> tuple[ActionName, ...]:
    """Distinct actions, sorted by type and value."""
    return tuple(sorted(set(labels), key=lambda label: (str(type(label)), label)))


def _contexts(rows: TableRows, features: Sequence[str] | Schema | None, used: set[str]) -> tuple[Any, Schema]:
    schema = features if isinstance(features, Schema) else _guess_schema(rows, features, used)
    columns = [rows.column(name) for name in schema.inputs]
    return [list(row) for row in zip(*columns, strict=True)], schema


def _guess_schema(rows: TableRows, features: Sequence[str] | None, used: set[str]) -> Schema:
    """Features of the given columns, or of all that can be features."""
    names = [name for name in rows.columns if name not in used] if features is None else list(features)
    if not names:
        raise ValueError(f"{rows.source} has no columns left to make contexts of")
    try:
        columns = {name: rows.column(name) for name in names}
        return Schema.guess(columns, keep=() if features is None else names, numbers="range")
    except ValueError as error:
        raise ValueError(f"{rows.source}: {error}") from None
