"""`ChangingActions`: base class of policies whose actions have features of their own, and come and go."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import Any, ClassVar

import numpy as np

from releaf.action_table import ActionTable
from releaf.arrays import Array
from releaf.core.joint.columns import columns_of, lay_out_rows
from releaf.core.joint.slates import SLATE
from releaf.decision import ActionName
from releaf.policies.action_requests import ActionRequest
from releaf.policies.argument_checks import whole
from releaf.policies.compiled import CompiledPolicy
from releaf.policies.eligibility import checked_mask
from releaf.policies.pending_decisions import canonical
from releaf.policy import plain_name
from releaf.schema import Features, Schema

MOST_NAMED = 10  # names in an error message


class ChangingActions(CompiledPolicy):
    """Keeps the columns of a table of actions, which come and go.

    Columns of an action are a polynomial of the given degree in its numbers, and indicators of its categories.
    """

    _array_arguments: ClassVar[tuple[str, ...]] = ("action_features",)
    _table: ActionTable

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
        table = ActionTable.of(actions, action_features)
        super().__init__(table.names or (0,), features, "always", seed, max_pending, reward_range)
        self._action_names = table.names
        self.max_actions = whole("max_actions", max_actions, least=max(len(table), 1))
        self._table, self._degree = table, degree
        limits, categories = self._action_columns()
        self._action_layout = columns_of(limits, categories, degree)

    # --- what a subclass implements ----------------------------------------------------------------------------

    @abstractmethod
    def _change_profile(self, index: int, profile: Array) -> None:
        """Give an action other columns; what was learnt of it stays."""

    # --- the table of actions -------------------------------------------------------------------------------------

    @property
    def action_features(self) -> Schema | None:
        """Features of an action; None where actions are names only."""
        return self._table.schema

    def _action_columns(self) -> tuple[Array, list[int]]:
        """Lower limits and numbers of categories of the features of actions."""
        if self._table.schema is None:
            return np.zeros(0), []
        return self._table.schema.lowest(), [feature.categories for feature in self._table.schema.features]

    def _profiles_of(self, values: Array) -> Array:
        """Columns of actions with these encoded features."""
        profiles = np.empty((len(values), len(self._action_layout)))
        lay_out_rows(self._action_layout, values, profiles)
        return profiles

    def _use_state(self, state: Any) -> None:
        """Switch to a state, in which all actions are eligible."""
        super()._use_state(state)
        state.eligible[:] = 1
        state.sizes[SLATE] = 1
        self._places: dict[ActionName, int] | None = None

    def _place_of(self) -> dict[ActionName, int]:
        """Positions of the actions by name."""
        if self._places is None or len(self._places) != len(self._action_names):
            self._places = {name: place for place, name in enumerate(self._action_names)}
        return self._places

    def _index_of(self, action: ActionName) -> int:
        name, places = plain_name(action), self._place_of()
        if name not in places:
            raise ValueError(f"unknown action {name!r}: {self._names_for_error()}")
        return places[name]

    def _names_for_error(self) -> str:
        names = self._action_names
        if len(names) <= MOST_NAMED:
            return f"the actions are {names!r}"
        return f"the actions are {', '.join(map(repr, names[:MOST_NAMED]))}, … ({len(names):,} in all)"

    def add_action(
        self, action: ActionName | None = None, features: Any = None, *, cost: float | None = None
    ) -> ActionName:
        """Add an action; what is known of other actions tells what to expect of its features.

        Parameters
        ----------
        action
            Its name; when None, the number of actions so far, or the next integer that is not a name yet.
        features
            Its features, as a mapping or a sequence.
        cost
            None: this policy weighs no costs.
        """
        with self._lock:
            name = self._name_of_new(action)
            self._with_cost_of_new(name, cost)
            if self._table.schema is None and features is not None:
                raise ValueError(f"action {name!r} has features {features!r}, but other actions have none")
            if self._table.schema is not None and features is None:
                names = ", ".join(self._table.schema.inputs)
                raise ValueError(f"action {name!r} needs its features, got None: expected {names}")
            if len(self._action_names) >= self.max_actions:
                raise ValueError(f"there are max_actions={self.max_actions:,} actions already: remove one first")
            self._extend([name], self._profiles_of(self._table.encode({name: features})))
        return name

    def set_action_features(self, action: ActionName, features: Any) -> None:
        """Replace the features of an action; what was learnt of it stays.

        Parameters
        ----------
        action
            Its name.
        features
            Its features from now on.
        """
        with self._lock:
            index = self._index_of(action)
            if self._table.schema is None:
                raise ValueError(f"features of action {action!r} are {features!r}, but actions have none")
            self._change_profile(index, self._profiles_of(self._table.encode({action: features}))[0])

    def _extend(self, names: list[ActionName], profiles: Array) -> None:
        """Add actions at the end."""
        old = len(self._action_names)
        state = self._state.resized("actions", old + len(names))
        state.profiles[old:] = profiles
        self._set_up_new(state, old)
        self._use_state(state)
        self._action_names = (*self._action_names, *names)

    def _set_up_new(self, state: Any, old: int) -> None:
        """Set what is not zero of the actions after the first ``old`` ones."""

    def _add_action(self) -> None:
        raise NotImplementedError("add_action needs the features")

    def remove_action(self, action: ActionName) -> None:
        """Remove an action and what was learnt of it alone.

        What it taught of the features of actions stays. Its pending decisions are dropped, but for slates: the
        rewards of their other actions can still be learnt.

        Parameters
        ----------
        action
            Its name; at least one action must remain.
        """
        with self._lock:
            self._before_removal({self._index_of(action)})
            super().remove_action(action)

    def _before_removal(self, removed: set[int]) -> None:
        """Prepare for the removal of the actions at these positions."""

    def _remove_action(self, index: int) -> None:
        self._use_state(self._without(index))

    def _without(self, index: int) -> Any:
        axes = self._state.axes("actions")
        return self._state.replace(
            **{name: np.delete(getattr(self._state, name), index, axis) for name, axis in axes.items()}
        )

    # --- actions of a request, and eligible ones -----------------------------------------------------------------

    def _apply(self, request: ActionRequest) -> Array:
        """Add the actions of a request, or change their features; returns their positions."""
        places, names = self._place_of(), list(request.values)
        width = 0 if self._table.schema is None else len(self._table.schema)
        profiles = self._profiles_of(np.array(list(request.values.values())).reshape(len(names), width))
        rows = np.array([places.get(name, -1) for name in names], dtype=np.int64)
        known, new = np.flatnonzero(rows >= 0), np.flatnonzero(rows < 0).tolist()
        changed = (self._state.profiles[rows[known]] != profiles[known]).any(axis=1)
        for row in known[changed].tolist():
            self._change_profile(int(rows[row]), profiles[row])
        if new:
            self._add_of_request([names[row] for row in new], profiles[new], set(request.names))
        places = self._place_of()
        return np.array([places[name] for name in request.names], dtype=np.int64)

    def _add_of_request(self, names: list[ActionName], profiles: Array, requested: Collection[ActionName]) -> None:
        """Add actions of a request, and remove those that were eligible least recently beyond ``max_actions``."""
        surplus = len(self._action_names) + len(names) - self.max_actions
        if surplus > 0:
            order = np.argsort(self._state.latest, kind="stable").tolist()
            unused = [place for place in order if self._action_names[place] not in requested]
            self._remove_places(set(unused[:surplus]))
        self._extend(names, profiles)

    def _remove_places(self, removed: set[int]) -> None:
        """Remove the actions at these positions, all at once."""
        self._before_removal(removed)
        kept = [place for place in range(len(self._action_names)) if place not in removed]
        axes = self._state.axes("actions")
        rows = {name: np.take(getattr(self._state, name), kept, axis) for name, axis in axes.items()}
        new_place = {old: new for new, old in enumerate(kept)}
        self._use_state(self._state.replace(**rows))
        self._action_names = tuple([self._action_names[place] for place in kept])
        for number, (context, index, actions, eligible) in list(self._pending.items()):
            if index in new_place:
                left = [place for place in kept if place < actions]
                marks = None if eligible is None else canonical(bytes([eligible[place] for place in left]))
                self._pending[number] = (context, new_place[index], len(left), marks)
            else:
                del self._pending[number]

    def _checked_mask(self, eligible: Any) -> Array | None:
        """Mask of the eligible actions; None where all are.

        Positions by name are kept, so that few of many actions cost little. ``checked_mask`` accepts or rejects what
        is left.
        """
        if eligible is None:
            return None
        places = self._place_of()
        if type(eligible) in (list, tuple, set, frozenset) and all(type(name) in (str, int) for name in eligible):
            found = {places.get(name, -1) for name in eligible}
            if len(found) == len(eligible) and found and -1 not in found:
                return self._mask_of(np.array(list(found), dtype=np.int64))
        return checked_mask(eligible, self._action_names)

    def _mask_of(self, pool: Array) -> Array | None:
        """Mask of the actions at these positions; None where they are all."""
        if len(pool) == len(self._action_names):
            return None
        mask = np.zeros(len(self._action_names), dtype=np.uint8)
        mask[pool] = 1
        return mask
