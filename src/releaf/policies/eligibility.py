"""Which actions are eligible for a decision: validation, and masks with a 1 for each eligible action."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.decision import ActionName, Decision
from releaf.policy import plain_name


def checked_mask(eligible: Any, names: tuple[ActionName, ...], row: int | None = None) -> Array | None:
    """Mask of one decision from the names of its eligible actions; None where all are eligible.

    Parameters
    ----------
    eligible
        Some of the names, each once, in any order; None for all of them.
    names
        The learner's actions.
    row
        For errors, the row of a batch.
    """
    if eligible is None:
        return None
    where = "eligible" if row is None else f"eligible of row {row}"
    if isinstance(eligible, str | bytes | int | float | Mapping) or not isinstance(eligible, Iterable):
        raise TypeError(f"{where} must be a sequence of action names, got {eligible!r}")
    given = [plain_name(name) for name in (eligible.tolist() if isinstance(eligible, np.ndarray) else eligible)]
    if any(isinstance(name, bool) for name in given) and not any(isinstance(name, bool) for name in names):
        raise TypeError(  # True == 1, so it would name an action
            f"{where} looks like a mask: expected names of actions, or a boolean T × A array in decide_many, "
            f"got {eligible!r}"
        )
    if not given:
        raise ValueError(f"{where} names no action: expected at least one of {names!r}")
    places = {name: place for place, name in enumerate(names)}
    mask = np.zeros(len(names), dtype=np.uint8)
    for name in given:
        if name not in places:
            raise ValueError(f"{where} names an unknown action {name!r}: the actions are {names!r}")
        if mask[places[name]]:
            raise ValueError(f"{where} names {name!r} twice: expected each action once")
        mask[places[name]] = 1
    return None if mask.all() else mask


def checked_masks(eligible: Any, rows: int, names: tuple[ActionName, ...]) -> Array | None:
    """Masks of many decisions (T × A); None where all actions are eligible in all of them.

    Parameters
    ----------
    eligible
        One sequence of names for all rows, a sequence of names for each row (None: all actions), or a boolean T × A
        mask; None for all actions in all rows.
    rows
        Number of decisions.
    names
        The learner's actions.
    """
    if eligible is None:
        return None
    if isinstance(eligible, np.ndarray) and eligible.ndim == 2 and eligible.dtype.kind == "b":
        return _checked_table(eligible, rows, names)
    if isinstance(eligible, str | bytes | Mapping) or not isinstance(eligible, Iterable):
        raise TypeError(f"eligible must hold action names, or be a boolean T × A mask, got {eligible!r}")
    entries = list(eligible.tolist() if isinstance(eligible, np.ndarray) else eligible)
    if entries and any(entry is None or _is_sequence(entry) for entry in entries):
        return _masks_by_row(entries, rows, names)
    mask = checked_mask(entries, names)
    return None if mask is None else np.repeat(mask[None], rows, axis=0)


def _is_sequence(entry: Any) -> bool:
    return isinstance(entry, Collection) and not isinstance(entry, str | bytes)


def _masks_by_row(entries: list[Any], rows: int, names: tuple[ActionName, ...]) -> Array | None:
    if len(entries) != rows:
        raise ValueError(f"eligible has {len(entries)} rows: expected {rows}, one for each context")
    masks = np.ones((rows, len(names)), dtype=np.uint8)
    known: dict[Any, Array | None] = {}  # few sets recur
    for row, entry in enumerate(entries):
        if entry is None:
            continue
        key = (type(entry), *entry, *map(type, entry)) if _is_sequence(entry) else entry  # True == 1
        if key not in known:
            known[key] = checked_mask(entry, names, row)
        mask = known[key]
        if mask is not None:
            masks[row] = mask
    return None if masks.all() else masks


def _checked_table(mask: Array, rows: int, names: tuple[ActionName, ...]) -> Array | None:
    if mask.shape != (rows, len(names)):
        raise ValueError(f"eligible has shape {mask.shape}: expected {(rows, len(names))} (steps × actions)")
    empty = ~mask.any(axis=1)
    if empty.any():
        raise ValueError(f"eligible of row {int(np.argmax(empty))} names no action: expected at least one of {names!r}")
    return None if mask.all() else np.ascontiguousarray(mask, dtype=np.uint8)


def names_of(mask: Array, names: Sequence[ActionName]) -> tuple[ActionName, ...]:
    """Names of the eligible actions."""
    return tuple([name for name, is_eligible in zip(names, mask.tolist(), strict=True) if is_eligible])


def was_eligible(choice: Decision, action: ActionName) -> bool:
    """Whether a decision could take an action."""
    return choice.eligible is None or action in choice.eligible


def as_table(masks: Array | None, actions: int) -> Array:
    """Masks for kernels: a table without rows where all actions are eligible in all rows."""
    return np.ones((0, actions), dtype=np.uint8) if masks is None else masks


def write_mask(eligible: Array, mask: Array | None) -> None:
    """Write a mask to a state; None marks all actions.

    A mask may be of fewer actions than there are: a late reward may be of a decision before others were added.
    """
    eligible[:] = mask is None
    if mask is not None:
        eligible[: len(mask)] = mask


class Restriction:
    """Mixin of a policy: restricts choices and learning to the eligible actions for as long as a block runs."""

    def _set_eligible(self, mask: Array | None) -> None:
        """Restrict later choices to the actions that a mask marks; None lifts the restriction.

        A policy of a user's own that can choose among some of its actions overrides it.
        """
        raise TypeError(f"{type(self).__name__} can't decide among some of its actions: expected eligible=None")

    @contextmanager
    def _restricted_to(self, mask: Array | None) -> Iterator[None]:
        if mask is None:
            yield
            return
        self._set_eligible(mask)
        try:
            yield
        finally:
            self._set_eligible(None)
