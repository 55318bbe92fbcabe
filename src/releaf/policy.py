"""The `Policy` protocol, and `replay`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from releaf.arrays import Array
from releaf.control_lift import ControlLift
from releaf.decision import ActionName, Decision
from releaf.explanation import Explanation
from releaf.inspection import Effect, Interval, IntervalReward
from releaf.label_outlook import LabelOutlook
from releaf.relevance_table import RelevanceTable
from releaf.schema import Schema
from releaf.traits import Traits

__all__ = ["Actions", "Policy", "Replayable", "ReportsRelevance", "ServedPolicy", "Trace", "replay"]

Actions = int | Sequence[ActionName]  # their number, or their names


@runtime_checkable
class Replayable(Protocol):
    """Whatever can be run over a recorded stream: the least that ``releaf.evaluate`` needs."""

    def replay(self, contexts: Any, rewards: Any) -> Trace: ...


@runtime_checkable
class ReportsRelevance(Protocol):
    """A policy of a user's own that reports the relevance of each feature for each action (A × D)."""

    def relevance(self) -> Array: ...


@runtime_checkable
class ReportsIntervals(Protocol):
    """A policy of a user's own that reports the intervals of each feature."""

    @property
    def schema(self) -> Schema: ...

    def partition(self, feature: int | str) -> list[Interval]: ...


@runtime_checkable
class CountsPriorLabels(Protocol):
    """A policy of a user's own that was trained with labels before the first decision."""

    @property
    def prior_labels(self) -> int: ...


@runtime_checkable
class WeighsCosts(Protocol):
    """A policy that may weigh costs of actions."""

    @property
    def cost_weight(self) -> float | None: ...


@runtime_checkable
class Previewable(Protocol):
    """Whatever can be run over a log by rejection sampling."""

    @property
    def actions(self) -> tuple[ActionName, ...]: ...

    @property
    def schema(self) -> Schema: ...

    def preview(self, context: Any, eligible: Sequence[ActionName] | None = None) -> Decision: ...

    def decide(self, context: Any, eligible: Sequence[ActionName] | None = None) -> Decision: ...

    def learn(self, choice: Decision | int, reward: Any, action: ActionName | None = None) -> None: ...


@runtime_checkable
class Policy(Protocol):
    """A policy decides for a context, and learns from the reward if it requests one.

    Every policy has all of these methods. Those of the last section raise where ``traits`` says that the policy
    does not support them: ``observe`` and ``learn_log`` a ValueError, the others a TypeError.
    :class:`releaf.policies.OnlinePolicy` documents each.
    """

    # --- the problem and the policy's properties

    @property
    def actions(self) -> tuple[ActionName, ...]: ...

    @property
    def schema(self) -> Schema: ...

    @property
    def traits(self) -> Traits: ...

    @property
    def observation_mode(self) -> str: ...

    @property
    def wants_all(self) -> bool: ...

    @property
    def reward_range(self) -> tuple[float, float]: ...

    @property
    def max_pending(self) -> int: ...

    # --- its counters

    @property
    def steps(self) -> int: ...

    @property
    def pending(self) -> int: ...

    @property
    def label_budget(self) -> int | None: ...

    @property
    def labels_spent(self) -> int: ...

    @property
    def takes_label_costs(self) -> bool: ...

    @property
    def label_cost_spent(self) -> float: ...

    @property
    def labels_left(self) -> float | None: ...

    def label_outlook(self) -> LabelOutlook: ...

    @property
    def prior_labels(self) -> int: ...

    @property
    def weight_labels(self) -> int: ...

    # --- decisions and rewards

    def decide(
        self,
        context: Any,
        eligible: Sequence[ActionName] | None = None,
        cost: Any = None,
        label_cost: float | None = None,
    ) -> Decision: ...

    def decide_many(
        self, contexts: Any, eligible: Any = None, cost: Any = None, label_cost: Any = None
    ) -> Sequence[Decision]: ...

    def preview(
        self,
        context: Any,
        eligible: Sequence[ActionName] | None = None,
        cost: Any = None,
        label_cost: float | None = None,
    ) -> Decision: ...

    def preview_actions(
        self, contexts: Any, *, seed: int = 0, eligible: Any = None, cost: Any = None, label_cost: Any = None
    ) -> Array: ...

    def estimate(self, contexts: Any) -> Array: ...

    def learn(self, choice: Decision | int, reward: Any, action: ActionName | None = None) -> None: ...

    def discard_pending(self, choice: Decision | int) -> None: ...

    def replay(
        self, contexts: Any, rewards: Any, eligible: Any = None, cost: Any = None, label_costs: Any = None
    ) -> Trace: ...

    def set_random_state(self, state: int) -> None: ...

    # --- actions

    def add_action(self, action: ActionName | None = None, *, cost: float | None = None) -> ActionName: ...

    def remove_action(self, action: ActionName) -> None: ...

    # --- serialization

    def save(self, path: str | os.PathLike[str]) -> None: ...

    def to_bytes(self) -> bytes: ...

    # --- optional: see traits

    def observe(self, context: Any, action: ActionName, reward: Any, *, probability: float | None = None) -> None: ...

    def learn_log(self, contexts: Any, actions: Any, rewards: Any) -> None: ...

    def merge(self, other: Any) -> Any: ...

    def explain(self, choice: Any) -> Explanation: ...

    def relevance(self) -> RelevanceTable: ...

    def partition(self, feature: int | str) -> list[Interval]: ...

    def interval_rewards(self, feature: int | str) -> list[list[IntervalReward]]: ...

    def effect(self, feature: int | str) -> dict[ActionName, list[Effect]]: ...


