"""Replay of a recorded stream by a policy."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.decision import Decision
from releaf.decision_batch import Selection
from releaf.policies.eligibility import checked_masks
from releaf.policies.previews import Previews
from releaf.policies.reward_checks import checked_table, scaled
from releaf.policy import Trace


class Replays(Previews):
    """Mixin of a policy: replays a recorded stream as if each context came in turn."""

    reward_range: tuple[float, float]
    _wants_all: bool

    @abstractmethod
    def _require_standard_steps(self) -> None: ...

    @abstractmethod
    def _record_decision(
        self, unit: Array, selection: Selection, mask: Array | None = None, costs: Array | None = None
    ) -> Decision: ...

    @abstractmethod
    def _learn(self, context: Array, step: int, index: int, reward: float) -> None: ...

    @abstractmethod
    def _learn_all(self, context: Array, step: int, rewards: Array) -> None: ...

    def replay(
        self, contexts: Any, rewards: Any, eligible: Any = None, cost: Any = None, label_costs: Any = None
    ) -> Trace:
        """Replay a recorded stream; see :func:`releaf.replay`."""
        if not hasattr(contexts, "__len__"):
            raise TypeError(f"contexts must be a matrix, a table or a sequence of contexts, got {contexts!r}")
        self._require_standard_steps()
        with self._lock:
            table = checked_table(rewards, len(contexts), self._action_names, self.reward_range)
            shares = scaled(table, self.reward_range)
            masks = checked_masks(eligible, len(contexts), self._action_names)
            costs = self._checked_cost_table(cost, len(contexts))
            prices = self._checked_label_costs(label_costs, len(contexts))
            backup = self._snapshot() if np.isnan(table).any() else None  # to restore where a needed reward is NaN
            try:
                units = self._encode_many(contexts)
                given = (masks, costs) if costs is not None else (masks,) if masks is not None else ()
                first, run = self._steps + 1, Replays._replay if self.control_share else type(self)._replay
                with self._labels_costing(prices):
                    trace = run(self, units, shares, *given)  # step by step where a share belongs to control
            except ValueError:
                if backup is not None:
                    self._restore(backup)
                raise
            taken = table[np.arange(len(table)), trace.actions]
            spent = self._costs_of(trace.actions, costs)
            control = self._control_marks(first, len(units))
            return replace(
                trace, rewards=taken, costs=spent, control=control, label_costs=prices, policy=type(self).__name__
            )

    def _replay(self, units: Array, rewards: Array, masks: Array | None = None, costs: Array | None = None) -> Trace:
        """Replay encoded contexts and scaled rewards step by step; policies with a compiled loop override it."""
        actions = np.zeros(len(units), dtype=np.int64)
        explored, observed = np.zeros(len(units), dtype=np.bool_), np.zeros(len(units), dtype=np.bool_)
        for step, unit in enumerate(units):
            unit, mask = unit.copy(), None if masks is None else masks[step]
            own = None if costs is None else costs[step]
            choice = self._record_decision(unit, self._choose_among(unit, mask, own), mask, own)
            actions[step], explored[step], observed[step] = choice.index, choice.explored, choice.wants_reward
            if choice.wants_reward:
                self._learn_row(choice, unit, rewards[step], mask, step)
        return Trace(actions, explored, observed, rewards[np.arange(len(units)), actions])

    def _learn_row(self, choice: Decision, unit: Array, rewards: Array, mask: Array | None, row: int) -> None:
        """Learn the wanted rewards of a row."""
        gained = rewards if self._wants_all else rewards[choice.index : choice.index + 1]
        needed = gained if mask is None or not self._wants_all else gained[mask.astype(bool)]
        if np.isnan(needed).any():
            raise self._lacks_reward(row, rewards)
        del self._pending[choice.id]
        if self._wants_all:
            with self._restricted_to(mask):
                self._learn_all(unit, choice.id, gained)
        else:
            self._learn(unit, choice.id, choice.index, float(gained[0]))
        self._count_reward(choice.id, float(rewards[choice.index]))

    def _lacks_reward(self, row: int, rewards: Array) -> ValueError:
        """The error of a replay that needs a reward which is NaN; the row's rewards are scaled."""
        given = (self._low + self._span * rewards).tolist()
        return ValueError(f"rewards of row {row} are {given}: the learner needs a reward that is NaN")
