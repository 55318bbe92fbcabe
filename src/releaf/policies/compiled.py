"""`CompiledPolicy`: base class of policies with a compiled rule."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from releaf.arrays import Array
from releaf.core.runtime.entry_points import EntryPoints
from releaf.core.runtime.primitives import RANDOM, SINCE, TIME
from releaf.decision_batch import Relevant, Selection
from releaf.policies.argument_checks import checked_random_state, whole
from releaf.policies.base import OnlinePolicy
from releaf.policies.costs import as_cost_table, check_spending
from releaf.policies.eligibility import as_table, write_mask
from releaf.policies.reward_checks import UNIT
from releaf.policy import Actions, Trace
from releaf.schema import Features

GRAINS = 256  # to which places in the space of contexts are rounded after an erasure


class CompiledPolicy(OnlinePolicy):
    """Owns a state and calls its rule's entry points with it. A subclass defines ``_entry_points`` and ``_build``."""

    _entry_points: EntryPoints
    _state: Any
    _changed_by_choice: ClassVar[tuple[str, ...] | None] = (
        None  # arrays that ``choose`` changes, where ``update`` reads no scratch
    )

    def __init__(
        self,
        actions: Actions,
        features: Features,
        observe: str,
        seed: int | None,
        max_pending: int = 1,  # for policies that want no reward
        reward_range: tuple[float, float] = UNIT,
    ) -> None:
        super().__init__(actions, features, observe, max_pending, reward_range)
        self.seed = None if seed is None else whole("seed", seed, least=0)

    @abstractmethod
    def _build(self, actions: int) -> Any:
        """Build the initial state for so many actions."""

    def _start(self) -> None:
        """Build the state; a subclass calls it after setting all parameters."""
        self._use_state(self._build(len(self.actions)))

    def _use_state(self, state: Any) -> None:
        """Switch to a state; the only way to replace it."""
        self._connect_costs(state)
        self._state, self._pointer_table = state, state.pointer_table

    def _stretch(self) -> Array:
        """Factor that makes the distance of two categories 1; 1 for numbers."""
        return np.array([max(feature.categories, 1) for feature in self.schema.features], dtype=np.float64)

    def _rounded(self, units: Array) -> Array:
        """Encoded contexts whose numbers are rounded to multiples of 1 / GRAINS; categories stay."""
        is_number = np.array([feature.categories == 0 for feature in self.schema.features])
        return np.where(is_number, np.round(units * GRAINS) / GRAINS, units)

    # --- the rule -----------------------------------------------------------------------------------------

    def _choose(self, context: Array) -> Selection:
        if self._state.grows:
            self._grow_if_full()
        decision = self._entry_points.decide(self._pointer_table, context)
        if decision < 0:
            raise self._out_of_range(context, -2 - decision)
        action = decision >> 1
        probability = self._probability(action)
        if decision & 1:
            return action, True, probability, None, None
        return action, False, probability, self._estimates(), self._relevant()

    def _estimates(self) -> tuple[float, ...]:
        """Estimated reward of each action in the latest decision."""
        return tuple(self._state.estimates.tolist())

    def _probability(self, action: int) -> float | None:
        """Probability (propensity) of the action in the latest decision."""
        return self._state.chance.item()  # type: ignore[no-any-return]

    def _relevant(self) -> Relevant | None:
        """Relevant features of each action, for policies that learn relevance."""
        return None

    def _learn(self, context: Array, step: int, index: int, reward: float) -> None:
        self._grow_if_full()
        self._entry_points.learn(self._pointer_table, context, step, index, reward)

    def _learn_all(self, context: Array, step: int, rewards: Array) -> None:
        raise NotImplementedError(f"{type(self).__name__} learns from the reward of its own action only")

    def _set_eligible(self, mask: Array | None) -> None:
        write_mask(self._state.eligible, mask)

    def _replay(self, units: Array, rewards: Array, masks: Array | None = None, costs: Array | None = None) -> Trace:
        table, priced = as_table(masks, len(self.actions)), as_cost_table(costs, len(self.actions))
        actions = np.zeros(len(units), dtype=np.int64)
        explored = np.zeros(len(units), dtype=np.bool_)
        reached = 0
        try:
            while 0 <= reached < len(units):
                self._grow_if_full()
                reached = self._entry_points.replay(
                    self._pointer_table, units, rewards, table, priced, reached, actions, explored
                )
        finally:  # also after an interrupt
            self._set_eligible(None)
            self._use_fixed_costs()
            self._steps = int(self._state.clock[TIME])
        if reached < 0:
            row = -1 - reached
            raise self._lacks_reward(row, rewards[row])
        observed = explored & (self.observation_mode == "explored") | self._always_wants
        return Trace(actions, explored, observed, rewards[np.arange(len(units)), actions])

    def _learn_log(self, units: Array, taken: Array, rewards: Array) -> None:
        reached = 0
        try:
            while reached < len(units):
                self._grow_if_full()
                reached = self._entry_points.learn_log(self._pointer_table, units, taken, rewards, reached)
        finally:
            self._steps = int(self._state.clock[TIME])

    # --- previews ---------------------------------------------------------------------------------------------

    def _choose_each(
        self, units: Array, states: Array, masks: Array | None = None, costs: Array | None = None
    ) -> Array:
        decide, chosen = self._entry_points.decide, np.zeros(len(units), dtype=np.int64)
        if self._state.grows:
            self._grow_if_full()
        changed = [(array, array.copy()) for array in self._arrays_read_by_choice()]
        pointer_table, clock = self._pointer_table, self._state.clock
        for row, (unit, state) in enumerate(zip(units, states.tolist(), strict=True)):
            clock[RANDOM] = state
            if masks is not None:
                self._set_eligible(masks[row])
            if costs is not None:
                self._state.costs[:] = costs[row]
            chosen[row] = decide(pointer_table, unit)
            for array, before in changed:
                array[...] = before
        return chosen >> 1

    def _arrays_read_by_choice(self) -> list[Array]:
        """Arrays that a decision may change and a later one reads."""
        names = self._changed_by_choice or self._state.layout.names("learnt")
        return [getattr(self._state, name) for name in names]

    def _changed_by_decision(self) -> dict[str, Array]:
        if self._changed_by_choice is None:
            return super()._changed_by_decision()
        return {name: getattr(self._state, name).copy() for name in self._changed_by_choice}

    def _undo_decision(self, arrays: dict[str, Array]) -> None:
        if self._changed_by_choice is None:
            super()._undo_decision(arrays)
            return
        for name, array in arrays.items():
            getattr(self._state, name)[...] = array

    # --- capacity ---------------------------------------------------------------------------------------------

    def _grow_if_full(self) -> None:
        """Grow the arrays if the next decision or reward might exceed their capacity."""

    def _double_capacity(self) -> None:
        """Double the capacity of the growing arrays."""
        dimension = self._state.grows
        self._use_state(self._state.resized(dimension, 2 * self._state.size_of(dimension)))

    def _build_like(self, actions: int) -> Any:
        """Build the initial state for so many actions, with the current capacity."""
        state, dimension = self._build(actions), self._state.grows
        return state if dimension is None else state.resized(dimension, self._state.size_of(dimension))

    def _add_action(self) -> None:
        wider = self._build_like(len(self.actions) + 1)
        for name, old in self._state.learnt_arrays().items():
            getattr(wider, name)[tuple(slice(length) for length in old.shape)] = old
        wider.clock[SINCE] = wider.clock[TIME]
        self._use_state(wider)

    def _remove_action(self, index: int) -> None:
        self._use_state(self._without(index))

    def _without(self, index: int) -> Any:
        """Copy of the state without one action."""
        narrower, axes = self._build_like(len(self.actions) - 1), self._state.axes("actions")
        learnt = self._state.learnt_arrays()
        return narrower.replace(
            **{name: np.delete(array, index, axes[name]) if name in axes else array for name, array in learnt.items()}
        )

    # --- saving and loading -------------------------------------------------------------------------------

    def set_random_state(self, state: int) -> None:
        self._state.clock[RANDOM] = checked_random_state(state)

    def _arrays(self) -> dict[str, Array]:
        return self._as_saved(self._state.learnt_arrays())

    def _load_state(self, arrays: dict[str, Array]) -> None:
        state = self._build(len(self.actions)).with_learnt(self._from_saved(arrays))
        if hasattr(state, "spending"):
            check_spending(state.spending, self._spending_rule())
        if state.clock[TIME] != self._steps:
            raise ValueError("its clock contradicts the rest")
        self._check_state(state)
        self._use_state(state)

    def _check_state(self, state: Any) -> None:
        """Raise a ValueError if a loaded state is inconsistent: kernels check no bounds."""
