"""Previews and estimates: what a policy would do now, without a change of its state."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.decision import ActionName, Decision
from releaf.decision_batch import Selection
from releaf.policies.context_encoding import ContextEncoding
from releaf.policies.control_group import ControlGroup
from releaf.policies.costs import Costs
from releaf.policies.eligibility import checked_masks
from releaf.policies.label_costs import LabelCosts
from releaf.policies.pending_decisions import PendingDecision
from releaf.policies.serialization import Serializable

PREVIEWS = 10  # the stream of random numbers that previews draw from


def preview_states(seed: int, count: int) -> Array:
    """States of the random generator for previews; another stream than ``default_rng(seed)``, which others use."""
    return np.random.default_rng([seed, PREVIEWS]).integers(-(2**63), 2**63 - 1, count)


class Previews(ControlGroup, LabelCosts, Serializable, ContextEncoding):
    """Mixin of a policy: decides and estimates, then restores what that has changed."""

    _action_names: tuple[ActionName, ...]
    _evicts: bool
    _is_unit: bool
    _low: float
    _pending: OrderedDict[int, PendingDecision]
    _span: float
    _steps: int

    @abstractmethod
    def decide(self, context: Any, eligible: Any = None, cost: Any = None, label_cost: Any = None) -> Decision: ...

    @abstractmethod
    def set_random_state(self, state: int) -> None: ...

    @abstractmethod
    def _choose(self, context: Array) -> Selection: ...

    def preview(
        self,
        context: Any,
        eligible: Sequence[ActionName] | None = None,
        cost: Costs | None = None,
        label_cost: float | None = None,
    ) -> Decision:
        """Return the decision that the policy would make now; state and random generator are unchanged.

        Parameters
        ----------
        context, eligible, cost, label_cost
            As for ``decide``.
        """
        options = (("eligible", eligible), ("cost", cost), ("label_cost", label_cost))
        given = {name: value for name, value in options if value is not None}
        with self._lock:
            arrays, encoder = self._changed_by_decision(), self._encoder.state()
            steps, evicts, self._evicts = self._steps, self._evicts, False
            try:
                return self.decide(context, **given)
            finally:
                self._pending.pop(steps + 1, None)
                self._steps, self._evicts = steps, evicts
                self._undo_decision(arrays)
                self._encoder.restore(encoder)

    def preview_actions(
        self, contexts: Any, *, seed: int = 0, eligible: Any = None, cost: Any = None, label_cost: Any = None
    ) -> Array:
        """Positions of the actions that the policy would take now in each of many contexts; state is unchanged.

        Each row is decided as if it came next, so no row affects another: ``preview`` for many contexts. A randomised
        policy draws independently for each row. Quantiles are not updated. With a ``control_share`` it is the learner
        that decides all rows.

        Parameters
        ----------
        contexts
            A matrix, a table, or a sequence of contexts.
        seed
            Seed of the draws; the policy's own random generator is unchanged.
        eligible, cost, label_cost
            As for ``decide_many``.
        """
        with self._lock:
            units, twin = self._encode_many(contexts, learns=False), copy.deepcopy(self)
            masks = checked_masks(eligible, len(units), self._action_names)
            costs = self._checked_cost_table(cost, len(units))
            prices = self._checked_label_costs(label_cost, len(units))
        with twin._labels_costing(prices):
            return twin._choose_each(units, preview_states(seed, len(units)), masks, costs)

    def _choose_each(
        self, units: Array, states: Array, masks: Array | None = None, costs: Array | None = None
    ) -> Array:
        """Choose for each encoded context from the same state, but for that of the random generator."""
        chosen = np.zeros(len(units), dtype=np.int64)
        for row, (unit, state) in enumerate(zip(units, states.tolist(), strict=True)):
            changed = self._changed_by_decision()
            self.set_random_state(state)
            restricted = self._restricted_to(None if masks is None else masks[row])
            with restricted, self._priced_at(None if costs is None else costs[row]):
                chosen[row] = self._choose(unit)[0]
            self._undo_decision(changed)
        return chosen

    def estimate(self, contexts: Any) -> Array:
        """Estimate the reward of each action in each of many contexts (T × A); state is unchanged.

        Policies with a model of the rewards, such as AdaptiveReleaf, Releaf and LinUCB, estimate every row. A row of
        any other policy is NaN where its decision would explore. Rows are independent, and quantiles are not updated.

        Parameters
        ----------
        contexts
            A matrix, a table, or a sequence of contexts.
        """
        with self._lock:
            expected = self._estimate(self._encode_many(contexts, learns=False))
            return expected if self._is_unit else self._low + self._span * expected

    def _estimate(self, units: Array) -> Array:
        """Estimate scaled rewards for encoded contexts one by one; policies with a compiled loop override it."""
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

    # --- rollback ---------------------------------------------------------------------------------------

    def _changed_by_decision(self) -> dict[str, Array]:
        """Copy all arrays that a decision may change; subclasses copy fewer."""
        return self._arrays()

    def _undo_decision(self, arrays: dict[str, Array]) -> None:
        """Restore what ``_changed_by_decision`` returned."""
        self._load_state(arrays)

    def _snapshot(self) -> tuple[Any, ...]:
        groups = copy.deepcopy(self._groups)
        return self._arrays(), self._encoder.state(), self._pending.copy(), self._steps, groups

    def _restore(self, snapshot: tuple[Any, ...]) -> None:
        arrays, encoder, self._pending, self._steps, self._groups = snapshot
        self._load_state(arrays)
        self._encoder.restore(encoder)
