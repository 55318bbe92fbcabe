"""AdaptiveReleaf: a mixture of regressions and trees per action with randomised UCB exploration."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.decision_step import ADAPTIVE, ADAPTIVE_OF_LABELS, predict_many, set_levels
from releaf.core.adaptive.engine import MOST_WINDOW, MixtureEngine
from releaf.core.adaptive.erasure import begin_erasure
from releaf.core.adaptive.initial_state import Settings
from releaf.core.adaptive.sample import KEYS
from releaf.core.adaptive.state import (
    ALWAYS,
    AUTO,
    BUDGET,
    COST,
    GAIN,
    GUARANTEE,
    LABEL_COST,
    LATEST_KEY,
    LEARNT,
    REQUESTED,
    UNWORTHY,
)
from releaf.core.runtime.primitives import SINCE, TIME
from releaf.decision import ActionName, Decision
from releaf.decision_batch import Relevant, Selection, Selections
from releaf.explanation import Explanation
from releaf.inspection import Effect
from releaf.label_outlook import LabelOutlook
from releaf.policies.adaptive_export import freeze_mixture
from releaf.policies.adaptive_parameters import Floor, checked_floor, checked_forget, checked_observe, checked_rules
from releaf.policies.argument_checks import positive, whole
from releaf.policies.costs import Costs, as_cost_table, check_spending
from releaf.policies.effects import Relevance, are_certain, effects, explained_shares, relevant_features
from releaf.policies.eligibility import as_table
from releaf.policies.explainer import Explainer
from releaf.policies.label_costs import ORDINARY
from releaf.policies.mixture_policy import MixturePolicy
from releaf.policies.policy_export import Rule
from releaf.policy import Actions, Trace
from releaf.relevance_table import RelevanceTable
from releaf.schema import Features
from releaf.traits import Traits


class AdaptiveReleaf(MixturePolicy):
    """A mixture of regressions and trees per action with randomised UCB exploration.

    Five experts estimate the reward of an action: a ridge regression on its features, one on tables of their levels
    (quantiles or categories) and of pairs that interact, and extremely randomised trees: little smoothed, much
    smoothed, and with splits that count by how far they exceed chance.
    Their estimates are averaged with weights that fall with their squared errors so far, so a linear problem stays a
    linear one. All are fitted to a sample of the action's rewards, again each time these have grown by a quarter,
    in a thread; in between each reward updates them. The sample holds all rewards up to a bound on memory
    (:doc:`/adaptive`), and a random part of them beyond. Tables without effect are shrunk to zero, for each action
    separately; the others define its relevance.

    To decide it draws a degree of optimism between 0 and 2·``optimism``, and takes the action with the highest estimate
    plus so many standard deviations. So the probability of each decision is known; it is 1 where the degree of optimism
    does not matter.

    By default every reward is learnt. With ``label_budget``, ``observation_cost`` or both, or with ``delta`` and
    ``epsilon``, it requests a reward (``wants_reward``) only where that can change a decision; all other decisions
    exploit.

    Parameters
    ----------
    actions, features, seed, reward_range, max_pending, control_share, control
        As for :class:`releaf.Releaf`.
    observe
        "always": the reward of its action is learnt. "labels": the rewards of all actions are known afterwards from the
        label, and all are learnt; then the learner does not explore.
    label_budget
        Most rewards to request, or most that they cost in all where some cost more than others (``label_cost=`` of
        ``decide``). The required probability of error rises as the budget is spent; a tenth of the rewards left goes to
        random checks, mostly of novel contexts.
    observation_cost
        Cost of observing a reward, in units of the reward (c_O). A reward is requested where the expected loss without
        it, times the number of decisions per reward so far, is higher. With a ``label_budget`` too, that is the most.
    stop_asking_after
        With ``observation_cost``: once no reward was worth its cost for so many decisions in a row, random checks stop,
        and the learner asks for nothing until one is worth it again. None: checks go on.
    delta, epsilon
        A guarantee (δ, and ε in units of the reward): while it exploits, actions that are worse than the best by more
        than ``epsilon`` are chosen with probability ``delta`` at most, provided that one of its experts can approximate
        the expected rewards. Other decisions explore, and request their reward.
    forget
        None: never. A number: only so many of the latest rewards of each action count. "auto": drift detection; after a
        drift, earlier rewards are forgotten.
    optimism
        Number of standard deviations that are added to an estimate, on average.
    least_probability
        Lower bound on every action's probability, in decisions whose reward is wanted; or a mapping from some of the
        actions to their own, such as ``{"treat": 0.05}``, which sum to 1 at most. Above 0, and if every reward is
        learnt, a log supports off-policy evaluation of any other policy. If rewards are requested, only decisions with
        a request do, and ``probability`` is conditional on the request. More than 1/A counts as 1/A. An action that is
        removed and added again has no floor of its own.
    cost
        Fixed cost of each action, as a mapping or in the actions' order; None: with each decision, if at all.
    cost_weight
        Reward that a unit of cost is worth (λ): the policy maximises reward − λ·cost.
    spend_budget, budget_period
        Most to spend per so many decisions; a weight λ that is learnt online keeps to it. After t decisions the spend
        is at most t·spend_budget/budget_period + spend_budget, wherever the cheapest eligible action is affordable.

    Examples
    --------
    >>> import releaf
    >>> bandit = releaf.AdaptiveReleaf(actions=["wait", "treat"], features=["age", "dose"], seed=0)
    >>> choice = bandit.decide([0.3, 0.7])
    >>> bandit.learn(choice, 1.0)
    >>> choice.probability
    0.5
    """

    traits = Traits(
        "AdaptiveReleaf",
        "this package",
        learns_actively=True,
        observes="the reward of its action, always or where it can change a decision",
    )
    _entry_points = ADAPTIVE
    _changed_by_choice = (
        "clock",
        "seen",
        "seen_keys",
        "seen_steps",
        "seen_counts",
        "fresh_knots",
        "fresh_levels",
        "sums",
        "labels",
        "spending",
    )

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        seed: int | None = None,
        observe: Literal["always", "labels"] = "always",
        label_budget: int | None = None,
        observation_cost: float | None = None,
        stop_asking_after: int | None = None,
        delta: float | None = None,
        epsilon: float | None = None,
        forget: int | Literal["auto"] | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        optimism: float = 0.35,
        least_probability: Floor = 0.0,
        max_pending: int = 100_000,
        cost: Costs | None = None,
        cost_weight: float | None = None,
        spend_budget: float | None = None,
        budget_period: int = 1_000,
        control_share: float = 0.0,
        control: ActionName = "uniform",
    ) -> None:
        rules = {"label_budget": label_budget, "observation_cost": observation_cost, "delta": delta}
        rules_set = checked_rules(rules, epsilon, stop_asking_after)
        super().__init__(actions, features, checked_observe(observe, rules_set), seed, max_pending, reward_range)
        if self.observation_mode == "labels":
            self._entry_points = ADAPTIVE_OF_LABELS
        self.label_budget = None if label_budget is None else whole("label_budget", label_budget, least=1)
        self.observation_cost = (
            None if observation_cost is None else positive("observation_cost", observation_cost, zero=True)
        )
        self.stop_asking_after = (
            None if stop_asking_after is None else whole("stop_asking_after", stop_asking_after, least=1, most=2**53)
        )
        self._takes_label_costs = label_budget is not None or observation_cost is not None
        self.delta = None if delta is None else positive("delta", delta, below=1.0)
        self.epsilon = None if epsilon is None else positive("epsilon", epsilon, below=self._span)
        self.forget = checked_forget(forget, MOST_WINDOW)
        self.optimism = positive("optimism", optimism, zero=True, most=100.0)
        self.least_probability = checked_floor(least_probability, self.actions)
        self._named: Relevant | None = None
        self._explainer = Explainer()
        self._set_cost_rule(cost, cost_weight, spend_budget, budget_period)
        self._set_control(control_share, control)
        self._start()

    # --- the rule -----------------------------------------------------------------------------------------

    def _params(self, actions: int) -> tuple[float, ...]:
        rule, limit, width = ALWAYS, 0.0, 0.0
        most = math.inf if self.label_budget is None else float(self.label_budget)
        if self.observation_cost is not None:
            rule, limit = COST, self.observation_cost / self._span
        elif self.label_budget is not None:
            rule = BUDGET
        elif self.delta is not None and self.epsilon is not None:
            rule, limit = GUARANTEE, self.epsilon / self._span
            width = -NormalDist().inv_cdf(self.delta / max(actions, 2))
        window = 0 if self.forget is None else AUTO if self.forget == "auto" else self.forget
        optimism = 0.0 if self.observation_mode == "labels" else self.optimism  # nothing to explore
        floor = -1.0 if isinstance(self.least_probability, dict) else self.least_probability
        return optimism, floor, float(rule), limit, width, float(window), most, float(self.stop_asking_after or 0)

    def _settings(self, actions: int) -> Settings:
        categories = np.array([feature.categories for feature in self.schema.features], dtype=np.int64)
        return Settings(self.schema.lowest(), categories, self._params(actions), self.seed)

    def _start(self) -> None:
        self._use_engine(MixtureEngine(self._settings(len(self.actions)), len(self.actions)))

    def _build(self, actions: int) -> Any:
        raise NotImplementedError("the engine builds the state")

    def _use_engine(self, engine: MixtureEngine, names: tuple[ActionName, ...] | None = None) -> None:
        """Switch to an engine, perhaps of other actions; the only way to replace it."""
        if isinstance(self.least_probability, dict):
            for place, name in enumerate(self._action_names if names is None else names):
                engine.state.floors[place] = self.least_probability.get(name, 0.0)
        self._engine, self._named = engine, None
        self._use_state(engine.state)

    def _do_what_is_due(self) -> None:
        """Start or finish fits that are due; relevance changes only here."""
        if self._engine.do_what_is_due():
            self._named = None

    def set_random_state(self, state: int) -> None:
        """Set the state of the random generator; the keys of later rewards follow from it too.

        So copies of a learner that go on with states of their own can be merged without losing equal rewards.
        """
        with self._lock:
            super().set_random_state(state)
            for sample in self._engine.samples:
                sample.counts[LATEST_KEY] = (int(sample.counts[LATEST_KEY]) ^ state) & (KEYS - 1)

    def _learn(self, context: Array, step: int, index: int, reward: float) -> None:
        if self._entry_points.learn(self._pointer_table, context, step, index, reward):
            self._do_what_is_due()

    def _learn_all(self, context: Array, step: int, rewards: Array) -> None:
        if self._entry_points.learn(self._pointer_table, context, step, rewards):
            self._do_what_is_due()

    def learn_label(
        self,
        context: Any,
        label: ActionName | None,
        *,
        only_if_requested: bool = False,
        label_cost: float | None = None,
    ) -> bool:
        """Decide for a context and learn its label, the right action, which implies the rewards of all actions.

        For learners that request rewards; with ``observe="labels"`` use ``replay``. Every learnt label counts as
        requested. No decision stays pending.

        Parameters
        ----------
        context
            As for ``decide``.
        label
            The action with the highest reward, while all others have the lowest. None if the label stays unknown: the
            context counts all the same.
        only_if_requested
            Whether to ignore a label that the learner does not request.
        label_cost
            As for ``decide``.

        Returns
        -------
        bool
            Whether the label was learnt.
        """
        with self._lock:
            right = None if label is None else self._index_of(label)
            choice = self.decide(context, label_cost=label_cost)
            self._pending.pop(choice.id, None)
            learns = right is not None and (choice.wants_reward or not only_if_requested)
            is_request = self.observation_mode == "explored"  # else every reward is wanted, and none counted
            if is_request and learns != choice.wants_reward:
                self._state.clock[REQUESTED] += 1 if learns else -1
                cost = choice.label_cost or ORDINARY
                self._state.labels[LABEL_COST] += cost if learns else -cost
            if learns:
                for action in range(len(self.actions)):
                    self._learn(choice._context, choice.id, action, float(action == right))
        return learns

    def _learn_log(self, units: Array, taken: Array, rewards: Array) -> None:
        reached = 0
        try:
            while reached < len(units):
                reached = ADAPTIVE.learn_log(self._pointer_table, units, taken, rewards, reached)
                self._do_what_is_due()
        finally:
            self._steps = int(self._state.clock[TIME])

    def _estimate(self, units: Array) -> Array:
        expected = np.empty((len(units), len(self.actions)))
        predict_many(self._pointer_table, units, expected)
        return expected

    def _grow_if_full(self) -> None:
        self._do_what_is_due()

    def _replay(self, units: Array, rewards: Array, masks: Array | None = None, costs: Array | None = None) -> Trace:
        try:
            return super()._replay(units, rewards, masks, costs)
        finally:
            self._do_what_is_due()

    def _choose(self, context: Array) -> Selection:
        # inlined, since method calls would take as long as the decision itself
        decision = self._entry_points.decide(self._pointer_table, context)
        if decision < 0:
            raise self._out_of_range(context, -2 - decision)
        probability = self._state.chance.item()
        if decision & 1:
            return decision >> 1, True, probability, None, None
        estimates = tuple(self._state.estimates.tolist())
        return decision >> 1, False, probability, estimates, self._named or self._name_relevant()

    def _chance_of_other(self, other: int, taken: int, chance: float) -> float | None:
        known = super()._chance_of_other(other, taken, chance)
        return float(self._state.chances[other]) if known is None else known

    def _choose_all(self, units: Array, masks: Array | None = None, costs: Array | None = None) -> Selections:
        count, table = len(units), as_table(masks, len(self.actions))
        priced = as_cost_table(costs, len(self.actions))
        decisions, chances = np.empty(count, dtype=np.int64), np.empty(count)
        estimates = np.empty((count, len(self.actions)))
        self._entry_points.decide_all(self._pointer_table, units, table, priced, decisions, chances, estimates)
        self._set_eligible(None)
        self._use_fixed_costs()
        relevant = [self._named or self._name_relevant()] * count
        return Selections(decisions >> 1, (decisions & 1).astype(np.bool_), chances, estimates, relevant)

    def _choose_each(
        self, units: Array, states: Array, masks: Array | None = None, costs: Array | None = None
    ) -> Array:
        time = int(self._state.clock[TIME]) + 1
        if time & (time - 1) == 0:  # levels are set from the sampled contexts then: once, not for each row
            set_levels(self._pointer_table)
            self._state.clock[TIME] = time
        return super()._choose_each(units, states, masks, costs)

    def _arrays_read_by_choice(self) -> list[Array]:
        # the sampled contexts matter to the next fit only
        return [self._state.clock, self._state.sums, self._state.labels, self._state.spending]

    def _name_relevant(self) -> Relevant:
        """Relevant features of each action, cached until the next refit."""
        named = relevant_features(*self._engine.relevance())
        self._named = tuple([features or None for features in named])
        return self._named

    # --- actions, saving and loading -----------------------------------------------------------------

    def _erase_contexts(self, steps: Array) -> int:
        return begin_erasure(self._engine, steps)

    def wait_for_erasure(self) -> None:
        self._engine.wait_for_fits()

    def _finish_erasure(self) -> None:
        self._engine.finish_refits()
        self._named = None

    def _add_action(self) -> None:
        actions = len(self._engine.samples)
        engine = self._engine.with_actions(self._settings(actions + 1), list(range(actions)), 1)
        engine.state.clock[SINCE] = engine.state.clock[TIME]
        self._use_engine(engine)

    def _remove_action(self, index: int) -> None:
        kept = [action for action in range(len(self._engine.samples)) if action != index]
        if isinstance(self.least_probability, dict):
            self.least_probability.pop(self._action_names[index], None)
        names = tuple(self._action_names[action] for action in kept)
        self._use_engine(self._engine.with_actions(self._settings(len(kept)), kept), names)

    def _arrays(self) -> dict[str, Array]:
        arrays = self._as_saved(self._engine.learnt_arrays())
        return {name: array for name, array in arrays.items() if not self._always_wants or name != "labels"}

    def _cached_arrays(self) -> dict[str, Array]:
        return self._engine.fitted_arrays()

    def _load_state(self, arrays: dict[str, Array]) -> None:
        if "sample_counts" not in arrays:
            raise ValueError(
                "it was saved by version 0.1, whose AdaptiveReleaf had another model: train a new learner on its log "
                "(releaf.fit_log, or learn_log), or keep using that version"
            )
        engine = MixtureEngine.from_arrays(
            self._settings(len(self.actions)), len(self.actions), self._from_saved(arrays)
        )
        check_spending(engine.state.spending, self._spending_rule())
        if engine.state.clock[TIME] != self._steps:
            raise ValueError("its clock contradicts the rest")
        self._use_engine(engine)

    def _freeze_rule(self) -> Rule:
        return freeze_mixture(self._engine)

    # --- inspection -------------------------------------------------------------------------------

    @property
    def observations(self) -> int:
        """Number of learnt rewards of the current actions."""
        return int(sum(sample.counts[LEARNT] for sample in self._engine.samples))

    @property
    def explorations(self) -> int:
        """Number of decisions that requested a reward; 0 if every reward is learnt."""
        return int(self._state.clock[REQUESTED])

    def _requested_rewards(self) -> int:
        return self.explorations

    def _request_rule(self) -> str:
        if self.labels_left == 0:
            return f"label_budget={self.label_budget} is spent"
        rules = ("label_budget", "observation_cost", "delta", "epsilon")
        given = [f"{name}={getattr(self, name)!r}" for name in rules if getattr(self, name) is not None]
        return ", ".join(given) or super()._request_rule()

    @property
    def label_cost_spent(self) -> float:
        """Cost of all requested rewards, in ordinary labels. It is ``labels_spent`` unless some cost more or less."""
        return super().label_cost_spent if self._always_wants else float(self._state.labels[LABEL_COST])

    def _use_label_costs(self, costs: Array) -> None:
        self._state.label_costs = costs
        self._state.label_row[0] = 0

    def label_outlook(self) -> LabelOutlook:
        """What further labels are expected to gain, and whether the learner still asks for any.

        For learners with a ``label_budget`` or an ``observation_cost``.

        Examples
        --------
        >>> import releaf
        >>> bandit = releaf.AdaptiveReleaf(actions=2, features=1, seed=0, label_budget=50)
        >>> decision = bandit.decide([0.5], label_cost=2.5)
        >>> outlook = bandit.label_outlook()
        >>> outlook.gain > 0, outlook.labels_left
        (True, 47.5)
        """
        if not self._takes_label_costs:
            return super().label_outlook()
        with self._lock:
            labels, stops = self._state.labels, self.stop_asking_after
            unworthy = None if self.observation_cost is None else int(labels[UNWORTHY])
            return LabelOutlook(
                gain=self._span * float(labels[GAIN]),
                price=self.observation_cost,
                unworthy=unworthy,
                stop_asking_after=stops,
                has_stopped=stops is not None and unworthy is not None and unworthy >= stops,
                labels_left=self.labels_left,
            )

    def relevance(self) -> RelevanceTable:
        """Share of each feature in the explained variance of each action's reward (A × D).

        A row sums to 1, or to 0 while no feature is relevant with sufficient certainty. An interaction counts for both
        of its features. The table prints with names, takes them in brackets (``relevance()["treat", "age"]``), and has
        ``to_pandas``. Its ``explained`` is the share of the reward's variance that each feature explains, so it tells
        an action that depends on much from one that hardly depends on anything; ``certainties`` are 1 less
        the p-value of each relevance.
        """
        with self._lock:
            strengths, certainties = self._engine.relevance()
            strengths = np.where(are_certain(certainties), strengths, 0.0)
            total = strengths.sum(axis=1, keepdims=True)
            shares = np.divide(strengths, total, out=np.zeros_like(strengths), where=total > 0)
            explained = explained_shares(self._engine, strengths)
            return RelevanceTable(shares, self.actions, self.schema.names, explained, certainties)

    def relevant_features(self) -> dict[Any, list[Relevance]]:
        """Relevant features of each action, the most important first.

        Each with its share in what is explained of the reward, its certainty, and what it explains of the variance.
        """
        with self._lock:
            shares, (strengths, certainties) = self.relevance(), self._engine.relevance()
            explained = shares.explained if shares.explained is not None else np.zeros(shares.shape)
            named = relevant_features(strengths, certainties)
        return {
            action: [
                Relevance(
                    self.schema.names[position],
                    float(shares[row, position]),
                    float(certainties[row, position]),
                    float(explained[row, position]),
                )
                for position in sorted(named[row], key=lambda position: -shares[row, position])
            ]
            for row, action in enumerate(self.actions)
        }

    def effect(self, feature: int | str) -> dict[Any, list[Effect]]:
        """Partial dependence of each action's estimate on a feature; ``releaf.plot.partition`` draws it.

        The estimate with a value minus the estimate with the context's own value, averaged over observed contexts, in
        units of the reward. The values of a number span the observed range, in the feature's units.

        Parameters
        ----------
        feature
            Its position or its name.
        """
        position = self.schema.index(feature)
        with self._lock:
            by_action = effects(self._engine, self._encoder, position, self._span)
        return dict(zip(self.actions, by_action, strict=True))

    def explain(self, choice: Any) -> Explanation:
        """Explain a decision by the current estimates: each one's interval, and what each feature adds to it.

        Parameters
        ----------
        choice
            A decision of this learner, of any age, for an action that still exists; or a context, for the decision
            that it would make now.
        """
        explained, is_preview = self._decision_to_explain(choice)
        known = {} if isinstance(choice, Decision) else self._encoder.quantile_values(choice)
        given = known if is_preview else None
        with self._lock:
            explained = replace(
                explained, index=self._index_of(explained.action)
            )  # earlier actions may have been removed
            prepared = self._explainer.prepare(self._engine, self.actions, explained)
            is_pending = explained.id in self._pending
            weight = self.cost_weight
        return self._explainer.explain(explained, prepared, self._encoder, self.reward_range, given, is_pending, weight)
