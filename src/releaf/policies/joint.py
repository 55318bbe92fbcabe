"""JointReleaf: one regression for many actions, on their features, the context's, and the crosses of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from releaf.arrays import Array
from releaf.core.joint.decision_step import JOINT, change_profile, estimate_all, learn_with_profile
from releaf.core.joint.state import Joint, JointSettings, new_joint
from releaf.decision import ActionName
from releaf.explanation import Explanation
from releaf.policies.action_table_policy import ActionTablePolicy
from releaf.policies.argument_checks import positive, whole
from releaf.policies.joint_explanations import JointModel, cross_shares, explain_joint, shares_by_action
from releaf.relevance_table import RelevanceTable
from releaf.schema import Features, Schema
from releaf.traits import Traits

MOST_TERMS = 3_000
OPTIMISM_LEVELS = 16  # from which one is drawn
MOST_OPTIMISM = 2.0  # times the parameter


class JointReleaf(ActionTablePolicy):
    """One regression for many actions, on their features, the context's, and the crosses of both.

    AdaptiveReleaf has a model for each action; with a thousand of them, each would have too few rewards. JointReleaf
    has one for all: polynomials of the features of the context, of those of the action, and the products of both, each
    pair shrunken by what the rewards say of it (empirical Bayes), so that features and crosses without effect cost
    little. An effect of each action comes on top, shrunken likewise: an action with many rewards departs from its
    features, and a new one starts with what its features tell.

    To decide it draws a degree of optimism, one of 16 between 0 and 2·``optimism``, and takes the action with the
    highest estimate plus so many standard deviations; of a slate, the k highest. So probabilities are exact, also that
    of an action to be in a slate. They need no weights of k-sets, and no sampling.

    Parameters
    ----------
    actions
        The actions with their features: a mapping from names to features, or an :class:`releaf.ActionTable`. Empty
        where all come with the requests. A count or names only, for actions without features.
    features, seed, reward_range, max_pending, control_share, control
        As for :class:`releaf.Releaf`.
    action_features
        The features of an action; guessed from ``actions`` when None.
    crosses
        "all": a term for each pair of a feature of the context and one of the action. Or the pairs that may matter, as
        names: with many features on both sides, a step costs the square of the number of terms.
    degree
        1: straight lines in numbers. 2: curves too.
    optimism
        Number of standard deviations that are added to an estimate, on average.
    least_probability
        Lower bound on the probability of each eligible action to be chosen, or to be the first of a slate; k times that
        for its inclusion. Above 0, a log supports off-policy evaluation of any other policy. More than one over the
        number of eligible actions counts as that.
    max_actions
        Most actions; beyond that, requests with new ones replace those that were eligible least recently.

    Examples
    --------
    >>> import releaf
    >>> menu = {"tea": {"price": 2.0, "hot": True}, "cola": {"price": 3.0, "hot": False}}
    >>> bandit = releaf.JointReleaf(menu, features=["heat"], seed=0)
    >>> decision = bandit.decide({"heat": 0.9})
    >>> bandit.learn(decision, 1.0)
    >>> bandit.add_action("water", {"price": 2.5, "hot": False})
    'water'
    >>> bandit.decide({"heat": 0.2}, k=2).slate_probabilities is not None
    True
    """

    traits = Traits("JointReleaf", "this package", takes_action_features=True)
    _entry_points = JOINT
    _changed_by_choice = ("clock", "seen", "latest")
    _state: Joint

    def __init__(
        self,
        actions: Any,
        features: Features,
        *,
        action_features: Features | None = None,
        crosses: Literal["all"] | Sequence[Sequence[str]] = "all",
        degree: int = 2,
        seed: int | None = None,
        optimism: float = 0.35,
        least_probability: float = 0.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_actions: int = 100_000,
        max_pending: int = 100_000,
        control_share: float = 0.0,
        control: ActionName = "uniform",
    ) -> None:
        self.degree = whole("degree", degree, least=1, most=2)
        super().__init__(actions, features, action_features, self.degree, seed, max_actions, max_pending, reward_range)
        self.optimism = positive("optimism", optimism, zero=True, most=100.0)
        self.least_probability = positive("least_probability", least_probability, zero=True, most=0.5)
        self.crosses: Literal["all"] | list[list[str]] = "all"
        pairs = None
        if not (isinstance(crosses, str) and crosses == "all"):
            pairs, self.crosses = self._pairs(crosses)
        params = (0.0, MOST_OPTIMISM * self.optimism, float(OPTIMISM_LEVELS), self.least_probability)
        limits, categories = self._action_columns()
        own = [feature.categories for feature in self.schema.features]
        self._settings = JointSettings(
            self.seed, self.schema.lowest(), own, limits, categories, self.degree, pairs, params
        )
        self._terms = self._settings.terms()
        if len(self._terms.group) > MOST_TERMS:
            raise ValueError(
                f"{len(self._terms.group):,} terms are more than {MOST_TERMS:,}: name the crosses that may matter "
                "(crosses=[(feature of the context, feature of the action), …]), or set degree=1"
            )
        self._set_control(control_share, control)
        self._start()

    def _pairs(self, crosses: Any) -> tuple[set[tuple[int, int]], list[list[str]]]:
        """Positions and names of the pairs of features that have a cross."""
        if isinstance(crosses, str) or not hasattr(crosses, "__iter__"):
            raise ValueError(f"crosses must be 'all' or pairs of names of features, got crosses={crosses!r}")
        named, pairs = [list(pair) for pair in crosses], set[tuple[int, int]]()
        for pair in named:
            if len(pair) != 2 or self.action_features is None:
                raise ValueError(
                    f"crosses must have pairs of a feature of the context and one of the action, got {pair!r}"
                )
            contexts, actions = (
                _positions(self.schema, pair[0], "context"),
                _positions(self.action_features, pair[1], "action"),
            )
            pairs |= {(one, other) for one in contexts for other in actions}
        return pairs, named

    def _build(self, actions: int) -> Joint:
        return new_joint(self._settings, self._profiles_of(self._table.values))

    def _change_profile(self, index: int, profile: Array) -> None:
        change_profile(self._pointer_table, index, profile)

    def _learn_shown(self, context: Array, index: int, profile: Array, reward: float) -> None:
        learn_with_profile(self._pointer_table, context, index, profile, reward)

    def _estimate(self, units: Array) -> Array:
        return self._estimates_and_spreads(units)[0]

    def _estimates_and_spreads(self, units: Array) -> tuple[Array, Array]:
        shape = len(units), len(self.actions)
        estimates, spreads = np.empty(shape), np.empty(shape)
        estimate_all(self._pointer_table, units, estimates, spreads)
        return estimates, spreads

    # --- inspection -----------------------------------------------------------------------------------------------

    def relevance(self) -> RelevanceTable:
        """Relevance of each feature of the context to each action (A × D).

        The share that a feature has in the variance of the action's estimate over contexts, its crosses with the
        action's features included. Rows sum to 1, or to 0 before anything is learnt.
        """
        with self._lock:
            shares = shares_by_action(self._state, len(self.schema))
        return RelevanceTable(shares, self.actions, self.schema.names)

    def cross_relevance(self) -> RelevanceTable:
        """Relevance of the features of the context, of those of the actions, and of their crosses.

        Shares in the variance of the estimates over contexts and actions, which sum to 1. The row "every context" has
        the features of actions by themselves, the column "every action" those of the context, and "the action itself"
        what the actions' own effects make up.
        """
        own = () if self.action_features is None else self.action_features.names
        with self._lock:
            shares = cross_shares(self._state, len(self.schema), self._action_layout)
        rows = ("every context", *self.schema.names)
        return RelevanceTable(shares, rows, ("every action", *own, "the action itself"))

    def explain(self, choice: Any) -> Explanation:
        """Explain a decision, or that for a context: estimates, and the features and crosses that they consist of.

        Parameters
        ----------
        choice
            The Decision itself, or a context. Estimates are those of now.
        """
        with self._lock:
            decision, is_preview = self._decision_to_explain(choice)
            model = JointModel(
                self._state,
                self._action_layout,
                self._encoder,
                self.action_features,
                self._action_names,
                self._place_of(),
                self.reward_range,
                self._steps,
            )
            estimates, spreads = self._estimates_and_spreads(np.array(decision.context)[None, :])
            return explain_joint(model, decision, is_preview, decision.id in self._pending, estimates[0], spreads[0])

    # --- loading ------------------------------------------------------------------------------------------------

    def _check_state(self, state: Any) -> None:
        super()._check_state(state)
        if not np.array_equal(state.covariance, state.covariance.T) or (np.diag(state.covariance) < 0).any():
            raise ValueError("its covariance contradicts the rest")


def _positions(schema: Schema, name: Any, kind: str) -> list[int]:
    """Positions of a feature, or of all parts of a date."""
    found = [place for place, own in enumerate(schema.names) if own == name or own.startswith(f"{name}: ")]
    if not found:
        raise ValueError(
            f"crosses has unknown feature {name!r} of the {kind}: expected one of {', '.join(schema.names)}"
        )
    return found
