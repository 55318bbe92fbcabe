"""`CompiledPolicy`: base class of policies with a named tuple of arrays as state and a compiled rule."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from releaf.arrays import Array
from releaf.core.runtime.entry_points import EntryPoints, pointer_table_of
from releaf.core.runtime.primitives import RANDOM, SINCE, TIME
from releaf.policies.argument_checks import whole
from releaf.policies.base import OnlinePolicy, Relevant, Selection
from releaf.policy import Actions, Trace
from releaf.schema import Features


class CompiledPolicy(OnlinePolicy):
    """Owns a state, a named tuple of arrays, and calls the entry points of its rule with it.

    A subclass defines ``_entry_points``, ``_build``, and which arrays are saved and which may grow.
    """

    _entry_points: EntryPoints
    _state: Any
    _saved_arrays: ClassVar[tuple[str, ...]]  # the other arrays follow from the parameters, or are scratch
    _signed: ClassVar[tuple[str, ...]] = ("clock",)  # integer arrays that may be negative
    _growing: ClassVar[Mapping[str, int]] = {}  # arrays that grow, and their growing axis

    def __init__(
        self,
        actions: Actions,
        features: Features,
        observe: str,
        seed: int | None,
        max_pending: int = 1,  # for policies that want no reward
    ) -> None:
        super().__init__(actions, features, observe, max_pending)
        self.seed = None if seed is None else whole("seed", seed, least=0)

    @abstractmethod
    def _build(self, actions: int) -> Any:
        """Build the initial state for so many actions."""

    def _start(self) -> None:
        """Build the state; a subclass calls it after setting all parameters."""
        self._use_state(self._build(len(self.actions)))

    def _use_state(self, state: Any) -> None:
        """Switch to a state and rebuild the pointer table; the only way to replace the state."""
        self._entry_points.open(state)
        self._state, self._pointer_table = state, pointer_table_of(state)

    def _stretch(self) -> Array:
        """Factor that makes the distance of two categories 1; 1 for numbers."""
        return np.array([max(feature.categories, 1) for feature in self.schema.features], dtype=np.float64)

    # --- the rule -----------------------------------------------------------------------------------------

    def _choose(self, context: Array) -> Selection:
        if self._growing:
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

    def _replay(self, units: Array, rewards: Array) -> Trace:
        actions = np.zeros(len(units), dtype=np.int64)
        explored = np.zeros(len(units), dtype=np.bool_)
        reached = 0
        try:
            while 0 <= reached < len(units):
                self._grow_if_full()
                reached = self._entry_points.replay(self._pointer_table, units, rewards, reached, actions, explored)
        finally:  # also after an interrupt
            self._steps = int(self._state.clock[TIME])
        if reached < 0:
            row = -1 - reached
            raise ValueError(
                f"rewards of row {row} are {rewards[row].tolist()}: the learner needs a reward that is NaN"
            )
        observed = explored & (self.observe == "explored") | self._always_wants
        return Trace(actions, explored, observed, rewards[np.arange(len(units)), actions])

    def _learn_log(self, units: Array, taken: Array, rewards: Array) -> None:
        reached = 0
        try:
            while reached < len(units):
                self._grow_if_full()
                reached = self._entry_points.learn_log(self._pointer_table, units, taken, rewards, reached)
        finally:
            self._steps = int(self._state.clock[TIME])

    # --- capacity ---------------------------------------------------------------------------------------------

    def _grow_if_full(self) -> None:
        """Grow the arrays if the next decision or reward might exceed their capacity."""

    def _double_capacity(self) -> None:
        """Double the capacity of the growing arrays."""
        self._use_state(self._with_capacity(self._state, 2 * self._capacity(self._state)))

    def _capacity(self, state: Any) -> int:
        """Capacity of the growing arrays."""
        lengths = {
            getattr(state, name).shape[axis] for name, axis in self._growing.items() if name in self._saved_arrays
        }
        if len(lengths) > 1:
            raise ValueError("its sizes contradict one another")
        if 0 in lengths:
            raise ValueError("its sizes are zero")
        return int(lengths.pop()) if lengths else 0

    def _with_capacity(self, state: Any, capacity: int) -> Any:
        sized = {name: _sized(getattr(state, name), axis, capacity) for name, axis in self._growing.items()}
        return state._replace(**sized)

    def _add_action(self) -> None:
        wider = self._with_capacity(self._build(len(self.actions) + 1), self._capacity(self._state))
        for name in self._saved_arrays:
            old = getattr(self._state, name)
            getattr(wider, name)[tuple(slice(length) for length in old.shape)] = old
        wider.clock[SINCE] = wider.clock[TIME]
        self._use_state(wider)

    def _remove_action(self, index: int) -> None:
        self._use_state(self._without(index))

    def _without(self, index: int) -> Any:
        """Copy of the state without one action."""
        narrower = self._with_capacity(self._build(len(self.actions) - 1), self._capacity(self._state))
        for name in self._saved_arrays:
            old, new = getattr(self._state, name), getattr(narrower, name)
            axes = [axis for axis in range(old.ndim) if old.shape[axis] != new.shape[axis]]  # the axis of the actions
            new[...] = np.delete(old, index, axes[0]) if axes else old
        return narrower

    # --- saving and loading -------------------------------------------------------------------------------

    def set_random_state(self, state: int) -> None:
        self._state.clock[RANDOM] = state

    def _arrays(self) -> dict[str, Array]:
        return {name: getattr(self._state, name).copy() for name in self._saved_arrays}

    def _load_state(self, arrays: dict[str, Array]) -> None:
        fresh = self._build(len(self.actions))
        state = fresh._replace(**{name: np.array(arrays[name], order="C") for name in self._saved_arrays})
        fresh = self._with_capacity(fresh, self._capacity(state))
        for name in self._saved_arrays:
            array, model = arrays[name], getattr(fresh, name)
            if array.dtype != model.dtype or array.shape != model.shape or not np.isfinite(array).all():
                raise ValueError(f"its {name} contradict the rest")
            if array.dtype.kind == "i" and name not in self._signed and (array < 0).any():
                raise ValueError(f"its {name} contradict the rest")
        state = fresh._replace(**{name: getattr(state, name) for name in self._saved_arrays})
        if state.clock[TIME] != self._steps:
            raise ValueError("its clock contradicts the rest")
        self._check_state(state)
        self._use_state(state)

    def _check_state(self, state: Any) -> None:
        """Raise a ValueError if a loaded state is inconsistent: kernels check no bounds."""


def _sized(array: Array, axis: int, length: int) -> Array:
    """Resize an array along one axis, filled with zeros."""
    shape = list(array.shape)
    shape[axis] = length
    other = np.zeros(shape, dtype=array.dtype)
    common = tuple(slice(min(old, new)) for old, new in zip(array.shape, shape, strict=True))
    other[common] = array[common]
    return other
