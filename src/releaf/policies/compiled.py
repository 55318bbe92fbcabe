"""Policies whose knowledge is a handful of named arrays and whose rule is compiled: what RELEAF's rivals share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from releaf.core.runtime.entry_points import EntryPoints, pointer_table_of
from releaf.core.runtime.primitives import RANDOM, SINCE, TIME
from releaf.policies.argument_checks import whole
from releaf.policies.base import Array, OnlinePolicy, Relevant, Selection
from releaf.policy import Actions, Trace
from releaf.schema import Features


class CompiledPolicy(OnlinePolicy):
    """Owns a state, a named tuple of arrays, and calls the doors of its rule with it.

    A subclass gives ``_entry_points`` and ``_build``, and says which arrays it keeps in files and which may grow.
    """

    _entry_points: EntryPoints
    _state: Any
    _saved_arrays: ClassVar[
        tuple[str, ...]
    ]  # arrays that were learnt; the others follow from the parameters, or are scratch
    _signed: ClassVar[tuple[str, ...]] = ("clock",)  # whole numbers that may be negative
    _growing: ClassVar[Mapping[str, int]] = {}  # arrays with an axis that is as long as was needed, and that axis

    def __init__(
        self,
        actions: Actions,
        features: Features,
        observe: str,
        seed: int | None,
        max_pending: int = 1,  # where no reward is ever wanted
    ) -> None:
        super().__init__(actions, features, observe, max_pending)
        self.seed = None if seed is None else whole("seed", seed, least=0)

    @abstractmethod
    def _build(self, actions: int) -> Any:
        """A state for so many actions that knows nothing yet."""

    def _start(self) -> None:
        """Begin; a subclass calls it when all parameters are checked and kept."""
        self._use_state(self._build(len(self.actions)))

    def _use_state(self, state: Any) -> None:
        """Go on with this state; the only way to change it for another, since the doors know it by addresses."""
        self._entry_points.open(state)
        self._state, self._pointer_table = state, pointer_table_of(state)

    def _stretch(self) -> Array:
        """What makes categories 1 apart, which are the closer the more there are; 1 for numbers."""
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
        """The estimated reward of each action in the latest decision."""
        return tuple(self._state.estimates.tolist())

    def _probability(self, action: int) -> float | None:
        """With what probability the action was taken."""
        return self._state.chance.item()  # type: ignore[no-any-return]

    def _relevant(self) -> Relevant | None:
        """The features that each estimate rests on, where the policy tells some from others."""
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
        finally:  # also where it is interrupted
            self._steps = int(self._state.clock[TIME])
        if reached < 0:
            row = -1 - reached
            raise ValueError(f"rewards of row {row} are {rewards[row].tolist()}: the learner needs what is NaN")
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

    # --- room ---------------------------------------------------------------------------------------------

    def _grow_if_full(self) -> None:
        """Let the growing arrays grow where the next decision or reward might need more of them."""

    def _double_capacity(self) -> None:
        """Twice as long growing arrays."""
        self._use_state(self._with_capacity(self._state, 2 * self._capacity(self._state)))

    def _capacity(self, state: Any) -> int:
        """How long the growing arrays are."""
        lengths = {
            getattr(state, name).shape[axis] for name, axis in self._growing.items() if name in self._saved_arrays
        }
        if len(lengths) > 1:
            raise ValueError("its sizes contradict one another")
        if 0 in lengths:
            raise ValueError("its sizes are zero")
        return int(lengths.pop()) if lengths else 0

    def _with_capacity(self, state: Any, room: int) -> Any:
        sized = {name: _sized(getattr(state, name), axis, room) for name, axis in self._growing.items()}
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
        """A state that knows all that this one does, but for one action."""
        narrower = self._with_capacity(self._build(len(self.actions) - 1), self._capacity(self._state))
        for name in self._saved_arrays:
            old, new = getattr(self._state, name), getattr(narrower, name)
            axes = [axis for axis in range(old.ndim) if old.shape[axis] != new.shape[axis]]  # that of the actions
            new[...] = np.delete(old, index, axes[0]) if axes else old
        return narrower

    # --- saving and loading -------------------------------------------------------------------------------

    def _set_generator(self, state: int) -> None:
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
        """Raise a ValueError where a state from a file would lead the kernels astray, which check no bounds."""


def _sized(array: Array, axis: int, length: int) -> Array:
    """An array of another length along one axis, with this one's values as far as they go, then zeros."""
    shape = list(array.shape)
    shape[axis] = length
    other = np.zeros(shape, dtype=array.dtype)
    common = tuple(slice(min(old, new)) for old, new in zip(array.shape, shape, strict=True))
    other[common] = array[common]
    return other