class ServedPolicy(Policy, Protocol):
    """A policy for a service that stores decisions and rewards itself and finds them by id."""

    def keep_all_pending(self) -> None: ...

    def keep_pending(self, decisions: set[int]) -> None: ...

    def is_pending(self, decision: int) -> bool: ...

    def eligible_actions(self, decision: int) -> tuple[ActionName, ...] | None: ...

    def pending_slate(self, decision: int) -> tuple[ActionName | None, ...] | None: ...

    def erase(self, decisions: set[int]) -> int: ...

    def begin_erasure(self, decisions: set[int]) -> int: ...

    def wait_for_erasure(self) -> None: ...

    def finish_erasure(self) -> None: ...

    @property
    def cost(self) -> tuple[float, ...] | None: ...

    @property
    def control_share(self) -> float: ...

    @property
    def control(self) -> ActionName: ...

    def lift(self) -> ControlLift: ...

    def restart_lift(self) -> None: ...

    @property
    def cost_weight(self) -> float | None: ...

    @property
    def spend_budget(self) -> float | None: ...

    @property
    def budget_period(self) -> int: ...

    @property
    def spend_ahead(self) -> float | None: ...

    def check_reward(self, decision: int, reward: Any) -> None: ...

    def restore_decision(
        self,
        number: int,
        context: Any,
        action: ActionName,
        *,
        actions: Sequence[ActionName],
        explored: bool,
        wants_reward: bool,
        probability: float | None,
        estimates: tuple[float, ...] | None,
        relevant: tuple[tuple[int, ...] | None, ...] | None,
        eligible: tuple[ActionName, ...] | None = None,
        group: str | None = None,
        costs: tuple[float, ...] | None = None,
    ) -> Decision: ...

    def freeze(self) -> Callable[[], bytes]: ...

    def freeze_policy(self) -> Callable[[], bytes]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Decisions of a policy over a stream of T steps.

    Attributes
    ----------
    actions
        The index of the action taken at each step.
    explored
        Whether it was an exploration.
    observed
        Whether the policy observed the reward.
    rewards
        The reward of the action taken, observed or not.
    policy
        The name of the policy's class, if known; charts label its line with it.
    costs
        The cost of the action taken at each step; None where costs do not matter.
    control
        Whether each step belonged to the control group; None without a ``control_share``.
    label_costs
        What the reward costs to find out at each step, in ordinary labels; None where none was given.
    """

    actions: Array
    explored: Array
    observed: Array
    rewards: Array
    policy: str | None = None
    costs: Array | None = None
    control: Array | None = None
    label_costs: Array | None = None

    def __len__(self) -> int:
        return len(self.actions)


def replay(
    policy: Replayable,
    contexts: Any,
    rewards: Any,
    eligible: Any = None,
    cost: Any = None,
    label_costs: Any = None,
) -> Trace:
    """Replay a recorded stream: decide for each context, and learn the rewards that the policy requests.

    The decisions and the policy's state afterwards are those of ``decide`` and ``learn`` one by one, bit for bit;
    policies with a compiled loop use it.

    Parameters
    ----------
    policy
        Any policy, or an object of your own with a method ``replay`` that returns a :class:`Trace`.
    contexts
        One row for each step: a matrix (T × D), a table, or a sequence of contexts.
    rewards
        The reward of every action at every step (T × A). The policy reads only those that it observes; the others may
        be NaN.
    eligible
        Which actions could be chosen: one sequence of names for all steps, one for each step (None: all actions), or a
        boolean mask (T × A). Rewards of other actions are not read.
    cost
        What each action costs: costs of all steps, a mapping or a row for each step, or a matrix (T × A); None for the
        policy's fixed costs, or without any.
    label_costs
        What the reward of each step costs to find out, in ordinary labels: a number for all steps, or one for each;
        None for ordinary ones.

    Examples
    --------
    >>> import numpy as np, releaf
    >>> contexts = np.random.default_rng(0).random((1000, 3))
    >>> rewards = np.column_stack([contexts[:, 0], 1 - contexts[:, 0]])
    >>> trace = releaf.replay(releaf.Releaf(actions=2, features=3, seed=0), contexts, rewards)
    >>> bool(trace.observed.mean() < 0.2)  # requested rewards
    True
    """
    if not isinstance(policy, Replayable):
        raise TypeError(f"policy is a {type(policy).__name__} without a method replay(contexts, rewards)")
    options = (("eligible", eligible), ("cost", cost), ("label_costs", label_costs))
    given = {name: value for name, value in options if value is not None}
    trace = policy.replay(contexts, rewards, **given)
    return trace if trace.policy is not None else dataclasses.replace(trace, policy=type(policy).__name__)


def action_names(actions: Actions) -> tuple[ActionName, ...]:
    """Names of the actions: those given, or 0 … A-1 for a count."""
    if isinstance(actions, bool | float | str | set | frozenset) or actions is None:
        raise TypeError(f"actions must be a count or a sequence of names, got {actions!r}")
    if isinstance(actions, int | np.integer):
        if actions < 1:
            raise ValueError(f"actions must be at least 1, got actions={actions}")
        return tuple(range(int(actions)))
    names = tuple(plain_name(name) for name in actions)
    if not names:
        raise ValueError("actions must have at least one name, got none")
    if len(set(names)) < len(names):
        raise ValueError(f"actions must have different names, got {names!r}")
    return names


def plain_name(name: Any) -> ActionName:
    """Convert an action's name to a plain Python value, which saves and loads unchanged."""
    if type(name) is str or type(name) is int:
        return name
    value = name.item() if isinstance(name, np.generic) else name
    if not isinstance(value, str | int | float) or value != value:
        raise TypeError(f"an action's name must be text, a number or a boolean, got {name!r}")
    return value
