"""`PartitionedPolicy`: base class of RELEAF and Greedy-RELEAF, on adaptive partitions of the features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from releaf import theory
from releaf.arrays import Array
from releaf.core.releaf import decision_step, merging
from releaf.core.releaf.engine import Engine, EngineSettings
from releaf.core.releaf.marginals import observed_in_leaves
from releaf.core.releaf.state import (
    EXPLOITED,
    EXPLORED,
    NO_CANDIDATE,
    OBSERVED,
    PENDING,
    RANDOM,
    TIME,
    UNDER_EXPLORED,
)
from releaf.decision import ActionName, Decision
from releaf.decision_batch import Relevant, Selection
from releaf.explanation import ActionExplanation, Explanation, Term
from releaf.features import MISSING, Continuous, Quantile
from releaf.inspection import Interval, IntervalReward
from releaf.policies.argument_checks import checked_random_state, positive, scale, whole
from releaf.policies.base import OnlinePolicy
from releaf.policies.context_encoding import require_same_quantiles
from releaf.policies.eligibility import was_eligible, write_mask
from releaf.policies.parameters import parameters_of
from releaf.policy import Trace
from releaf.relevance_table import RelevanceTable

OBSERVE = ("explored", "always", "all-actions", "labels")
MOST_KNOWN = 4096
LARGEST_BASE = 1024


class _MergeInput(NamedTuple):
    """Configuration and statistics of a learner to merge."""

    configuration: dict[str, Any]
    known: merging.SufficientStatistics
    encoder: dict[str, Array]  # state of its quantile sketches


def _require_same_configuration(one: _MergeInput, other: _MergeInput) -> None:
    for name, mine in one.configuration.items():
        theirs = other.configuration[name]
        if mine != theirs and name != "max_pending":
            raise ValueError(f"learners with different {name} can't be merged: {mine!r} and {theirs!r}")
    require_same_quantiles(one.encoder, other.encoder)


class PartitionedPolicy(OnlinePolicy):
    """Policy on top of an ``Engine``. A subclass defines the parameters and builds the engine."""

    _engine: Engine
    _tuples: list[tuple[int, ...] | None]
    _known: dict[bytes, tuple[Relevant, float | None]]
    seed: int | None
    rho: float | None
    observation_cost: float

    def __init__(self, actions: Any, features: Any, observe: Any, max_pending: Any, reward_range: Any) -> None:
        if observe not in OBSERVE:
            raise ValueError(f"observe must be one of {', '.join(map(repr, OBSERVE))}, got observe={observe!r}")
        super().__init__(actions, features, observe, max_pending, reward_range)

    def _set_common_parameters(
        self, seed: Any, rho: Any, delta: Any, control_divisor: Any, observation_cost: Any, base: Any
    ) -> None:
        """Validate and set the parameters that all subclasses share."""
        self.seed = None if seed is None else whole("seed", seed, least=0)
        self.rho = None if rho is None else positive("rho", rho)
        self.delta = positive("delta", delta, below=1.0)
        self.control_divisor = scale("control_divisor", control_divisor)
        self.observation_cost = positive("observation_cost", observation_cost, zero=True)
        self.base = whole("base", base, least=2, most=LARGEST_BASE)

    def _start(self, *, gamma: int, **further: Any) -> None:
        """Build the engine from the shared parameters and the subclass's settings."""
        features = self.schema.features
        settings = EngineSettings(
            categories=tuple(feature.categories for feature in features),
            missing=tuple(feature.missing and not feature.categories for feature in features),
            gamma=gamma,
            rho=theory.balanced_rho(gamma) if self.rho is None else self.rho,
            delta=self.delta,
            control_divisor=self.control_divisor,
            base=self.base,
            observe=OBSERVE.index(self.observation_mode),
            **further,
        )
        self._use(Engine(settings, len(self.actions), self.seed))

    def _use(self, engine: Engine) -> None:
        self._engine = engine
        gamma = engine.settings.gamma
        candidates = engine.state.targets.reshape(-1, gamma).tolist()
        self._tuples = [*map(tuple, candidates), None, None]  # NO_CANDIDATE and NOT_SOUGHT, from the end, give None
        self._known = {}

    # --- the rule -----------------------------------------------------------------------------------------

    def _choose(self, context: Array) -> Selection:
        engine = self._engine
        decision = decision_step.decide(engine.state.pointer_table, context)
        if decision < 0:
            decision = engine.decide(context)  # grows the arrays and retries
        if decision < 0:
            raise self._out_of_range(context, decision_step.BAD_VALUE - decision)
        if decision & 1:
            return decision >> 1, True, 1.0 / engine.state.clock[UNDER_EXPLORED].item(), None, None
        found = engine.state.relevant.tobytes()
        relevant, probability = self._known.get(found) or self._name_tuples(found)
        return decision >> 1, False, probability, tuple(engine.state.estimates.tolist()), relevant

    def _name_tuples(self, found: bytes) -> tuple[Relevant, float | None]:
        """Relevant features of all actions and the decision's probability; cached, since a few combinations recur.

        ``found`` tells by NOT_SOUGHT which actions were not eligible, so the probability follows from it alone.
        """
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        candidates = np.frombuffer(found, dtype=np.int64).tolist()
        relevant = tuple([self._tuples[candidate] for candidate in candidates])
        self._known[found] = (relevant, None if NO_CANDIDATE in candidates else 1.0)
        return self._known[found]

    def _chance_of_other(self, other: int, taken: int, chance: float) -> float | None:
        known = super()._chance_of_other(other, taken, chance)
        if known is not None:
            return known
        return chance if self._engine.state.short[other] else 0.0  # it draws one of the under-explored actions

    def _set_eligible(self, mask: Array | None) -> None:
        write_mask(self._engine.state.eligible, mask)

    def _choose_each(
        self, units: Array, states: Array, masks: Array | None = None, costs: Array | None = None
    ) -> Array:
        chosen = np.zeros(len(units), dtype=np.int64)
        if not len(units):
            return chosen
        time = self._engine.clock(TIME)
        self._engine.decide(units[0])  # counts the latest arrival, which belongs to the decision before
        clock, pointer_table = self._engine.state.clock, self._engine.state.pointer_table
        clock[TIME], clock[PENDING] = time, 0
        before = clock.copy()
        for row, (unit, random) in enumerate(zip(units, states.tolist(), strict=True)):
            clock[:] = before
            clock[RANDOM] = random
            if masks is not None:
                self._set_eligible(masks[row])
            chosen[row] = decision_step.decide(pointer_table, unit)
        return chosen >> 1

    def _learn(self, context: Array, step: int, index: int, reward: float) -> None:
        if decision_step.learn(self._engine.state.pointer_table, context, step, index, reward):
            self._engine.learn(context, step, index, reward)  # grows the arrays and retries

    def _learn_all(self, context: Array, step: int, rewards: Array) -> None:
        self._engine.learn_all(context, step, rewards)

    def _replay(self, units: Array, rewards: Array, masks: Array | None = None, costs: Array | None = None) -> Trace:
        try:
            actions, explored, observed, reached = self._engine.replay(units, rewards, masks)
        finally:  # also after an interrupt
            self._set_eligible(None)
            self._steps = self._engine.clock(TIME)
        if reached < len(units):
            raise self._lacks_reward(reached, rewards[reached])
        return Trace(actions, explored, observed, rewards[np.arange(len(units)), actions])

    def _learn_log(self, units: Array, taken: Array, rewards: Array) -> None:
        try:
            self._engine.learn_log(units, taken, rewards)
        finally:
            self._steps = self._engine.clock(TIME)

    def _estimate(self, units: Array) -> Array:
        return self._engine.estimate(units)

    def _add_action(self) -> None:
        self._engine.add_action()

    def _remove_action(self, index: int) -> None:
        self._engine.remove_action(index)

    def set_random_state(self, state: int) -> None:
        self._engine.state.clock[RANDOM] = checked_random_state(state)

    def _arrays(self) -> dict[str, Array]:
        return self._engine.learnt_arrays()

    def _load_state(self, arrays: dict[str, Array]) -> None:
        if len(arrays["added_at"]) != len(self.actions):
            raise ValueError("its actions contradict the rest")
        self._engine.load(arrays)

    # --- merging ----------------------------------------------------------------------------------------

    def merge(self, other: Self) -> Self:
        """Merge this learner with another into a new one; both are unchanged.

        For learners of the same configuration that saw different contexts. Counts and sums of rewards add up. An
        interval that one of them has split is split in the result; what the other observed in the whole interval is
        dropped, as the algorithm does when an interval splits.

        The result is the same, bit for bit, in any order and grouping of learners, while no sum of rewards exceeds 2²⁷
        (134 million rewards of 1 for one action in one cell): rewards are multiples of 2⁻²⁶, whose sums are exact up to
        there. Larger sums are rounded to 53 bits, and their last bit may depend on the order. A cell counts at most
        2³¹ - 1 rewards of an action; with more it has that count and the mean of all.

        ``a.merge(empty)`` decides from then on as ``a`` does. Its state file may differ, since the result has a
        canonical form: node ids are assigned anew, no decision is pending, and the latest arrival has been counted.
        Pending decisions stay with the learner that made them. With ``seed=None`` later random draws depend on the
        order. The result has the larger ``max_pending``.

        Learners with a :class:`releaf.Quantile` feature that saw different data can't be merged, since the same
        interval holds different values for them.

        Parameters
        ----------
        other
            A learner with the same actions, features and parameters.

        Examples
        --------
        >>> import numpy as np, releaf
        >>> draw = np.random.default_rng(0)
        >>> parts = [releaf.Releaf(2, 2, seed=0) for _ in range(2)]
        >>> for part in parts:
        ...     contexts = draw.random((1000, 2))
        ...     trace = part.replay(contexts, contexts)
        >>> whole = parts[0].merge(parts[1])
        >>> whole.steps
        2000
        """
        if type(other) is not type(self):
            raise TypeError(f"other must be a {type(self).__name__} too, got {type(other).__name__}")
        mine, theirs = self._merge_input(), other._merge_input()
        _require_same_configuration(mine, theirs)
        merged = self._with_statistics(merging.combine(mine.known, theirs.known), mine.configuration["actions"])
        merged.max_pending = max(self.max_pending, other.max_pending)
        merged._token = (self._token + other._token) % 2**62
        merged._encoder.restore(mine.encoder)
        merged._merge_groups(self, other)
        return merged

    def _merge_input(self) -> _MergeInput:
        """Configuration and statistics for a merge, read under one lock: two locks could deadlock with another merge.

        Read at once, since other threads may add an action meanwhile.
        """
        with self._lock:
            configuration = {"actions": self.actions, "schema": self.schema, **parameters_of(self)}
            return _MergeInput(
                configuration, merging.extract_statistics(self._engine, self.seed), self._encoder.state()
            )

    @property
    def engine_settings(self) -> EngineSettings:
        """Settings of the compiled engine, from which a parallel fit computes partitions and cells."""
        return self._engine.settings

    def with_statistics(
        self,
        known: merging.SufficientStatistics,
        *,
        quantiles: dict[str, Array] | None = None,
        sample: Array | None = None,
    ) -> Self:
        """Build a learner of the same configuration from sufficient statistics, as a parallel fit sums them.

        Equal statistics give equal learners: the token, by which a learner knows its decisions, is 0.

        Parameters
        ----------
        known
            The statistics.
        quantiles
            The state of the encoder, if there are quantile features.
        sample
            Encoded contexts, from which the relevance is counted.
        """
        made = self._with_statistics(known, self.actions)
        made._token = 0
        if quantiles is not None:
            made._encoder.restore(quantiles)
        if sample is not None and len(sample):
            made._engine.tally_relevance(sample)
        return made

    def _with_statistics(self, known: merging.SufficientStatistics, actions: Sequence[ActionName]) -> Self:
        made = type(self)(actions, self.schema, **parameters_of(self))
        made._use(merging.build_engine(self._engine.settings, len(actions), self.seed, known))
        made._steps = made._engine.clock(TIME)
        return made

    # --- inspection -------------------------------------------------------------------------------

    def _requested_rewards(self) -> int:
        return self.explorations

    @property
    def explorations(self) -> int:
        """Number of explorations."""
        return self._engine.clock(EXPLORED)

    @property
    def observations(self) -> int:
        """Number of observations; the rewards of all actions at one step count once."""
        return self._engine.clock(OBSERVED)

    @property
    def observation_spend(self) -> float:
        """Cost of the observations so far, which is their number times c_O."""
        return self.observations * self.observation_cost

    def relevance(self) -> RelevanceTable:
        """Share of exploitations in which each feature was relevant, for each action (A × D).

        An estimate of ℛ(a): how often ĉ_t(a) contained each feature. A row sums to at most ``gamma_rel``, less where no
        tuple of features was a candidate. Only exploitations since the action was added count; before the first one
        its row is zero.

        Ties between features that explain an action's rewards equally well go to the first. So with only 2·gamma_rel
        features, or for an action whose reward never varies, the first features are named without evidence.

        Features of few values, such as booleans, can lead without being relevant, since the algorithm compares means
        within intervals however many values a feature has. Prefer AdaptiveReleaf's relevance, which tests each feature.
        """
        with self._lock:
            state = self._engine.state
            counts = state.relevance.reshape(len(self.actions), -1)
            exploited = self._engine.clock(EXPLOITED) - state.added_at
            shares = counts / np.maximum(exploited, 1)[:, None]
            return RelevanceTable(shares, self.actions, self.schema.names)

    def partition(self, feature: int | str) -> list[Interval]:
        """Current intervals of a feature, from low to high.

        Parameters
        ----------
        feature
            Its position or its name.
        """
        position = self.schema.index(feature)
        return [self._interval(position, node) for node in self._engine.leaves(position)]

    def interval_rewards(self, feature: int | str) -> list[list[IntervalReward]]:
        """Reward statistics of each action in each interval of ``partition(feature)``, over all values of the others.

        One list for each interval, in the same order, with one entry for each action: the rewards learnt since the
        interval exists. A tuple of features stores them with the intervals of the others, and drops them when one of
        those splits. The result is that of the tuple with the most rewards left, so there may have been more.

        Parameters
        ----------
        feature
            Its position or its name.
        """
        position = self.schema.index(feature)
        with self._lock:
            counts, sums = observed_in_leaves(self._engine.state, position)
        means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
        if not self._is_unit:
            means = self._low + self._span * means
        return [list(map(IntervalReward, *columns)) for columns in zip(counts.tolist(), means.tolist(), strict=True)]

    def _interval(self, position: int, node: Any) -> Interval:
        feature = self.schema.features[position]
        if node.rank < 0:
            return Interval(math.nan, math.nan, None, node.arrivals)
        count = feature.categories or self._engine.settings.base**node.level
        level = None if feature.categories else node.level
        return Interval(node.rank / count, (node.rank + 1) / count, level, node.arrivals)

    def explain(self, choice: Any) -> Explanation:
        """Explain a decision: the estimate of each action, and the features that it follows from.

        Parameters
        ----------
        choice
            A decision of this learner, of any age; or a context, for the decision that it would make now.
        """
        choice, is_preview = self._decision_to_explain(choice)
        verb, past = ("It would choose", "It would explore") if is_preview else (f"Decision {choice.id} chose", None)
        past = past or f"Decision {choice.id} explored"
        if choice.estimates is None or choice.relevant is None:
            nothing = tuple(
                ActionExplanation(name, None, None, None, None, 0, (), eligible=was_eligible(choice, name))
                for name in choice._actions
            )
            headline = self._explain_exploration(choice, past)
            return Explanation(choice.action, nothing, headline, "The reward is wanted.", None, self.reward_range)
        estimates = choice.estimates
        with self._lock:
            totals, sums = (array.sum(axis=0).tolist() for array in observed_in_leaves(self._engine.state, 0))
            learnt = dict(zip(self.actions, zip(totals, sums, strict=True), strict=True))
        known = [
            self._explain_action(choice, action, *learnt.get(choice._actions[action], (0, 0.0)))
            for action in sorted(range(len(estimates)), key=lambda action: -estimates[action])
        ]
        wanted = "The reward is wanted." if choice.wants_reward else "No reward was asked for."
        why = "its estimated reward is the highest"
        if choice.eligible is not None:
            why = f"{why} of the eligible actions" if len(choice.eligible) > 1 else "it is the only eligible action"
        headline = f"{verb} {choice.action!r}: {why}."
        return Explanation(choice.action, tuple(known), headline, wanted, None, self.reward_range)

    def _explain_action(self, choice: Decision, action: int, rewards: int, total: float) -> ActionExplanation:
        assert choice.estimates is not None
        assert choice.relevant is not None
        estimate, relevant = choice.estimates[action], choice.relevant[action]
        base_rate = self._low + self._span * total / rewards if rewards else estimate
        names = tuple(self.schema.names[position] for position in relevant or ())
        name, eligible = choice._actions[action], was_eligible(choice, choice._actions[action])
        where = self._describe(choice, relevant)
        if not eligible or (choice.eligible is not None and len(choice.eligible) == 1):
            where = "from all cells of the context, since there was nothing to choose"
        term = Term(names, estimate - base_rate, where)
        return ActionExplanation(name, estimate, None, None, base_rate, int(rewards), (term,), eligible=eligible)

    def _explain_exploration(self, choice: Decision, explored: str) -> str:
        count = round(1 / choice.probability) if choice.probability else 1
        others = "the only under-explored action" if count == 1 else f"one of {count} under-explored actions, at random"
        finest = sorted(range(len(self.schema)), key=lambda position: self._length(choice, position))[:3]
        where = "; ".join(self._where(choice, position) for position in finest)
        return (
            f"{explored} {choice.action!r}, {others}: for contexts like this one it has been "
            f"observed too rarely to be judged. The finest intervals here: {where}."
        )

    def _describe(self, choice: Decision, relevant: tuple[int, ...] | None) -> str:
        if relevant is None:
            return "from features drawn at random, since none explained its rewards"
        return "from " + " and ".join(self._where(choice, position) for position in relevant)

    def _where(self, choice: Decision, position: int) -> str:
        """Interval that held a feature's value at the decision, as text."""
        name, feature = self.schema.names[position], self.schema.features[position]
        interval = self._interval_at(choice, position)
        if choice.context[position] == MISSING:
            return f"{name} missing"
        return f"{name} {feature.describe(interval.low, interval.high)}"

    def _interval_at(self, choice: Decision, position: int) -> Interval:
        value = float(choice.context[position])
        return self._interval(position, self._engine.leaf_at(position, value, choice.id))

    def _length(self, choice: Decision, position: int) -> float:
        feature = self.schema.features[position]
        if not isinstance(feature, Continuous | Quantile) or choice.context[position] == MISSING:
            return 1.0
        interval = self._interval_at(choice, position)
        return interval.high - interval.low
