"""Hybrid-ε-greedy (Bouneffouf, Bouzeghoub and Gançarski, 2012)."""

from __future__ import annotations

from releaf.arrays import Array
from releaf.core.baselines.hybrid_epsilon import HYBRID_EPSILON, Groups, new_groups
from releaf.core.runtime.primitives import LATEST, USED
from releaf.decision import ActionName
from releaf.policies.argument_checks import positive, whole
from releaf.policies.random_exploration import RandomExploration
from releaf.policy import Actions
from releaf.schema import Features
from releaf.traits import Traits


class HybridEpsilon(RandomExploration):
    """Groups similar contexts, and within each group takes the action with the highest mean, or any at random.

    A context joins the group of the most similar founder, or founds a new group if none is similar enough. Similarity
    is 1 minus the mean distance over all features; categories and missing values have distance 0 or 1.

    Bouneffouf et al. look up the most similar case of a case base, and explore with a constant ε among documents of
    similar content; actions here have no content, so any action is explored. The paper gives neither the groups nor
    ε. Its error of about 8.8 % on two very different data sets suggests a constant ε of about 0.1. Here ε falls as
    the visits of the group, n, grow: min(1, c·A/n). When an action is added, n starts again. A late reward goes to the
    group that its context is most similar to by then.

    Parameters
    ----------
    actions, features, seed, reward_range, max_pending, control_share, control
        As for :class:`releaf.Releaf`.
    exploration
        Amount of exploration (c): about c·A·ln n of the n visits of a group.
    epsilon
        Explore with this probability at every step (ε), instead of one that falls.
    similarity
        Least similarity to a group's founder to join it, at most 1 (equal).
    max_groups
        Most groups; beyond that a context joins the most similar one.

    Examples
    --------
    >>> import releaf
    >>> bandit = releaf.HybridEpsilon(actions=2, features=2, seed=0, similarity=0.9)
    >>> for context in ([0.1, 0.1], [0.15, 0.2], [0.9, 0.1]):
    ...     bandit.learn(bandit.decide(context), 0.5)
    >>> bandit.groups
    2
    """

    traits = Traits("Hybrid-ε", "Bouneffouf et al. 2012")
    _entry_points = HYBRID_EPSILON

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        seed: int | None = None,
        exploration: float = 1.0,
        epsilon: float | None = None,
        similarity: float = 0.8,
        max_groups: int = 1_000,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_pending: int = 100_000,
        control_share: float = 0.0,
        control: ActionName = "uniform",
    ) -> None:
        super().__init__(actions, features, "always", seed, max_pending, reward_range)
        self._set_exploration(exploration, epsilon)
        self.similarity = positive("similarity", similarity, zero=True, most=1.0)
        self.max_groups = whole("max_groups", max_groups, least=1)
        self._set_control(control_share, control)
        self._start()

    @property
    def groups(self) -> int:
        """Number of groups."""
        return int(self._state.clock[USED])

    def _build(self, actions: int) -> Groups:
        params = (*self._rates, self.similarity, float(self.max_groups))
        return new_groups(self.seed, self.schema.lowest(), self._stretch(), actions, params)

    def _grow_if_full(self) -> None:
        if len(self._state.arrivals) == self._state.clock[USED] < self.max_groups:
            self._double_capacity()

    def _add_action(self) -> None:
        super()._add_action()
        self._state.arrivals[:] = 0

    def _erase_contexts(self, steps: Array) -> int:
        self._state.founders[...] = self._rounded(self._state.founders)
        return 0

    def _check_state(self, state: Groups) -> None:
        used, steps = int(state.clock[USED]), self._steps
        fits = 0 <= used <= min(len(state.arrivals), self.max_groups) and (used > 0 or steps == 0)
        fits = fits and 0 <= state.clock[LATEST] < max(used, 1)
        if not fits:
            raise ValueError("its groups contradict the rest")
