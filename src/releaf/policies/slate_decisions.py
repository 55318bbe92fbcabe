"""Pending decisions whose actions came with features of their own, or as a slate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.decision import ActionName

FEW = 64  # entries that are no longer pending, beyond twice the pending ones, that are kept until they are dropped


class Shown(NamedTuple):
    """Actions that a decision showed, with the columns of each at that time."""

    actions: tuple[ActionName | None, ...]  # None for one that was removed before the policy was saved and loaded
    profiles: Array
    is_slate: bool

    def profile_of(self, action: ActionName) -> Array | None:
        """Columns of an action at that time, if it was shown."""
        return self.profiles[self.actions.index(action)] if action in self.actions else None

    def rewards_of(self, reward: Any, number: int) -> dict[ActionName, Any]:
        """Rewards by action, in the order of the slate: those of a mapping, or a number for the first action."""
        if not isinstance(reward, Mapping):
            if self.actions[0] is None:
                raise ValueError(f"the first action of decision {number} was removed: expected rewards by action")
            return {self.actions[0]: reward}
        unknown = [name for name in reward if name not in self.actions]
        if unknown:
            raise ValueError(
                f"rewards of decision {number} have unknown {unknown!r}: expected some of the actions that it "
                f"showed, {self.actions!r}"
            )
        if not reward:
            raise ValueError(f"rewards of decision {number} are empty: expected one, or call discard_pending")
        return {name: reward[name] for name in self.actions if name is not None and name in reward}


def without_settled(shown: dict[int, Shown], pending: Collection[int]) -> dict[int, Shown]:
    """Drop what belongs to decisions that are no longer pending, once it is much."""
    if len(shown) <= 2 * len(pending) + FEW:
        return shown
    return {number: entry for number, entry in shown.items() if number in pending}


def shown_as_arrays(shown: Mapping[int, Shown], pending: Sequence[int], names: tuple[Any, ...]) -> dict[str, Array]:
    """Arrays of the state file; -1 stands for an action that was removed since."""
    place = {name: position for position, name in enumerate(names)}
    kept = {number: shown[number] for number in pending if number in shown}
    numbers = [(number, len(entry.actions), entry.is_slate) for number, entry in kept.items()]
    actions = [place.get(name, -1) for entry in kept.values() for name in entry.actions]
    profiles = [entry.profiles for entry in kept.values()]
    return {
        "shown.numbers": np.array(numbers, dtype=np.int64).reshape(-1, 3),
        "shown.actions": np.array(actions, dtype=np.int64),
        "shown.profiles": np.concatenate(profiles) if profiles else np.zeros((0, 0)),
    }


def shown_of_arrays(arrays: Mapping[str, Array], names: tuple[Any, ...], width: int) -> dict[int, Shown]:
    """Read what ``shown_as_arrays`` wrote; a ValueError if its parts contradict each other."""
    numbers, actions, profiles = (arrays[f"shown.{part}"] for part in ("numbers", "actions", "profiles"))
    total = int(numbers[:, 1].sum()) if numbers.ndim == 2 and numbers.shape[1] == 3 else -1
    fits = actions.shape == (total,) and profiles.shape == ((total, width) if total else (0, 0))
    fits = fits and numbers.dtype == actions.dtype == np.dtype(np.int64) and profiles.dtype == np.dtype(np.float64)
    fits = fits and bool((numbers[:, 1] >= 1).all() and ((actions >= -1) & (actions < len(names))).all())
    if not fits or not np.isfinite(profiles).all():
        raise ValueError("its slates contradict the rest")
    found, start = {}, 0
    for number, count, is_slate in numbers.tolist():
        end = start + count
        own = tuple(names[place] if place >= 0 else None for place in actions[start:end].tolist())
        found[number] = Shown(own, profiles[start:end].copy(), bool(is_slate))
        start = end
    return found
