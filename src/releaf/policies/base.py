"""`OnlinePolicy`, the base class of all policies: actions, contexts and pending decisions."""

from __future__ import annotations

import secrets
import threading
import warnings
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress, count, repeat, starmap
from typing import Any, ClassVar

import numpy as np

from releaf.arrays import Array
from releaf.decision import ActionName, Decision
from releaf.decision_batch import Decisions, Selection, Selections
from releaf.html_table import html_table
from releaf.policies.argument_checks import whole
from releaf.policies.control_group import UNIFORM
from releaf.policies.costs import Costs
from releaf.policies.eligibility import checked_mask, checked_masks, names_of
from releaf.policies.label_costs import ORDINARY
from releaf.policies.log_learning import LogLearning
from releaf.policies.optional_methods import OptionalMethods
from releaf.policies.pending_decisions import (
    PendingDecision,
    canonical,
    copied_rows,
    decision_id,
    why_not_pending,
    without_action,
)
from releaf.policies.policy_export import Exportable
from releaf.policies.previews import Previews
from releaf.policies.replays import Replays
from releaf.policies.reward_checks import (
    UNIT,
    checked_reward,
    checked_reward_range,
    checked_rewards,
    scaled_reward,
)
from releaf.policies.service_hooks import ServiceHooks
from releaf.policy import Actions, action_names, plain_name
from releaf.schema import Features, Schema
from releaf.traits import Traits

_FLOAT64 = np.dtype(np.float64)


