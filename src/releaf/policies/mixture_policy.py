"""`MixturePolicy`: a policy whose state is a mixture engine, and how two of them merge."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

from releaf.arrays import Array
from releaf.core.adaptive.engine import Mapper, MixtureEngine
from releaf.core.adaptive.initial_state import Settings
from releaf.core.adaptive.merging import SampledRows, build_engine, merge_engines
from releaf.core.adaptive.state import LABEL_COST, Adaptive
from releaf.core.runtime.primitives import TIME
from releaf.decision import ActionName
from releaf.policies.compiled import CompiledPolicy
from releaf.policies.context_encoding import require_same_quantiles
from releaf.policies.parameters import parameters_of


class MixturePolicy(CompiledPolicy):
    """Base class of AdaptiveReleaf: its samples of rewards are united with those of others."""

    _engine: MixtureEngine

    @abstractmethod
    def _use_engine(self, engine: MixtureEngine) -> None:
        """Switch to an engine."""

    @abstractmethod
    def _settings(self, actions: int) -> Settings:
        """Settings of an engine for so many actions."""

    @abstractmethod
    def _params(self, actions: int) -> tuple[float, ...]:
        """Parameters that the compiled rule reads."""

    def merge(self, other: Self) -> Self:
        """Merge this learner with another into a new one; both are unchanged.

        For learners of the same features. Their samples of rewards are united, and the models follow from that. A
        reward that both have, since they started from the same saved learner, counts once. ``a.merge(empty)`` estimates
        as ``a`` does. The result has the actions of both and the parameters of this one; if both have a label budget,
        it may spend what both have left, or, if they started from the same saved learner, what is left of its budget.
        Pending decisions stay with the learner that made them.

        Copies of one saved learner that go on side by side need random states of their own (``set_random_state``):
        else equal rewards in equal contexts, right after they were copied, count as one.

        Learners with a :class:`releaf.Quantile` feature that saw different data can't be merged, since the same value
        means different things to them.

        Parameters
        ----------
        other
            A learner with the same features.

        Examples
        --------
        >>> import numpy as np, releaf
        >>> draw = np.random.default_rng(0)
        >>> parts = [releaf.AdaptiveReleaf(2, 2, seed=0) for _ in range(2)]
        >>> for part in parts:
        ...     contexts = draw.random((200, 2))
        ...     trace = part.replay(contexts, contexts)
        >>> whole = parts[0].merge(parts[1])
        >>> whole.steps, whole.observations
        (400, 400)
        """
        if type(other) is not type(self):
            raise TypeError(f"other must be a {type(self).__name__} too, got {type(other).__name__}")
        if self.schema != other.schema:
            raise ValueError(f"learners with different features can't be merged: {self.schema!r} and {other.schema!r}")
        if self.reward_range != other.reward_range:
            ranges = f"{self.reward_range} and {other.reward_range}"
            raise ValueError(f"learners with different reward_range can't be merged: {ranges}")
        self._require_mergeable_costs([other])
        one, mine, encoder = self._frozen_engine()
        two, theirs, other_encoder = other._frozen_engine()
        require_same_quantiles(encoder, other_encoder)
        names = (*mine, *(name for name in theirs if name not in mine))
        places = [
            (mine.index(name) if name in mine else None, theirs.index(name) if name in theirs else None)
            for name in names
        ]
        merged = type(self)(names, self.schema, **parameters_of(self))
        merged.max_pending = max(self.max_pending, other.max_pending)
        merged._use_engine(merge_engines(merged._settings(len(names)), one, two, places))
        merged._set_budget(
            [
                (part.label_budget, engine.state)
                for part, engine in ((self, one), (other, two))
                if part.label_budget is not None and engine.state.clock[TIME] > 0
            ]
        )
        merged._steps = int(merged._state.clock[TIME])
        merged._token = (self._token + other._token) % 2**62
        merged._encoder.restore(encoder)
        merged._merge_groups(self, other)
        return merged

    def _set_budget(self, parts: list[tuple[int, Adaptive]]) -> None:
        """Set the label budget from the budgets and states of those of both learners that have decided.

        Learners that share a past share a budget too, the larger one. Others add up what they have left.
        """
        if self.label_budget is None or not parts:
            return
        if self._state.clock[TIME] < sum(state.clock[TIME] for _, state in parts):
            self.label_budget = max(budget for budget, _ in parts)
        else:
            left = sum(budget - float(state.labels[LABEL_COST]) for budget, state in parts)
            self.label_budget = math.floor(self.label_cost_spent + left + 1e-9)
        self._engine.settings.params = self._params(len(self.actions))
        self._state.params[:] = self._engine.settings.params

    def with_rows(
        self,
        rows: Sequence[SampledRows],
        *,
        reward_sum: float,
        quantiles: dict[str, Array] | None = None,
        mapper: Mapper = map,
    ) -> Self:
        """Build a learner of the same configuration from rows of a log, as a parallel fit samples them.

        Equal rows give equal learners: the token, by which a learner knows its decisions, is 0.

        Parameters
        ----------
        rows
            The rows of each action in random order, with rewards scaled to [0, 1].
        reward_sum
            Sum of all rewards that the rows stand for, scaled likewise.
        quantiles
            The state of the encoder, if there are quantile features.
        mapper
            Applies a function to each of several tasks, as ``map`` does; fits of models are its tasks.
        """
        made = type(self)(self.actions, self.schema, **parameters_of(self))
        made._use_engine(build_engine(self._settings(len(self.actions)), rows, reward_sum, mapper))
        made._steps, made._token = int(made._state.clock[TIME]), 0
        if quantiles is not None:
            made._encoder.restore(quantiles)
        return made

    def _frozen_engine(self) -> tuple[MixtureEngine, tuple[ActionName, ...], dict[str, Array]]:
        """Copy of the samples, with the names of the actions, read under one lock: two could deadlock."""
        with self._lock:
            engine = MixtureEngine.without_models(
                self._engine.settings, len(self.actions), self._engine.learnt_arrays()
            )
            return engine, self.actions, self._encoder.state()
