"""`ActionTablePolicy`: base class of policies for many actions that have features of their own."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from releaf.action_table import ActionTable
from releaf.arrays import Array
from releaf.core.joint.slates import POOL, SLATE
from releaf.core.runtime.primitives import TIME
from releaf.decision import ActionName, Decision
from releaf.decision_batch import Selection, Selections
from releaf.policies.action_requests import checked_request
from releaf.policies.argument_checks import positive, whole
from releaf.policies.changing_actions import ChangingActions
from releaf.policies.control_group import UNIFORM
from releaf.policies.costs import Costs, as_cost_table
from releaf.policies.eligibility import as_table
from releaf.policies.pending_decisions import decision_id
from releaf.policies.slate_decisions import Shown, shown_as_arrays, shown_of_arrays, without_settled
from releaf.policy import Trace, plain_name
from releaf.schema import Features, Schema

NOTHING = "there is no action to choose from: expected at least one eligible action"


class ActionTablePolicy(ChangingActions):
    """Decides among the actions of a table, which have features of their own and come and go.

    A decision may be about some of the actions, given by name or with their features, and choose a slate of several.

    *Actions whose features come with the request* are passed as ``decide(context, actions={name: features})``. They are
    the eligible ones. Names that are new are added to the table, the features of known ones are replaced from then
    on (None keeps them), and what was learnt of an action stays with its name. A reward is learnt with the features
    that the action had in its decision. Beyond ``max_actions``, those that were eligible least recently are removed.
    """

    def __init__(
        self,
        actions: Any,
        features: Features,
        action_features: Features | None,
        degree: int,
        seed: int | None,
        max_actions: int,
        max_pending: int,
        reward_range: tuple[float, float],
    ) -> None:
        super().__init__(actions, features, action_features, degree, seed, max_actions, max_pending, reward_range)
        self._shown: dict[int, Shown] = {}

    # --- what a subclass implements ----------------------------------------------------------------------------

    @abstractmethod
    def _learn_shown(self, context: Array, index: int, profile: Array, reward: float) -> None:
        """Learn the reward of an action that had these columns; index -1 where it was removed since."""

    # --- decisions -----------------------------------------------------------------------------------------------

    def decide(
        self,
        context: Any,
        eligible: Sequence[ActionName] | None = None,
        cost: Costs | None = None,
        label_cost: float | None = None,
        *,
        k: int | None = None,
        actions: Mapping[Any, Any] | None = None,
    ) -> Decision:
        """Choose an action for a context, or a slate of several.

        Parameters
        ----------
        context
            As for any policy.
        eligible
            Names of the actions that may be chosen this time; None for all of them.
        cost
            None: this policy weighs no costs.
        k
            The number of actions of a slate, which are distinct and have exact inclusion probabilities; one action
            when None. A reward is taken to be that of its action: what an action gains by its place in the slate, or
            loses by its neighbours, is not modelled.
        actions
            The actions to choose from, with the features of each: actions that come with the request. See
            :class:`ActionTablePolicy <releaf.policies.action_table_policy.ActionTablePolicy>`.

        Examples
        --------
        >>> import releaf
        >>> bandit = releaf.JointReleaf({"tea": [0.1], "cola": [0.7], "milk": [0.4]}, features=["heat"], seed=0)
        >>> decision = bandit.decide([0.9], k=2)
        >>> len(decision.slate), sum(bandit.decide([0.9], k=3).slate_probabilities)
        (2, 3.0)
        >>> bandit.learn(decision, {decision.slate[1]: 1.0})
        >>> bandit.decide([0.9], actions={"cola": None, "juice": [0.6]}).eligible
        ('cola', 'juice')
        """
        self._checked_costs(cost)
        self._checked_label_cost(label_cost)
        if k is not None and self.control_share:
            raise ValueError(f"a slate can't be decided with control_share={self.control_share:g}: expected k=None")
        if k is None and actions is None:
            return super().decide(context, eligible, cost)
        with self._lock:
            if eligible is not None and actions is not None:
                raise ValueError("actions names the eligible actions already: expected eligible=None")
            places, most = self._place_of(), self.max_actions
            request = None if actions is None else checked_request(actions, self._table, places, most)
            mask = self._checked_mask(eligible)
            if request is None:
                _check_slate(k, len(self._action_names) if mask is None else int(mask.sum()))
            else:
                _check_slate(k, len(request.names))
            unit = self._encode(context)
            if request is not None:
                self._require_in_range(unit)
                mask = self._mask_of(self._apply(request))
            return self._decide_slate(unit, mask, k, request is not None)

    def _decide_among(self, context: Any, eligible: Any, cost: Any = None) -> Decision:
        with self._lock:
            mask = self._checked_mask(eligible)
            unit = self._encode(context)
            return self._decide_slate(unit, mask, None, False)

    def _require_in_range(self, unit: Array) -> None:
        outside = np.flatnonzero(~((unit >= self._state.limits) & (unit <= 1.0)))
        if len(outside):
            raise self._out_of_range(unit, int(outside[0]))

    def _decide_slate(self, unit: Array, mask: Array | None, k: int | None, is_request: bool) -> Decision:
        """Decide among the eligible actions. Needs the lock."""
        state, size = self._state, k or 1
        state.sizes[SLATE] = size
        try:
            selection = self._choose_among(unit, mask)
            chosen = state.slate[:size].copy()
        finally:
            state.sizes[SLATE] = 1
        choice = self._record_decision(unit, selection, None if is_request else mask)
        rows = state.pool[chosen]
        if k is not None or is_request:
            choice.slate = tuple([self._action_names[row] for row in rows.tolist()])
            self._shown[choice.id] = Shown(choice.slate, state.profiles[rows], k is not None)
            self._shown = without_settled(self._shown, self._pending)
            if not self.control_share:
                choice.probabilities = tuple(state.firsts[: state.sizes[POOL]].tolist())
        choice.slate = None if k is None else choice.slate
        choice.slate_probabilities = None if k is None else tuple(state.inclusions[chosen].tolist())
        if mask is not None:
            pool = np.flatnonzero(mask).tolist() if self.control_share else state.pool[: state.sizes[POOL]].tolist()
            choice.eligible = choice._actions = tuple([self._action_names[place] for place in pool])
        return choice

    def _choose(self, context: Array) -> Selection:
        self._require_actions()
        return super()._choose(context)

    def _chance_of_other(self, other: int, taken: int, chance: float) -> float | None:
        known = super()._chance_of_other(other, taken, chance)
        if known is not None:
            return known
        pool = self._state.pool[: self._state.sizes[POOL]]
        return float(self._state.firsts[int(np.flatnonzero(pool == other)[0])])

    def _choose_all(self, units: Array, masks: Array | None = None, costs: Array | None = None) -> Selections:
        self._require_actions()
        count, table = len(units), as_table(masks, len(self._action_names))
        priced = as_cost_table(costs, len(self._action_names))
        decisions, chances = np.empty(count, dtype=np.int64), np.empty(count)
        estimates = np.empty((count, len(self._action_names)))
        self._entry_points.decide_all(self._pointer_table, units, table, priced, decisions, chances, estimates)
        self._set_eligible(None)
        return Selections(decisions >> 1, (decisions & 1).astype(np.bool_), chances, estimates, [None] * count)

    def _replay(self, units: Array, rewards: Array, masks: Array | None = None, costs: Array | None = None) -> Trace:
        self._require_actions()
        return super()._replay(units, rewards, masks, costs)

    def _before_removal(self, removed: set[int]) -> None:
        """Let pending slates whose first action goes stand for another of their actions."""
        places = self._place_of()
        for number, entry in self._shown.items():
            pending = self._pending.get(number)
            if pending is not None and pending[1] in removed:
                others = [places[name] for name in entry.actions if name in places and places[name] not in removed]
                if others:
                    self._pending[number] = (pending[0], others[0], *pending[2:])

    def _require_actions(self) -> None:
        if not self._action_names:
            raise ValueError(NOTHING)

    def preview(
        self,
        context: Any,
        eligible: Sequence[ActionName] | None = None,
        cost: Costs | None = None,
        label_cost: float | None = None,
        *,
        k: int | None = None,
        actions: Mapping[Any, Any] | None = None,
    ) -> Decision:
        """Return the decision that the policy would make now; state and random generator are unchanged.

        Parameters
        ----------
        context, eligible, cost, label_cost, k, actions
            As for ``decide``.
        """
        if k is not None or actions is not None:
            return copy.deepcopy(self).decide(context, eligible, cost, label_cost, k=k, actions=actions)
        return super().preview(context, eligible, cost, label_cost)

    def _estimates(self) -> tuple[float, ...]:
        """Estimates of the eligible actions in the latest decision, in their order."""
        state = self._state
        return tuple(state.estimates[state.pool[: state.sizes[POOL]]].tolist())

    # --- rewards ---------------------------------------------------------------------------------------------------

    def learn(self, choice: Decision | int, reward: Any, action: ActionName | None = None) -> None:
        """Learn the reward of a pending decision, or the rewards of actions of its slate.

        Parameters
        ----------
        choice
            The decision, or its ``id``.
        reward
            A number, which of a slate is the reward of its first action; or, of a slate, a mapping from actions to
            their rewards, of all that were observed: actions that it lacks are not learnt.
        action
            The action that was taken instead, if the decision was overruled.
        """
        with self._lock:
            number = decision_id(choice, self._token)
            entry = self._shown.get(number) if number in self._pending else None
            if entry is None or not entry.is_slate or action is not None:
                super().learn(choice, reward, action)
                self._shown.pop(number, None)
                return
            context = self._pending[number][0]
            if isinstance(choice, Decision) and choice._context is not context:
                self._require_same_slate(choice, context, entry)
            rewards = entry.rewards_of(reward, number)
            gained = {name: self._checked_reward(value) for name, value in rewards.items()}
            places = self._place_of()
            for name, value in gained.items():
                profile = entry.profile_of(name)
                if profile is not None:
                    self._learn_shown(context, places.get(name, -1), profile, value)
            del self._pending[number], self._shown[number]

    def _require_same_slate(self, choice: Decision, context: Array, entry: Shown) -> None:
        if choice.slate != entry.actions or not np.array_equal(choice._context, context):
            raise ValueError(f"{choice!r} was made by another learner: expected a decision of this one")

    def pending_slate(self, decision: int) -> tuple[ActionName | None, ...] | None:
        """The actions of a pending decision that is a slate; None for one that was removed."""
        entry = self._shown.get(decision) if decision in self._pending else None
        return entry.actions if entry is not None and entry.is_slate else None

    def check_reward(self, decision: int, reward: Any) -> None:
        """Raise the error that ``learn`` would raise for this reward of a decision; state is unchanged."""
        entry = self._shown.get(decision)
        if entry is None or not entry.is_slate:
            super().check_reward(decision, reward)
            return
        for value in entry.rewards_of(reward, decision).values():
            self._checked_reward(value)

    def _learn(self, context: Array, step: int, index: int, reward: float) -> None:
        entry = self._shown.get(step)
        profile = None if entry is None else entry.profile_of(self._action_names[index])
        if profile is None:
            super()._learn(context, step, index, reward)
        else:
            self._learn_shown(context, index, profile, reward)

    def discard_pending(self, choice: Decision | int) -> None:
        """Discard a pending decision, because its reward will not come; nothing happens if it is not pending.

        Parameters
        ----------
        choice
            The decision, or its ``id``.
        """
        with self._lock:
            super().discard_pending(choice)
            self._shown.pop(decision_id(choice, self._token), None)

    def observe(
        self,
        context: Any,
        action: ActionName,
        reward: Any,
        *,
        probability: float | None = None,
        features: Any = None,
    ) -> None:
        """Learn the reward of an action that another system or a person took.

        Parameters
        ----------
        context, action, reward, probability
            As for any policy.
        features
            Features of the action, which is added if it is new; None for those of the table.
        """
        if features is None:
            super().observe(context, action, reward, probability=probability)
            return
        if probability is not None:
            positive("probability", probability, most=1.0)
        with self._lock:
            name = plain_name(action)
            profile = self._profiles_of(self._table.encode({name: features}))
            gained = self._checked_reward(reward)
            unit = self._encoder.encode(context)
            if name not in self._place_of():
                self._add_of_request([name], profile, {name})
            else:
                self._change_profile(self._place_of()[name], profile[0])
            index = self._place_of()[name]
            self._learn_log(unit[None, :], np.array([index]), np.array([gained]))

    # --- saving and loading ---------------------------------------------------------------------------------------

    def _learnt_arrays(self) -> dict[str, Array]:
        return super()._learnt_arrays() | shown_as_arrays(self._shown, list(self._pending), self._action_names)

    def _header(self) -> dict[str, Any]:
        schema = self._table.schema
        return super()._header() | {"action_schema": None if schema is None else schema.to_dict()}

    @classmethod
    def _revive(cls, header: dict[str, Any], arrays: dict[str, Array]) -> Self:
        described = header["action_schema"]
        schema = None if described is None else Schema.from_dict(described)
        table = ActionTable.without_values(header["actions"], schema)
        given = dict(header["parameters"])
        control, given["control"] = given.get("control", UNIFORM), UNIFORM  # which may be of an action that is away now
        policy = super()._revive({**header, "actions": table, "parameters": given}, arrays)
        policy.control = plain_name(control)
        policy._shown = shown_of_arrays(arrays, policy._action_names, len(policy._action_layout))
        if not policy._shown.keys() <= policy._pending.keys():
            raise ValueError("its slates contradict the rest")
        return policy

    def _check_state(self, state: Any) -> None:
        if (state.latest > state.clock[TIME]).any():
            raise ValueError("its actions contradict the rest")


def _check_slate(k: int | None, eligible: int) -> None:
    """Raise if there is no action to choose from, or fewer than the size of the slate."""
    if not eligible:
        raise ValueError(NOTHING)
    if k is not None and whole("k", k, least=1) > eligible:
        raise ValueError(f"k must be at most the number of eligible actions, {eligible}, got k={k}")


ActionTablePolicy._replay_follows = ActionTablePolicy
