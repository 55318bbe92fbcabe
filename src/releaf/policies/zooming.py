"""Contextual zooming (Slivkins, "Contextual bandits with similarity information", 2011 and 2014)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.baselines.zooming import ANY, OUTDATED, ZOOMING, Balls, new_balls
from releaf.core.runtime.primitives import LATEST, USED
from releaf.decision import ActionName
from releaf.policies.argument_checks import scale, whole
from releaf.policies.compiled import CompiledPolicy
from releaf.policy import Actions
from releaf.schema import Features
from releaf.traits import Traits

GONE = -1  # the new index of a removed ball


class Ball(NamedTuple):
    """A ball of contexts and one action; the first ball covers all contexts and actions, and its action is None."""

    action: ActionName | None
    centre: tuple[float, ...]
    radius: float
    chosen: int
    mean: float


class ContextualZooming(CompiledPolicy):
    """Keeps balls of similar contexts for each action, and takes the action of the ball whose reward could be highest.

    The distance of two contexts is L times their Euclidean distance, at most 1; two actions are 1 apart. A ball of
    radius r that was chosen n times with mean reward ν has the confidence radius conf = c · √(ln T / (1 + n)) and the
    pre-index ν + r + conf. Its index is r plus the least, over all balls that are at least as large, of their
    pre-index plus the distance to them. Of the balls whose domain (what no smaller ball holds) has the context, the one
    with the highest index is chosen; when its conf is at most r, a ball of half its radius starts at the context.

    A decision counts as an exploration when its action's estimate is not the highest; the estimate is the mean of
    the smallest ball around that was chosen before. Features that are categories or missing are as far apart as a
    feature can be unless they are equal. A late reward goes to the ball that would be chosen for its context and
    action by then.

    The paper gives L = 0.5 for network intrusion and nothing else.

    Parameters
    ----------
    actions, features, seed, reward_range, max_pending, control_share, control
        As for :class:`releaf.Releaf`.
    lipschitz
        How fast the expected reward may change with the context (L); the paper's value by default.
    confidence
        How wide confidence radii are (c). Slivkins proves his bound for 4, with which balls shrink so slowly that
        tens of thousands of decisions are not enough.
    horizon
        How many decisions there will be (T). When None, the power of two that their number has reached.

    Examples
    --------
    >>> import releaf
    >>> bandit = releaf.ContextualZooming(actions=2, features=1, seed=0)
    >>> bandit.learn(bandit.decide([0.5]), 1.0)
    >>> bandit.balls()[0].chosen
    1
    """

    traits = Traits(
        "Contextual zooming (CZ)",
        "Slivkins 2011",
        learns_from_logs=False,  # a reward belongs to the ball that was chosen
    )
    _entry_points = ZOOMING

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        seed: int | None = None,
        lipschitz: float = 0.5,
        confidence: float = 0.35,
        horizon: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_pending: int = 100_000,
        control_share: float = 0.0,
        control: ActionName = "uniform",
    ) -> None:
        super().__init__(actions, features, "always", seed, max_pending, reward_range)
        self.lipschitz = scale("lipschitz", lipschitz)
        self.confidence = scale("confidence", confidence)
        self.horizon = None if horizon is None else whole("horizon", horizon, least=2, most=10**15)
        self._set_control(control_share, control)
        self._start()

    def _build(self, actions: int) -> Balls:
        params = (self.lipschitz, self.confidence, float(self.horizon or 0))
        return new_balls(self.seed, self.schema.lowest(), self._stretch(), actions, params)

    def _chance_of_other(self, other: int, taken: int, chance: float) -> float | None:
        known = super()._chance_of_other(other, taken, chance)
        if known is not None:
            return known
        is_covered = self._state.smallest[other] != 1.0  # the first ball's domain has the others
        return 0.0 if is_covered else chance

    def _grow_if_full(self) -> None:
        if self._state.clock[USED] == len(self._state.arms):
            self._double_capacity()

    def _erase_contexts(self, steps: Array) -> int:
        state, used = self._state, int(self._state.clock[USED])
        state.centres[:used] = self._rounded(state.centres[:used])
        state.sieve[:, :used] = state.centres[:used].T[: len(state.sieve)]
        state.nearest[:used], state.reach[:used] = 0, 1.0  # as of new balls
        return 0

    def _without(self, index: int) -> Balls:
        """Copy of the state without the action's balls; the first ball, of all actions, keeps its rewards."""
        state: Balls = super()._without(index)
        used, latest = int(state.clock[USED]), state.clock[LATEST]
        stay = np.flatnonzero(state.arms[:used] != index)
        number = np.full(used, GONE)
        number[stay] = np.arange(len(stay))
        for name, axis in state.axes("balls").items():
            array = np.moveaxis(getattr(state, name), axis, 0)
            array[: len(stay)] = array[stay]
            array[len(stay) :] = 0
        state.arms[state.arms > index] -= 1
        state.nearest[:] = number[state.nearest]
        state.reach[state.nearest == GONE] = 1.0  # as of new balls, until their index is computed again
        state.nearest[state.nearest == GONE] = 0
        state.clock[LATEST] = OUTDATED if latest == OUTDATED or number[latest] == GONE else number[latest]
        state.clock[USED] = len(stay)
        return state

    def _check_state(self, state: Balls) -> None:
        used, arms = int(state.clock[USED]), state.arms
        fits = 1 <= used <= len(arms) and OUTDATED <= state.clock[LATEST] < used
        fits = fits and arms[0] == ANY and bool(((arms[1:used] >= 0) & (arms[1:used] < len(self.actions))).all())
        fits = fits and state.radii[0] == 1.0 and bool(((state.radii >= 0) & (state.radii <= 1)).all())
        fits = fits and bool((state.nearest < used).all()) and bool((state.reach >= 0).all())
        if not (fits and np.array_equal(state.sieve, state.centres.T[: len(state.sieve)].astype(np.float32))):
            raise ValueError("its balls contradict the rest")

    def balls(self) -> list[Ball]:
        """All balls in the order of their creation; centres have encoded values in [0, 1]."""
        with self._lock:
            state = self._state
            return [
                Ball(
                    None if state.arms[ball] == ANY else self.actions[state.arms[ball]],
                    tuple(state.centres[ball].tolist()),
                    float(state.radii[ball]),
                    int(state.counts[ball]),
                    self._low + self._span * float(state.sums[ball] / max(state.counts[ball], 1)),
                )
                for ball in range(state.clock[USED])
            ]
