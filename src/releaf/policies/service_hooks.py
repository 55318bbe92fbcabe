"""Methods for a service that stores decisions and rewards itself."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.decision import ActionName, Decision
from releaf.policies.eligibility import checked_masks, names_of
from releaf.policies.pending_decisions import PendingDecision
from releaf.policies.reward_checks import checked_rewards
from releaf.schema import Encoder


class ServiceHooks:
    """Mixin for learners whose decisions a service stores by id."""

    cost: tuple[float, ...] | None
    _action_names: tuple[ActionName, ...]
    _steps: int
    _token: int
    _pending: OrderedDict[int, PendingDecision]
    _evicts: bool
    _wants_all: bool
    _checked_reward: Callable[[Any], float]
    _encode_many: Callable[..., Array]
    _checked_cost_table: Callable[..., Array | None]
    _encoder: Encoder
    _lock: threading.RLock

    @property
    def steps(self) -> int:
        """Number of decisions so far; the id of the latest."""
        return self._steps

    @property
    def wants_all(self) -> bool:
        """Whether it learns the rewards of all actions at once, instead of that of the action taken."""
        return self._wants_all

    def check_contexts(self, contexts: Sequence[Any], eligible: Any = None, cost: Any = None) -> None:
        """Raise the error that ``decide_many`` would raise for these arguments, without a decision."""
        with self._lock:
            checked_masks(eligible, len(contexts), self._action_names)
            self._checked_cost_table(cost, len(contexts))
            self._encode_many(contexts, learns=False)

    def keep_all_pending(self) -> None:
        """Evict no pending decision, whatever ``max_pending`` is: the service limits their number itself."""
        self._evicts = False

    def keep_pending(self, decisions: set[int]) -> None:
        """Discard all pending decisions but these, given by their ids."""
        for decision in self._pending.keys() - decisions:
            del self._pending[decision]

    def is_pending(self, decision: int) -> bool:
        """Whether a decision, given by its id, is pending."""
        return decision in self._pending

    def eligible_actions(self, decision: int) -> tuple[ActionName, ...] | None:
        """The actions that were eligible in a pending decision; None where all were, or where it is not pending."""
        _, _, actions, eligible = self._pending.get(decision, (None, 0, 0, None))
        if eligible is None:
            return None
        return names_of(np.frombuffer(eligible, dtype=np.uint8), self._action_names[:actions])

    def pending_slate(self, decision: int) -> tuple[ActionName | None, ...] | None:
        """The actions of a pending decision that is a slate; None otherwise."""
        return None

    def erase(self, decisions: set[int]) -> int:
        """Remove the contexts of decisions, given by their ids, and return how many the learner had.

        Pending decisions and rows of samples go. Values that quantiles are found from, and places in the space of
        contexts, are rounded. Sums stay: what was learnt from many contexts together.
        """
        with self._lock:
            erased = self.begin_erasure(decisions)
            self.finish_erasure()
        return erased

    def begin_erasure(self, decisions: set[int]) -> int:
        """Do the quick part of `erase`; models that were fitted to the contexts stay in use until `finish_erasure`.

        The learner can decide and learn in between, but must not be saved.
        """
        with self._lock:
            pending = self._pending.keys() & decisions
            self.keep_pending(self._pending.keys() - decisions)
            self._encoder.round_quantiles()
            return len(pending) + self._erase_contexts(np.array(sorted(decisions), dtype=np.int64))

    def wait_for_erasure(self) -> None:
        """Wait until `finish_erasure` is quick too; for another thread, since it changes nothing and takes no lock."""

    def finish_erasure(self) -> None:
        """Replace models that were fitted to the erased contexts."""
        with self._lock:
            self._finish_erasure()

    def _erase_contexts(self, steps: Array) -> int:
        """Remove the contexts of decisions from what was learnt; returns how many rows there were."""
        return 0

    def _finish_erasure(self) -> None:
        """Replace what is left of the contexts after ``_erase_contexts``."""

    def check_reward(self, decision: int, reward: Any) -> None:
        """Raise the error that ``learn`` would raise for this reward of a decision; state is unchanged."""
        if self._wants_all:
            _, _, actions, eligible = self._pending.get(decision, (None, 0, len(self._action_names), None))
            checked_rewards(reward, self._action_names[:actions], self._checked_reward, eligible)
        else:
            self._checked_reward(reward)

    def restore_decision(
        self,
        number: int,
        context: Any,
        action: ActionName,
        *,
        actions: Sequence[ActionName],
        explored: bool,
        wants_reward: bool,
        probability: float | None,
        estimates: tuple[float, ...] | None,
        relevant: tuple[tuple[int, ...] | None, ...] | None,
        eligible: tuple[ActionName, ...] | None = None,
        group: str | None = None,
        costs: tuple[float, ...] | None = None,
    ) -> Decision:
        """Restore a decision of this learner from stored values, for instance to explain it.

        Parameters
        ----------
        number
            Its ``id``.
        context
            As passed to ``decide``; it is encoded with the current quantiles.
        actions
            The actions at that time.
        action, explored, wants_reward, probability, estimates, relevant, eligible, group
            As in the decision.
        costs
            Of all actions in this decision; None for the fixed ones.
        """
        unit = self._encode_many([context], learns=False)[0]
        names = tuple(actions)
        index = names.index(action)
        return Decision(
            *(number, action, index, explored, wants_reward, probability, estimates, relevant),
            *(unit, self._token, names, eligible),
            costs=costs or (self.cost if names == self._action_names else None),
            group=group,
        )
