"""Validation of rewards: one, one for each action, or a whole stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.decision import ActionName
from releaf.table import is_table, ordered_columns

UNIT = (0.0, 1.0)


def checked_reward_range(reward_range: Any) -> tuple[float, float]:
    """Validate ``reward_range``: two finite numbers, the lower first."""
    try:
        low, high = (float("nan") if isinstance(value, str) else float(value) for value in reward_range)
    except (TypeError, ValueError):
        low = high = 0.0
    if not (np.isfinite([low, high]).all() and low < high and np.isfinite(high - low)):
        raise ValueError(f"reward_range must be two finite numbers, the lower first, got reward_range={reward_range!r}")
    return low, high


def checked_reward(reward: Any, low: float = 0.0, high: float = 1.0) -> float:
    """Validate a reward in [low, high]."""
    if type(reward) is float and low <= reward <= high:
        return reward
    try:
        value = None if isinstance(reward, str | bytes) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = None
    if value is None or not low <= value <= high:
        raise ValueError(f"reward is {reward!r}: expected a number in [{low:g}, {high:g}]")
    return value


def scaled_reward(reward: Any, low: float, high: float) -> float:
    """Validate a reward in [low, high], and scale it to [0, 1]."""
    return (checked_reward(reward, low, high) - low) / (high - low)


def scaled(rewards: Array, reward_range: tuple[float, float]) -> Array:
    """Scale validated rewards from their range to [0, 1]."""
    low, high = reward_range
    return rewards if reward_range == UNIT else (rewards - low) / (high - low)


def checked_rewards(
    rewards: Any,
    names: tuple[ActionName, ...],
    checked: Callable[[Any], float] = checked_reward,
    eligible: bytes | None = None,
) -> Array:
    """Validate one reward for each action with ``checked``, from a sequence or a mapping from action names.

    ``eligible`` marks the actions that were; the rewards of others are not learnt, and may be missing, None or NaN.
    """
    if hasattr(rewards, "to_dict") and hasattr(rewards, "index"):  # a pandas row, by its index
        rewards = rewards.to_dict()
    if isinstance(rewards, Mapping):
        unknown = [name for name in rewards if name not in names]
        optional = {name for name, mark in zip(names, eligible or (), strict=False) if not mark}
        lacking = [name for name in names if name not in rewards and name not in optional]
        if unknown or lacking:
            raise ValueError(
                f"rewards must have each action once: unknown {unknown!r}, missing {lacking!r}; "
                f"the actions are {names!r}"
            )
        rewards = [rewards.get(name) for name in names]
    plain = isinstance(rewards, str) or np.ndim(rewards) == 0 or not hasattr(rewards, "__getitem__")
    if plain or len(rewards) != len(names):
        raise ValueError(f"expected a reward for each of the {len(names)} actions, got {rewards!r}")
    if eligible is None:
        return np.array([checked(reward) for reward in rewards])
    return np.array([_checked_if(mark, reward, checked) for mark, reward in zip(eligible, rewards, strict=True)])


def _checked_if(is_eligible: int, reward: Any, checked: Callable[[Any], float]) -> float:
    """Validate a reward; that of an action that was not eligible only if there is one."""
    missing = reward is None or (isinstance(reward, float | np.floating) and np.isnan(reward))
    return np.nan if missing and not is_eligible else checked(reward)


def checked_table(
    rewards: Any, steps: int, names: tuple[ActionName, ...], reward_range: tuple[float, float] = UNIT
) -> Array:
    """Validate the rewards of all actions at all steps: in their range, or NaN where they may not be needed.

    The columns of a table are matched by action name.
    """
    if is_table(rewards):
        rewards = np.column_stack(ordered_columns(rewards, tuple(map(str, names)), "rewards", "actions"))
    values = np.asarray(rewards)
    if steps == 0 and values.size == 0:
        values = np.zeros((0, len(names)))
    text = values.dtype.kind in "USO" and any(isinstance(value, str | bytes) for value in values.flat)
    try:
        table = np.require(values, dtype=np.float64, requirements=["C", "W"])
    except (TypeError, ValueError, OverflowError):
        text = True
    if text:
        raise ValueError("rewards must be a matrix of numbers, one row for each step")
    expected = (steps, len(names))
    if table.shape != expected:
        raise ValueError(f"rewards have shape {table.shape}: expected {expected} (steps × actions)")
    low, high = reward_range
    bad = (table < low) | (table > high)
    if bool(bad.any()):
        row, column = map(int, np.argwhere(bad)[0])
        raise ValueError(
            f"reward {table[row, column]} of row {row}, action {names[column]!r}: expected [{low:g}, {high:g}]"
        )
    return table


def scaled_column(rewards: Any, reward_range: tuple[float, float] = UNIT) -> Array:
    """Validate the rewards of a log, one for each row, and scale them to [0, 1]."""
    values = np.asarray(rewards)
    if values.ndim != 1:
        raise ValueError(f"rewards have shape {values.shape}: expected one for each row")
    low, high = reward_range
    if values.dtype.kind in "fiub":
        numbers = values.astype(np.float64)
        if bool(((numbers >= low) & (numbers <= high)).all()):
            return scaled(numbers, reward_range)
    made = np.empty(len(values))
    for row, reward in enumerate(values.tolist()):
        try:
            made[row] = checked_reward(reward, low, high)
        except ValueError as error:
            raise ValueError(f"row {row}: {error}") from None
    return scaled(made, reward_range)


def positions_of(actions: Any, names: tuple[ActionName, ...]) -> Array:
    """Indices of a log's actions among the learner's."""
    taken = actions if isinstance(actions, np.ndarray) else _as_array(actions)
    if taken.ndim != 1:
        raise ValueError(f"actions have shape {taken.shape}: expected one for each row")
    if taken.dtype.kind in "iu" and all(type(name) is int for name in names):
        sorted_names, order = np.sort(names), np.argsort(names)
        positions = np.minimum(np.searchsorted(sorted_names, taken), len(names) - 1)
        indices = np.where(sorted_names[positions] == taken, order[positions], -1)
    else:
        known = {name: position for position, name in enumerate(names)}
        indices = np.fromiter((known.get(action, -1) for action in taken.tolist()), dtype=np.int64, count=len(taken))
    if (indices < 0).any():
        row = int(np.argmin(indices))
        raise ValueError(f"row {row}: unknown action {taken.tolist()[row]!r}; the actions are {names!r}")
    return indices


def _as_array(names: Any) -> Array:
    """Names of any types as an array without conversion: NumPy would turn numbers beside texts into texts."""
    values = names.to_list() if hasattr(names, "to_list") else list(names)  # a pandas or polars column, or a list
    if all(type(value) is int for value in values):
        return np.array(values, dtype=np.int64)
    made = np.empty(len(values), dtype=object)
    made[:] = [value.as_py() if hasattr(value, "as_py") else value for value in values]  # pyarrow's
    return made
