"""What all policies share: labels, contexts, and the book of decisions that wait for a reward."""

from __future__ import annotations

import secrets
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, ClassVar

import numpy as np

from releaf.decision import ActionName, Decision
from releaf.policies.argument_checks import whole
from releaf.policies.context_encoding import ContextEncoding
from releaf.policies.pending_decisions import PendingDecision, rows_to_keep, without_action
from releaf.policies.reward_checks import checked_column, checked_reward, checked_rewards, checked_table, positions_of
from releaf.policies.serialization import Serializable
from releaf.policies.service_hooks import ServiceHooks
from releaf.policies.traits import Traits
from releaf.policy import Actions, Trace, action_names, plain_name
from releaf.schema import Features, Schema

Array = np.ndarray[Any, np.dtype[Any]]
_FLOAT64 = np.dtype(np.float64)

Relevant = tuple[tuple[int, ...] | None, ...]
# What a policy's own rule says to one context: action, explored, probability, estimates, relevant. Plain tuples here
# and for what waits, because they are made on every decision.
Selection = tuple[int, bool, float | None, tuple[float, ...] | None, Relevant | None]


class OnlinePolicy(Serializable, ContextEncoding, ServiceHooks, ABC):
    """A policy that decides step by step. A subclass supplies the rule; see the methods that raise.

    Threads may share a policy: their calls take turns.

    Parameters
    ----------
    actions, features
        As for :class:`releaf.Releaf`.
    observe
        Which rewards are wanted: "never" any; "explored", that of the action, on explorations; "always";
        "all-actions", those of all actions, on explorations; "labels", those of all actions, always, as the right
        label tells them.
    max_pending
        How many decisions may wait for their reward; beyond that the oldest is forgotten.
    """

    traits: ClassVar[Traits]
    _learns_from_logs: ClassVar[bool] = True

    def __init__(
        self,
        actions: Actions,
        features: Features,
        observe: str,
        max_pending: int,
    ) -> None:
        self._action_names = action_names(actions)
        self._set_schema(features)
        self.observe = observe
        self._always_wants = observe in ("always", "labels")
        self._wants_all = observe in ("all-actions", "labels")
        self.max_pending = whole("max_pending", max_pending, least=1)
        self._checked_reward: Callable[[Any], float] = checked_reward  # or of another range
        self._steps = 0
        self._pending: OrderedDict[int, PendingDecision] = OrderedDict()
        self._token = secrets.randbits(62)
        self._lock = threading.RLock()

    # --- what a subclass supplies -------------------------------------------------------------------------

    @abstractmethod
    def _choose(self, context: Array) -> Selection:
        """Decide for a context in [0, 1]; raise for a value that is out of range, and then change nothing."""

    @abstractmethod
    def _learn(self, context: Array, step: int, index: int, reward: float) -> None:
        """Learn the reward of one action, taken at decision ``step``."""

    @abstractmethod
    def _learn_all(self, context: Array, step: int, rewards: Array) -> None:
        """Learn the rewards of all actions, or of the first ones where some were added since."""

    @abstractmethod
    def _add_action(self) -> None:
        """Make room for one more action."""

    @abstractmethod
    def _remove_action(self, index: int) -> None:
        """Forget one action of several, and move those after it up."""

    @abstractmethod
    def _set_generator(self, state: int) -> None:
        """Let the next random draws follow from another state of the generator."""

    def __repr__(self) -> str:
        name, actions, features = type(self).__name__, len(self._action_names), len(self._schema)
        return f"{name}({actions} actions, {features} features, {self._steps:,} decisions)"

    # --- the protocol -------------------------------------------------------------------------------------

    @property
    def actions(self) -> tuple[ActionName, ...]:
        """The labels of the actions."""
        return self._action_names

    @property
    def schema(self) -> Schema:
        """The features of a context."""
        return self._schema

    @property
    def prior_labels(self) -> int:
        """How many labelled cases it was given before its first decision; part of what its decisions cost."""
        return 0

    @property
    def pending(self) -> int:
        """How many decisions wait for their reward."""
        return len(self._pending)

    def decide(self, context: Any) -> Decision:
        """Choose an action for a context.

        Parameters
        ----------
        context
            A sequence, a mapping from feature names, a numpy row, or one row of a pandas, polars or pyarrow table.
        """
        if type(context) is np.ndarray and context.dtype is _FLOAT64 and context.shape == self._plain_shape:
            unit = context.copy()
        else:
            unit = self._encode(context)
        with self._lock:
            return self._record_decision(unit, self._choose(unit))

    def _record_decision(self, unit: Array, selection: Selection) -> Decision:
        """The decision for an encoded context, remembered where its reward is wanted; under the lock."""
        index, explored, probability, estimates, relevant = selection
        labels, token = self._action_names, self._token
        self._steps = step = self._steps + 1
        wants_reward = self._always_wants or (explored and self.observe != "never")
        if wants_reward:
            self._pending[step] = (unit, index, len(labels))
            if len(self._pending) > self.max_pending:
                self._pending.popitem(last=False)
        return Decision(
            step, labels[index], index, explored, wants_reward, probability, estimates, relevant, unit, token, labels
        )

    def decide_many(self, contexts: Any) -> list[Decision]:
        """Choose an action for each of many contexts, none of whose rewards is known before the last decision.

        The same as deciding one by one, except that bad input anywhere is refused before the first decision.
        Explorations of a batch are decided without each other's rewards, so shorter batches explore less.

        Parameters
        ----------
        contexts
            A matrix, a table, or a sequence of contexts.
        """
        with self._lock:
            units = self._encode_many(contexts)
            return list(map(self._record_decision, rows_to_keep(units), self._choose_all(units)))

    def _choose_all(self, units: Array) -> Iterable[Selection]:
        """Choose for encoded contexts, one by one as they are wanted; a policy with a compiled loop does it there."""
        return map(self._choose, units)

    def preview(self, context: Any) -> Decision:
        """The decision that it would make now, without making it: nothing is remembered, counted or drawn.

        Parameters
        ----------
        context
            As for ``decide``.
        """
        with self._lock:
            arrays, encoder = self._changed_by_decision(), self._encoder.state()
            pending, steps = self._pending.copy(), self._steps
            try:
                return self.decide(context)
            finally:
                self._pending, self._steps = pending, steps
                self._undo_decision(arrays)
                self._encoder.restore(encoder)

    def learn(self, choice: Decision | int, reward: Any, action: ActionName | None = None) -> None:
        """Learn the reward of a decision that wants one: at once, late, or in any order.

        Parameters
        ----------
        choice
            The decision, or its ``id``.
        reward
            A number in [0, 1], or in the ``reward_range`` of a learner that has one. With ``observe="all-actions"`` or
            ``"labels"`` one for each action, as a sequence or a mapping from labels.
        action
            The action that was taken instead, where someone overruled the decision: the reward is learnt for that one.
            None for the action chosen.
        """
        if type(choice) is Decision and choice._learner == self._token:
            number = choice.id
        else:
            number = self._number_of(choice)
        with self._lock:
            pending = self._pending.get(number)
            if pending is None:
                raise ValueError(self._why_not_pending(choice, number))
            context, index, actions = pending
            if isinstance(choice, Decision) and choice._context is not context:
                self._require_same(choice, context, index)
            if action is not None:
                index = self._taken_instead(action, index)
            if self._wants_all:
                self._learn_all(context, number, checked_rewards(reward, self._action_names[:actions]))
            else:
                self._learn(context, number, index, self._checked_reward(reward))
            del self._pending[number]

    def _taken_instead(self, action: ActionName, chosen: int) -> int:
        """The position of the action that was taken, where its reward can be learnt."""
        if self._wants_all:
            raise ValueError(
                f"action={action!r} makes no difference where the rewards of all actions are learnt "
                f"(observe={self.observe!r}): expected none"
            )
        index = self._index_of(action)
        if index != chosen and not self._learns_from_logs:
            name, own = type(self).__name__, self._action_names[chosen]
            raise ValueError(f"{name} can't learn the reward of {action!r}: expected the action that it chose, {own!r}")
        return index

    def _index_of(self, action: ActionName) -> int:
        label = plain_name(action)
        if label not in self._action_names:
            raise ValueError(f"unknown action {label!r}: the actions are {self._action_names!r}")
        return self._action_names.index(label)

    def replay(self, contexts: Any, rewards: Any) -> Trace:
        """Live through a recorded stream; see :func:`releaf.replay`."""
        if not hasattr(contexts, "__len__"):
            raise TypeError(f"contexts must be a matrix, a table or a sequence of contexts, got {contexts!r}")
        with self._lock:
            table = checked_table(rewards, len(contexts), self._action_names)
            if not np.isnan(table).any():
                return self._replay(self._encode_many(contexts), table)
            backup = self._snapshot()  # a reward that is needed may turn out to be NaN: then nothing has happened
            try:
                return self._replay(self._encode_many(contexts), table)
            except ValueError:
                self._restore(backup)
                raise

    def _replay(self, units: Array, rewards: Array) -> Trace:
        """Replay checked input, step by step; a policy with a compiled loop does it there."""
        actions = np.zeros(len(units), dtype=np.int64)
        explored, observed = np.zeros(len(units), dtype=np.bool_), np.zeros(len(units), dtype=np.bool_)
        for step, unit in enumerate(units):
            unit = unit.copy()
            choice = self._record_decision(unit, self._choose(unit))
            actions[step], explored[step], observed[step] = choice.index, choice.explored, choice.wants_reward
            if choice.wants_reward:
                self.learn(choice, rewards[step] if self._wants_all else rewards[step, choice.index])
        return Trace(actions, explored, observed, rewards[np.arange(len(units)), actions])

    def learn_log(self, contexts: Any, actions: Any, rewards: Any) -> None:
        """Learn from decisions that something else made: a warm start from a log.

        Each row is lived through as if it had arrived now, and the reward of the action that was taken is learnt,
        asked for or not. Bad input anywhere is refused before anything is learnt.

        Parameters
        ----------
        contexts
            A matrix, a table, or a sequence of contexts.
        actions
            The action that was taken in each, one of the learner's.
        rewards
            What it earned.
        """
        if not self._learns_from_logs:
            raise ValueError(f"{type(self).__name__} can't learn from a log, which has the reward of one action a row")
        with self._lock:
            taken, gained = positions_of(actions, self._action_names), checked_column(rewards, self._checked_reward)
            if not len(contexts) == len(taken) == len(gained):
                lengths = f"{len(contexts)} contexts, {len(taken)} actions and {len(gained)} rewards"
                raise ValueError(f"a log needs an action and a reward for each context, got {lengths}")
            self._learn_log(self._encode_many(contexts), taken, gained)

    @abstractmethod
    def _learn_log(self, units: Array, taken: Array, rewards: Array) -> None:
        """Decide for each context, and learn the reward of the action that was taken instead."""

    def estimate(self, contexts: Any) -> Array:
        """The reward that it expects of each action in each of many contexts (T × A); nothing changes.

        NaN where a policy has no estimates because it would explore; RELEAF and AdaptiveReleaf always have some. Each
        row is judged by itself, with the quantiles as they are.

        Parameters
        ----------
        contexts
            A matrix, a table, or a sequence of contexts.
        """
        with self._lock:
            return self._estimate(self._encode_many(contexts, learns=False))

    def _estimate(self, units: Array) -> Array:
        """Estimates for encoded contexts, one by one; a policy with a compiled loop does it there."""
        expected = np.full((len(units), len(self._action_names)), np.nan)
        for row, unit in enumerate(units):
            changed = self._changed_by_decision()
            try:
                estimates = self._choose(unit)[3]
            finally:
                self._undo_decision(changed)
            if estimates is not None:
                expected[row] = estimates
        return expected

    def add_action(self, action: ActionName | None = None) -> ActionName:
        """Add an action while running; it starts with no observations, so it is explored.

        Parameters
        ----------
        action
            Its label; when None, the number of actions so far, or the next that is no label yet.
        """
        with self._lock:
            free = (number for number in count(len(self._action_names)) if number not in self._action_names)
            label = next(free) if action is None else plain_name(action)
            if label in self._action_names:
                raise ValueError(f"action {label!r} exists already; the actions are {self._action_names!r}")
            self._add_action()
            self._action_names = (*self._action_names, label)
        return label

    def remove_action(self, action: ActionName) -> None:
        """Remove an action while running, with all that is known of it; what is known of the others stays.

        The actions after it move up by one place. Its decisions that wait for their reward no longer do, the others
        still do. Added again, it starts with no observations.

        Parameters
        ----------
        action
            Its label; one action at least must stay.
        """
        with self._lock:
            index = self._index_of(action)
            if len(self._action_names) == 1:
                raise ValueError(f"action {action!r} can't be removed: it is the only one, and one must stay")
            self._remove_action(index)
            self._action_names = self._action_names[:index] + self._action_names[index + 1 :]
            self._pending = without_action(self._pending, index)

    def merge(self, other: Any) -> Any:
        """What this learner and another know together, where learners of this kind add up.

        Those on adaptive partitions do; see :meth:`releaf.Releaf.merge`.
        """
        raise TypeError(f"{type(self).__name__} does not add up: only Releaf and GreedyReleaf do")

    # --- decisions that wait ---------------------------------------------------------------------------------------

    def _require_own(self, choice: Any) -> None:
        """Raise unless it is a decision, and one of this learner."""
        if not isinstance(choice, Decision):
            raise TypeError(f"choice must be the Decision itself, got {choice!r}")
        self._number_of(choice)

    def _number_of(self, choice: Decision | int) -> int:
        if type(choice) is int:
            return choice
        if isinstance(choice, Decision):
            if choice._learner != self._token:
                raise ValueError(f"{choice!r} was made by another learner: expected a decision of this one")
            return choice.id
        if isinstance(choice, bool) or not isinstance(choice, int | np.integer):
            raise TypeError(f"choice must be a Decision or its id, got {choice!r}")
        return int(choice)

    def _require_same(self, choice: Decision, context: Array, action: int) -> None:
        """Two learners loaded from one file share their past, and part with the first decision after it."""
        if choice.action != self._action_names[action] or not np.array_equal(choice._context, context):
            raise ValueError(f"{choice!r} was made by another learner: expected a decision of this one")

    def _why_not_pending(self, choice: Decision | int, number: int) -> str:
        if not 1 <= number <= self._steps:
            return f"unknown decision {number}: this learner has made decisions 1 to {self._steps}"
        if self.observe == "never":
            return f"decision {number} does not wait for a reward: {type(self).__name__} never asks for one"
        if isinstance(choice, Decision) and not choice.wants_reward:
            return (
                f"decision {number} did not ask for a reward (observe={self.observe!r}): learn only where wants_reward"
            )
        return (
            f"decision {number} does not wait for a reward: it was learnt already, did not ask for one, "
            f"is older than the newest {self.max_pending} that wait (max_pending), or its action was removed"
        )

    # --- going back ---------------------------------------------------------------------------------------

    def _changed_by_decision(self) -> dict[str, Array]:
        """Copies of all that a decision may change; a policy that knows copies less than all there is."""
        return self._arrays()

    def _undo_decision(self, arrays: dict[str, Array]) -> None:
        """Go back to what ``_changed_by_decision`` gave."""
        self._load_state(arrays)

    def _snapshot(self) -> tuple[Any, ...]:
        return self._arrays(), self._encoder.state(), self._pending.copy(), self._steps

    def _restore(self, snapshot: tuple[Any, ...]) -> None:
        arrays, encoder, self._pending, self._steps = snapshot
        self._load_state(arrays)
        self._encoder.restore(encoder)