class OnlinePolicy(Replays, Previews, LogLearning, Exportable, OptionalMethods, ServiceHooks, ABC):
    """A policy that decides step by step. A subclass implements the abstract methods.

    Policies are thread-safe: each has a lock.

    Parameters
    ----------
    actions, features
        As for :class:`releaf.Releaf`.
    observe
        Which rewards are wanted: "never" any; "explored", that of the action, on explorations; "always";
        "all-actions", those of all actions, on explorations; "labels", those of all actions, always, derived from the
        label.
    max_pending
        Most pending decisions; beyond that the learner evicts the oldest, whose rewards it can't learn any more. It
        must exceed the rate of decisions times the delay of rewards: else late rewards are lost, and estimates biased
        where some rewards, such as clicks, come sooner than others.
    reward_range
        Lowest and highest possible reward. The rule learns rewards scaled to [0, 1]; what a user passes and gets is in
        the user's units.
    """

    traits: ClassVar[Traits]
    _replay_follows: ClassVar[type[OnlinePolicy] | None] = None  # class whose decide and learn the compiled loop does

    def __init__(
        self,
        actions: Actions,
        features: Features,
        observe: str,
        max_pending: int,
        reward_range: tuple[float, float] = UNIT,
    ) -> None:
        self._action_names = action_names(actions)
        self._set_schema(features)
        self.observation_mode = observe
        self._always_wants = observe in ("always", "labels")
        self._wants_all = observe in ("all-actions", "labels")
        self.max_pending = whole("max_pending", max_pending, least=1)
        self.reward_range = self._low, high = checked_reward_range(reward_range)
        self._span = high - self._low
        self._is_unit = self.reward_range == UNIT
        # Validates one reward and scales it to [0, 1].
        self._checked_reward: Callable[[Any], float] = (
            checked_reward if self._is_unit else partial(scaled_reward, low=self._low, high=high)
        )
        self._steps = self._evicted = 0
        self._evicts = True
        self._pending: OrderedDict[int, PendingDecision] = OrderedDict()
        self._token = secrets.randbits(62)
        self._lock = threading.RLock()

    # --- what a subclass implements -------------------------------------------------------------------------

    @abstractmethod
    def _choose(self, context: Array) -> Selection:
        """Decide for a context in [0, 1]. A value out of range raises a ValueError; state is then unchanged."""

    @abstractmethod
    def _learn(self, context: Array, step: int, index: int, reward: float) -> None:
        """Learn the reward of one action, taken at decision ``step``."""

    @abstractmethod
    def _learn_all(self, context: Array, step: int, rewards: Array) -> None:
        """Learn the rewards of all actions, or of the first ones where actions were added since."""

    @abstractmethod
    def _add_action(self) -> None:
        """Add an action at the end."""

    @abstractmethod
    def _remove_action(self, index: int) -> None:
        """Remove one action of several; the indices of later ones decrease by one."""

    @abstractmethod
    def set_random_state(self, state: int) -> None:
        """Set the state of the random generator, a signed 64-bit integer."""

    def _request_rule(self) -> str:
        """By which parameters rewards are requested, for error messages."""
        return f"observe={self.observation_mode!r}"

    def _requested_rewards(self) -> int:
        """Number of requested rewards, for policies that request some only."""
        return 0

    def __repr__(self) -> str:
        name, actions, features = type(self).__name__, len(self._action_names), len(self._schema)
        return f"{name}({actions} actions, {features} features, {self._steps:,} decisions)"

    def _repr_html_(self) -> str:
        """For notebooks."""
        counts = {
            "actions": len(self._action_names),
            "features": len(self._schema),
            "decisions": self._steps,
            "labels spent": self.labels_spent,
            "pending decisions": self.pending,
        }
        return html_table(list(counts), [[f"{count:,}" for count in counts.values()]], title=type(self).__name__)

    # --- the protocol -------------------------------------------------------------------------------------

    @property
    def actions(self) -> tuple[ActionName, ...]:
        """Names of the actions."""
        return self._action_names

    @property
    def schema(self) -> Schema:
        """Features of a context."""
        return self._schema

    @property
    def prior_labels(self) -> int:
        """Number of labels used before the first decision; part of the cost of its decisions."""
        return 0

    @property
    def weight_labels(self) -> int:
        """Number of the prior labels that were used for the weights of an ensemble."""
        return 0

    @property
    def pending(self) -> int:
        """Number of pending decisions."""
        return len(self._pending)

    @property
    def evicted(self) -> int:
        """Number of decisions that were evicted while pending, since more than ``max_pending`` were."""
        return self._evicted

    def decide(
        self,
        context: Any,
        eligible: Sequence[ActionName] | None = None,
        cost: Costs | None = None,
        label_cost: float | None = None,
    ) -> Decision:
        """Choose an action for a context.

        Parameters
        ----------
        context
            A sequence, a mapping from feature names, a numpy row, or one row of a pandas, polars or pyarrow table.
        eligible
            Names of the actions that may be chosen this time; None for all of them. The probability is exact among
            them, and only their rewards can be learnt from this decision. With a single one there is nothing to
            explore: its probability is 1, ``explored`` is False, and its reward is wanted only by a learner that
            observes the rewards of exploitations too (``observe="always"`` or ``"labels"``).
        cost
            Cost of each action this time, as a mapping from actions or a sequence in their order; None for the fixed
            costs. For learners with a ``cost_weight`` or a ``spend_budget``.
        label_cost
            What the reward of this decision costs to find out, in ordinary labels; None for an ordinary one. For
            learners with a ``label_budget`` or an ``observation_cost``.
        """
        if label_cost is not None:
            return self._decide_at_label_cost(context, eligible, cost, label_cost)
        if eligible is not None or cost is not None or self._needs_costs or self.control_share:
            return self._decide_among(context, eligible, cost)
        if type(context) is np.ndarray and context.dtype is _FLOAT64 and context.shape == self._plain_shape:
            unit = context.copy()
        else:
            unit = self._encode(context)
        with self._lock:
            return self._record_decision(unit, self._choose(unit))

    def _decide_among(self, context: Any, eligible: Any, cost: Any = None) -> Decision:
        """Choose one of the eligible actions, at these costs."""
        with self._lock:
            mask, costs = checked_mask(eligible, self._action_names), self._checked_costs(cost)
            unit = self._encode(context)
            return self._record_decision(unit, self._choose_among(unit, mask, costs), mask, costs)

    def _decide_at_label_cost(self, context: Any, eligible: Any, cost: Any, label_cost: Any) -> Decision:
        """Choose where the label has this cost."""
        with self._lock:
            own = self._checked_label_cost(label_cost)
            with self._labels_costing(own):
                choice = self._decide_among(context, eligible, cost)
        choice.label_cost = None if own is None else own.item()
        return choice

    def _record_decision(
        self, unit: Array, selection: Selection, mask: Array | None = None, costs: Array | None = None
    ) -> Decision:
        """Make the decision for an encoded context, and store it as pending if its reward is wanted. Needs the lock."""
        index, explored, probability, estimates, relevant = selection
        if estimates is not None and not self._is_unit:
            estimates = tuple([self._low + self._span * estimate for estimate in estimates])
        names, token = self._action_names, self._token
        self._steps = step = self._steps + 1
        wants_reward = self._always_wants or (explored and self.observation_mode != "never")
        if wants_reward:
            self._pending[step] = (unit, index, len(names), None if mask is None else mask.tobytes())
            if len(self._pending) > self.max_pending and self._evicts:
                self._evict()
        own = None if mask is None else names_of(mask, names)
        choice = Decision(
            step, names[index], index, explored, wants_reward, probability, estimates, relevant, unit, token, names, own
        )
        choice.costs = self.cost if costs is None else tuple(costs.tolist())
        choice.group = self.group_of(step)
        if self._takes_label_costs:
            choice.label_cost = ORDINARY
        return choice

    def decide_many(self, contexts: Any, eligible: Any = None, cost: Any = None, label_cost: Any = None) -> Decisions:
        """Choose an action for each of many contexts, before any of their rewards is known.

        Decisions are the same as one by one, except that invalid input anywhere raises before the first decision.
        Decisions of a batch do not use each other's rewards, so shorter batches explore less.

        Parameters
        ----------
        contexts
            A matrix, a table, or a sequence of contexts.
        eligible
            As for ``decide``: one sequence of names for all contexts, one for each (None: all actions), or a boolean
            mask (T × A).
        cost
            As for ``decide``: costs of all contexts, a mapping or a row for each, or a matrix (T × A).
        label_cost
            As for ``decide``: one number for all contexts, or one for each.

        Returns
        -------
        Decisions
            Columns such as ``actions`` and ``probabilities``, and a sequence of decisions.
        """
        with self._lock:
            if eligible is None and cost is None and label_cost is None and not self._needs_costs:
                units = self._encode_many(contexts)
                return self._record_decisions(units, self._choose_rows(units))
            contexts = contexts if hasattr(contexts, "__len__") else list(contexts)
            masks = checked_masks(eligible, len(contexts), self._action_names)
            costs = self._checked_cost_table(cost, len(contexts))
            prices = self._checked_label_costs(label_cost, len(contexts))
            units = self._encode_many(contexts)
            with self._labels_costing(prices):
                chosen = self._choose_rows(units, masks, costs)
            decisions = self._record_decisions(units, chosen, masks, costs)
            decisions.label_costs = decisions.label_costs if prices is None else prices
            return decisions

    def _choose_all(self, units: Array, masks: Array | None = None, costs: Array | None = None) -> Selections:
        """Choose for encoded contexts one by one; policies with a compiled loop override it."""
        no_rows = repeat(None)
        rows = zip(units, no_rows if masks is None else masks, no_rows if costs is None else costs, strict=False)
        chosen = map(self._choose, units) if masks is None and costs is None else starmap(self._choose_among, rows)
        return Selections.collect(chosen, len(self._action_names))

    def _record_decisions(
        self, units: Array, chosen: Selections, masks: Array | None = None, costs: Array | None = None
    ) -> Decisions:
        """Make the decisions for encoded contexts, like ``_record_decision``. Needs the lock."""
        ids = np.arange(self._steps + 1, self._steps + 1 + len(units))
        wanted = chosen.explored & (self.observation_mode != "never") | self._always_wants
        rows, names = list(copied_rows(units)), self._action_names
        marks = repeat(None) if masks is None else [canonical(mask.tobytes()) for mask in masks]
        entries = zip(rows, chosen.indices.tolist(), repeat(len(names)), marks, strict=False)
        self._steps += len(units)
        self._pending.update(compress(zip(ids.tolist(), entries, strict=False), wanted.tolist()))
        if len(self._pending) > self.max_pending and self._evicts:
            self._evict()
        estimates = np.where(chosen.explored[:, None], np.nan, self._low + self._span * chosen.estimates)
        return Decisions(
            *(ids, chosen.indices, chosen.explored, wanted, chosen.probabilities, estimates),
            *(chosen.relevant, rows, self._token, names, masks),
            self.cost if costs is None else costs,
            self._control_marks(ids[0].item() if len(ids) else 1, len(ids)),
            np.full(len(ids), ORDINARY) if self._takes_label_costs else None,
        )

    def learn(self, choice: Decision | int, reward: Any, action: ActionName | None = None) -> None:
        """Learn the reward of a pending decision: at once, late, or in any order.

        Parameters
        ----------
        choice
            The decision, or its ``id``.
        reward
            A number in the learner's ``reward_range``, which is [0, 1] by default. With ``observe="all-actions"`` or
            ``"labels"`` one for each action, as a sequence or a mapping from action names; those of actions that were
            not eligible are not learnt, and may be missing, None or NaN.
        action
            The action that was taken instead, if the decision was overruled: the policy learns the reward for that one,
            which must have been eligible. None for the chosen action. A ``spend_budget`` is charged its cost instead,
            if costs are fixed or ``choice`` is the decision itself: of an ``id`` alone, other costs are not known.
        """
        if type(choice) is Decision and choice._learner == self._token:
            number = choice.id
        else:
            number = decision_id(choice, self._token)
        with self._lock:
            pending = self._pending.get(number)
            if pending is None:
                name, observe = type(self).__name__, self.observation_mode
                raise ValueError(
                    why_not_pending(choice, number, self._steps, observe, self.max_pending, name, self._request_rule())
                )
            context, index, actions, eligible = pending
            if isinstance(choice, Decision) and choice._context is not context:
                self._require_same(choice, context, index)
            chosen = index
            if action is not None:
                index = self._taken_instead(action, index, number, eligible)
            if self._wants_all:
                gained = checked_rewards(reward, self._action_names[:actions], self._checked_reward, eligible)
                with self._restricted_to(None if eligible is None else np.frombuffer(eligible, dtype=np.uint8)):
                    self._learn_all(context, number, gained)
                self._count_reward(number, gained[index])
            else:
                value = self._checked_reward(reward)
                self._learn(context, number, index, value)
                self._count_reward(number, value)
                if index != chosen:
                    self._charge_instead(choice, chosen, index)
            del self._pending[number]

    def discard_pending(self, choice: Decision | int) -> None:
        """Discard a pending decision, because its reward will not come; nothing happens if it is not pending.

        Parameters
        ----------
        choice
            The decision, or its ``id``.
        """
        with self._lock:
            self._pending.pop(decision_id(choice, self._token), None)

    def _taken_instead(self, action: ActionName, chosen: int, decision: int, eligible: bytes | None) -> int:
        """Index of the action that was taken instead, if the policy can learn its reward."""
        if self._wants_all:
            raise ValueError(
                f"action={action!r} makes no difference where the rewards of all actions are learnt "
                f"(observe={self.observation_mode!r}): expected none"
            )
        index = self._index_of(action)
        if eligible is not None and (index >= len(eligible) or not eligible[index]):
            known = names_of(np.frombuffer(eligible, dtype=np.uint8), self._action_names[: len(eligible)])
            raise ValueError(f"action {action!r} was not eligible in decision {decision}: expected one of {known!r}")
        if index != chosen and not self.traits.learns_from_logs:
            name, own = type(self).__name__, self._action_names[chosen]
            raise ValueError(f"{name} can't learn the reward of {action!r}: expected the action that it chose, {own!r}")
        return index

    def _index_of(self, action: ActionName) -> int:
        name = plain_name(action)
        if name not in self._action_names:
            raise ValueError(f"unknown action {name!r}: the actions are {self._action_names!r}")
        return self._action_names.index(name)

    def _require_standard_steps(self) -> None:
        """Raise if a class of a user's own overrides a method that the compiled loop of a replay does not call."""
        for name in ("decide", "learn"):
            if getattr(type(self), name) != getattr(self._replay_follows or OnlinePolicy, name):
                raise TypeError(
                    f"{type(self).__name__} overrides {name}, which the compiled loop of replay does not call: "
                    "override replay as well"
                )

    def add_action(self, action: ActionName | None = None, *, cost: float | None = None) -> ActionName:
        """Add an action; it starts without observations, so the policy explores it.

        Parameters
        ----------
        action
            Its name; when None, the number of actions so far, or the next integer that is not a name yet.
        cost
            Its fixed cost, where actions have fixed costs.
        """
        with self._lock:
            name = self._name_of_new(action)
            self.cost = self._with_cost_of_new(name, cost)
            self._add_action()
            self._action_names = (*self._action_names, name)
        return name

    def _name_of_new(self, action: ActionName | None) -> ActionName:
        free = (number for number in count(len(self._action_names)) if number not in self._action_names)
        name = next(free) if action is None else plain_name(action)
        if name in self._action_names:
            raise ValueError(f"action {name!r} exists already; the actions are {self._action_names!r}")
        return name

    def remove_action(self, action: ActionName) -> None:
        """Remove an action and its observations; observations of the others are kept.

        The indices of later actions decrease by one. Its pending decisions are dropped, the others stay pending. Added
        again, the action starts without observations. If it was the control, control is uniform from then on.

        Parameters
        ----------
        action
            Its name; at least one action must remain.
        """
        with self._lock:
            index = self._index_of(action)
            if len(self._action_names) == 1:
                raise ValueError(f"action {action!r} can't be removed: it is the only one, and one must remain")
            if self.cost is not None:
                self.cost = self.cost[:index] + self.cost[index + 1 :]
            if self.control == self._action_names[index]:
                self.control = UNIFORM
            self._remove_action(index)
            self._action_names = self._action_names[:index] + self._action_names[index + 1 :]
            self._pending = without_action(self._pending, index)

    # --- pending decisions ---------------------------------------------------------------------------------------

    def _evict(self) -> None:
        """Evict the oldest pending decisions beyond ``max_pending``, with a warning the first time."""
        if not self._evicted:
            warnings.warn(
                f"more than max_pending={self.max_pending:,} decisions wait for their rewards: the oldest are evicted, "
                "and their rewards can't be learnt, which biases estimates if the rewards that come late differ. "
                "Expected max_pending above decisions per second times the seconds until a reward",
                stacklevel=4,
            )
        while len(self._pending) > self.max_pending:
            self._pending.popitem(last=False)
            self._evicted += 1

    def _require_own(self, choice: Any) -> None:
        """Raise unless it is a decision of this learner."""
        if not isinstance(choice, Decision):
            raise TypeError(f"choice must be the Decision itself, got {choice!r}")
        decision_id(choice, self._token)

    def _decision_to_explain(self, choice: Any) -> tuple[Decision, bool]:
        """A decision of this learner, or the one that it would make for a context now; and whether it is the latter."""
        if isinstance(choice, Decision):
            self._require_own(choice)
            return choice, choice.id > self._steps
        if isinstance(choice, int | float | str | np.number):
            raise TypeError(f"choice must be the Decision itself, or a context, got {choice!r}")
        return self.preview(choice), True

    def _require_same(self, choice: Decision, context: Array, action: int) -> None:
        """Raise if the decision is of another learner that was loaded from the same file and shares its token."""
        if choice.action != self._action_names[action] or not np.array_equal(choice._context, context):
            raise ValueError(f"{choice!r} was made by another learner: expected a decision of this one")
