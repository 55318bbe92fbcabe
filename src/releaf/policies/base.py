"""What all policies share: labels, contexts, and the book of decisions that wait for a reward."""

from __future__ import annotations

import secrets
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from releaf.decision import Decision, Label
from releaf.policies.checks import whole
from releaf.policies.rewards import checked_column, checked_reward, checked_rewards, checked_table, positions_of
from releaf.policies.saving import Saved, Waiting
from releaf.policies.traits import Traits
from releaf.policy import Actions, Trace, action_labels, plain_label
from releaf.schema import Features, Schema
from releaf.table import width_error

Array = np.ndarray[Any, np.dtype[Any]]
_FLOAT64 = np.dtype(np.float64)


Relevant = tuple[tuple[int, ...] | None, ...]
# What a policy's own rule says to one context: action, explored, probability, estimates, relevant. Plain tuples here
# and for what waits, because they are made on every decision.
Verdict = tuple[int, bool, float | None, tuple[float, ...] | None, Relevant | None]


class OnlinePolicy(Saved, ABC):
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
        self._labels = action_labels(actions)
        self._schema = Schema.of(features)
        self._encoder = self._schema.encoder()
        self._shape = (len(self._schema),)
        self._plain_shape = self._shape if self._encoder.is_unit else None
        self.observe = observe
        self._always_wants = observe in ("always", "labels")
        self._wants_all = observe in ("all-actions", "labels")
        self.max_pending = whole("max_pending", max_pending, least=1)
        self._checked_reward: Callable[[Any], float] = checked_reward  # or of another range
        self._steps = 0
        self._waiting: OrderedDict[int, Waiting] = OrderedDict()
        self._token = secrets.randbits(62)
        self._lock = threading.RLock()

    # --- what a subclass supplies -------------------------------------------------------------------------

    @abstractmethod
    def _choose(self, context: Array) -> Verdict:
        """Decide for a context in [0, 1]; raise for a value that is out of range, and then change nothing."""

    @abstractmethod
    def _take_in(self, context: Array, step: int, index: int, reward: float) -> None:
        """Learn the reward of one action, taken at decision ``step``."""

    @abstractmethod
    def _take_in_all(self, context: Array, step: int, rewards: Array) -> None:
        """Learn the rewards of all actions, or of the first ones where some were added since."""

    @abstractmethod
    def _widen(self) -> None:
        """Make room for one more action."""

    @abstractmethod
    def _set_generator(self, state: int) -> None:
        """Let the next random draws follow from another state of the generator."""

    def __repr__(self) -> str:
        name, actions, features = type(self).__name__, len(self._labels), len(self._schema)
        return f"{name}({actions} actions, {features} features, {self._steps:,} decisions)"

    # --- the protocol -------------------------------------------------------------------------------------

    @property
    def actions(self) -> tuple[Label, ...]:
        """The labels of the actions."""
        return self._labels

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
        return len(self._waiting)

    def decide(self, context: Any) -> Decision:
        """Choose an action for a context.

        Parameters
        ----------
        context
            A sequence, a mapping from feature names, a numpy row, or one row of a pandas, polars or pyarrow table.
        """
        if type(context) is np.ndarray and context.dtype is _FLOAT64 and context.shape == self._plain_shape:
            return self._decide(context.copy())
        return self._decide(self._encode(context))

    def _decide(self, unit: Array) -> Decision:
        """Decide for an encoded context, and remember the decision where its reward is wanted."""
        with self._lock:
            index, explored, probability, estimates, relevant = self._choose(unit)
            self._steps = step = self._steps + 1
            wants_reward = self._always_wants or (explored and self.observe != "never")
            if wants_reward:
                self._waiting[step] = (unit, index, len(self._labels))
                if len(self._waiting) > self.max_pending:
                    self._waiting.popitem(last=False)
        label, token = self._labels[index], self._token
        return Decision(step, label, index, explored, wants_reward, probability, estimates, relevant, unit, token)

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
            return [self._decide(unit.copy()) for unit in self._encode_many(contexts)]

    def preview(self, context: Any) -> Decision:
        """The decision that it would make now, without making it: nothing is remembered, counted or drawn.

        Parameters
        ----------
        context
            As for ``decide``.
        """
        with self._lock:
            arrays, encoder = self._changed_by_deciding(), self._encoder.state()
            waiting, steps = self._waiting.copy(), self._steps
            try:
                return self.decide(context)
            finally:
                self._waiting, self._steps = waiting, steps
                self._undo_deciding(arrays)
                self._encoder.restore(encoder)

    def learn(self, choice: Decision | int, reward: Any) -> None:
        """Learn the reward of a decision that wants one: at once, late, or in any order.

        Parameters
        ----------
        choice
            The decision, or its ``id``.
        reward
            A number in [0, 1], or in the ``reward_range`` of a learner that has one. With ``observe="all-actions"`` or
            ``"labels"`` one for each action, as a sequence or a mapping from labels.
        """
        if type(choice) is Decision and choice._learner == self._token:
            number = choice.id
        else:
            number = self._number_of(choice)
        with self._lock:
            waiting = self._waiting.get(number)
            if waiting is None:
                raise ValueError(self._why_not_waiting(choice, number))
            context, action, actions = waiting
            if isinstance(choice, Decision) and choice._context is not context:
                self._require_same(choice, context, action)
            if self._wants_all:
                self._take_in_all(context, number, checked_rewards(reward, self._labels[:actions]))
            else:
                self._take_in(context, number, action, self._checked_reward(reward))
            del self._waiting[number]

    def replay(self, contexts: Any, rewards: Any) -> Trace:
        """Live through a recorded stream; see :func:`releaf.replay`."""
        if not hasattr(contexts, "__len__"):
            raise TypeError(f"contexts must be a matrix, a table or a sequence of contexts, got {contexts!r}")
        table = checked_table(rewards, len(contexts), self._labels)
        with self._lock:
            if not np.isnan(table).any():
                return self._live_through(self._encode_many(contexts), table)
            backup = self._snapshot()  # a reward that is needed may turn out to be NaN: then nothing has happened
            try:
                return self._live_through(self._encode_many(contexts), table)
            except ValueError:
                self._return_to(backup)
                raise

    def _live_through(self, units: Array, rewards: Array) -> Trace:
        """Replay checked input, step by step; a policy with a compiled loop does it there."""
        actions = np.zeros(len(units), dtype=np.int64)
        explored, observed = np.zeros(len(units), dtype=np.bool_), np.zeros(len(units), dtype=np.bool_)
        for step, unit in enumerate(units):
            choice = self._decide(unit.copy())
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
        taken, gained = positions_of(actions, self._labels), checked_column(rewards, self._checked_reward)
        if not len(contexts) == len(taken) == len(gained):
            lengths = f"{len(contexts)} contexts, {len(taken)} actions and {len(gained)} rewards"
            raise ValueError(f"a log needs an action and a reward for each context, got {lengths}")
        with self._lock:
            self._live_through_log(self._encode_many(contexts), taken, gained)

    @abstractmethod
    def _live_through_log(self, units: Array, taken: Array, rewards: Array) -> None:
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
            return self._expect(self._encode_many(contexts, learns=False))

    def _expect(self, units: Array) -> Array:
        """Estimates for encoded contexts, one by one; a policy with a compiled loop does it there."""
        expected = np.full((len(units), len(self._labels)), np.nan)
        for row, unit in enumerate(units):
            changed = self._changed_by_deciding()
            try:
                estimates = self._choose(unit)[3]
            finally:
                self._undo_deciding(changed)
            if estimates is not None:
                expected[row] = estimates
        return expected

    def add_action(self, action: Label | None = None) -> Label:
        """Add an action while running; it starts with no observations, so it is explored.

        Parameters
        ----------
        action
            Its label; when None, the number of actions so far.
        """
        label = len(self._labels) if action is None else plain_label(action)
        with self._lock:
            if label in self._labels:
                raise ValueError(f"action {label!r} exists already; the actions are {self._labels!r}")
            self._widen()
            self._labels = (*self._labels, label)
        return label

    # --- contexts and rewards -----------------------------------------------------------------------------

    def _encode(self, context: Any) -> Array:
        """The context as a row of its own; values in [0, 1] by the schema, or still to be checked by the rule."""
        if not self._encoder.is_unit:
            with self._lock:  # quantiles learn
                return self._encoder.encode(context)
        if isinstance(context, list | tuple):
            if len(context) != self._shape[0]:
                raise ValueError(width_error(len(context), self._schema.names))
            try:
                row = np.array(context, dtype=np.float64)
            except (TypeError, ValueError, OverflowError):
                return self._encoder.encode(context)  # names the feature that is wrong
            if row.shape == self._shape and not any(isinstance(value, str | bytes | None) for value in context):
                return row
        return self._encoder.encode(context)

    def _encode_many(self, contexts: Any, learns: bool = True) -> Array:
        """All contexts as a matrix, checked; quantiles learn from them, or stay as they are."""
        plain = self._encoder.is_unit and isinstance(contexts, np.ndarray) and contexts.dtype.kind in "fiub"
        if plain and contexts.ndim == 2 and contexts.shape[1] == self._shape[0]:
            matrix = np.require(contexts, dtype=np.float64, requirements=["C", "W"])  # kernels are compiled for that
            if bool(np.all((matrix >= 0.0) & (matrix <= 1.0))):
                return matrix
        return self._encoder.encode_many(contexts, learns)

    def _out_of_range(self, context: Array, place: int) -> ValueError:
        feature, name = self._schema.features[place], self._schema.names[place]
        return ValueError(f"feature {name!r} is {context[place]}: expected {feature.expects}")

    def _require_own(self, choice: Any) -> None:
        """Raise unless it is a decision, and one of this learner."""
        if not isinstance(choice, Decision):
            raise TypeError(f"choice must be the Decision itself, got {choice!r}")
        self._number_of(choice)

    def _number_of(self, choice: Decision | int) -> int:
        if isinstance(choice, Decision):
            if choice._learner != self._token:
                raise ValueError(f"{choice!r} was made by another learner: expected a decision of this one")
            return choice.id
        if isinstance(choice, bool) or not isinstance(choice, int | np.integer):
            raise TypeError(f"choice must be a Decision or its id, got {choice!r}")
        return int(choice)

    def _require_same(self, choice: Decision, context: Array, action: int) -> None:
        """Two learners loaded from one file share their past, and part with the first decision after it."""
        if choice.index != action or not np.array_equal(choice._context, context):
            raise ValueError(f"{choice!r} was made by another learner: expected a decision of this one")

    def _why_not_waiting(self, choice: Decision | int, number: int) -> str:
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
            f"or is older than the newest {self.max_pending} that wait (max_pending)"
        )

    # --- going back ---------------------------------------------------------------------------------------

    def _changed_by_deciding(self) -> dict[str, Array]:
        """Copies of all that a decision may change; a policy that knows copies less than all there is."""
        return self._arrays()

    def _undo_deciding(self, arrays: dict[str, Array]) -> None:
        """Go back to what ``_changed_by_deciding`` gave."""
        self._take_up(arrays)

    def _snapshot(self) -> tuple[Any, ...]:
        return self._arrays(), self._encoder.state(), self._waiting.copy(), self._steps

    def _return_to(self, snapshot: tuple[Any, ...]) -> None:
        arrays, encoder, self._waiting, self._steps = snapshot
        self._take_up(arrays)
        self._encoder.restore(encoder)
