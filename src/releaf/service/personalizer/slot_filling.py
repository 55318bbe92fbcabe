"""Which actions a slot may take, so that each later slot can still have one of its own."""

from __future__ import annotations

from collections.abc import Sequence, Set


def fillable_actions(allowed: Sequence[Set[str]], used: Set[str]) -> list[str]:
    """The actions that the first of these slots may take, in order of their names; empty if there is no solution.

    Parameters
    ----------
    allowed
        The actions that each slot may have, of the first one and of those after it.
    used
        Actions that earlier slots have taken.
    """
    left = [actions - used for actions in allowed]
    return [name for name in sorted(left[0]) if _can_fill([actions - {name} for actions in left[1:]])]


def _can_fill(slots: Sequence[Set[str]]) -> bool:
    """Whether all slots can have different actions: a bipartite matching that covers them, by augmenting paths."""
    everyone = frozenset[str]().union(*slots)
    if all(len(actions) == len(everyone) for actions in slots):  # nothing is excluded
        return len(everyone) >= len(slots)
    taken: dict[str, int] = {}
    return all(_place(slot, slots, taken, set()) for slot in range(len(slots)))


def _place(slot: int, slots: Sequence[Set[str]], taken: dict[str, int], tried: set[str]) -> bool:
    """Give a slot an action, if need be by giving the slot that has it another one."""
    for name in slots[slot]:
        if name not in tried:
            tried.add(name)
            if name not in taken or _place(taken[name], slots, taken, tried):
                taken[name] = slot
                return True
    return False
