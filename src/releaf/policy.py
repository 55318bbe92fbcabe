"""The protocol that everything follows which decides, and a whole stream lived through at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from releaf.decision import ActionName, Decision
from releaf.schema import Schema

__all__ = ["Actions", "Policy", "Trace", "replay"]

Array = np.ndarray[Any, np.dtype[Any]]
Actions = int | Sequence[ActionName]  # how many, or their labels


@runtime_checkable
class Policy(Protocol):
    """Decides for a context, and learns from the reward where it asks for one."""

    @property
    def actions(self) -> tuple[ActionName, ...]: ...

    @property
    def schema(self) -> Schema: ...

    def decide(self, context: Any) -> Decision: ...

    def decide_many(self, contexts: Any) -> list[Decision]: ...

    def learn(self, choice: Decision | int, reward: Any, action: ActionName | None = None) -> None: ...

    def replay(self, contexts: Any, rewards: Any) -> Trace: ...

    def add_action(self, action: ActionName | None = None) -> ActionName: ...

    def remove_action(self, action: ActionName) -> None: ...

    def save(self, path: str | os.PathLike[str]) -> None: ...

    def to_bytes(self) -> bytes: ...


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """What a policy did over a stream of T steps.

    Attributes
    ----------
    actions
        The position of the action taken at each step.
    explored
        Whether it was an exploration.
    observed
        Whether the policy looked at the reward.
    rewards
        The reward of the action taken, observed or not.
    """

    actions: Array
    explored: Array
    observed: Array
    rewards: Array

    def __len__(self) -> int:
        return len(self.actions)


def replay(policy: Policy, contexts: Any, rewards: Any) -> Trace:
    """Let a policy live through a recorded stream: decide on each context, learn where it asks to.

    The decisions and the policy's state afterwards are those that ``decide`` and ``learn`` would have given one by one,
    bit for bit; policies with a compiled loop use it.

    Parameters
    ----------
    policy
        Any policy.
    contexts
        One row for each step: a matrix (T × D), a table, or a sequence of contexts.
    rewards
        The reward of every action at every step (T × A). Only those that the policy would have observed are looked at;
        the others may be NaN.

    Examples
    --------
    >>> import numpy as np, releaf
    >>> contexts = np.random.default_rng(0).random((1000, 3))
    >>> rewards = np.column_stack([contexts[:, 0], 1 - contexts[:, 0]])
    >>> trace = releaf.replay(releaf.Releaf(actions=2, features=3, seed=0), contexts, rewards)
    >>> bool(trace.observed.mean() < 0.2)  # labels asked for
    True
    """
    return policy.replay(contexts, rewards)


def action_names(actions: Actions) -> tuple[ActionName, ...]:
    """The labels of the actions: those given, or 0 … A-1 for a count."""
    if isinstance(actions, bool | float | str | set | frozenset) or actions is None:
        raise TypeError(f"actions must be a count or a sequence of labels, got {actions!r}")
    if isinstance(actions, int | np.integer):
        if actions < 1:
            raise ValueError(f"actions must be at least 1, got actions={actions}")
        return tuple(range(int(actions)))
    labels = tuple(plain_name(label) for label in actions)
    if not labels:
        raise ValueError("actions must have at least one label, got none")
    if len(set(labels)) < len(labels):
        raise ValueError(f"actions must have different labels, got {labels!r}")
    return labels


def plain_name(label: Any) -> ActionName:
    """The label as a plain Python value, which saves and loads unchanged."""
    if type(label) is str or type(label) is int:
        return label
    value = label.item() if isinstance(label, np.generic) else label
    if not isinstance(value, str | int | float) or value != value:
        raise TypeError(f"an action's label must be text, a number or a boolean, got {label!r}")
    return value
