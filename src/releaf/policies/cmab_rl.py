"""CMAB-RL (Turğay, Bulucu and Tekin, "Exploiting relevance for online decision-making in high-dimensions", 2020)."""

from __future__ import annotations

import math

import numpy as np

from releaf.arrays import Array
from releaf.core.baselines.cmab_rl import CMAB_RL, UniformPartition, cells_of, new_uniform_partition
from releaf.decision import ActionName
from releaf.decision_batch import Relevant
from releaf.policies.argument_checks import positive, scale, whole
from releaf.policies.compiled import CompiledPolicy
from releaf.policy import Actions
from releaf.relevance_table import RelevanceTable
from releaf.schema import Features
from releaf.traits import Traits

MOST_CELLS = 20_000_000


class CMABRL(CompiledPolicy):
    """The successor of RELEAF by its authors: uniform intervals, relevance by confidence intervals, optimism.

    Each feature's range is cut into m equal intervals. For all tuples w of 2·d̄ features, the mean reward r̄_w of each
    action in the cell of the context is kept, with the confidence radius u_w = κ √((2 + 4 ln(2 A T^1.5 C m^(2d̄))) / n),
    where n counts the observations and C = (D-1 over 2d̄-1). A tuple v of d̄ features is relevant to an action when
    r̄_w - r̄_w' ≤ 2 L √d̄ / m + u_w + u_w' for all w, w' that contain v; of those, the v whose means differ least is
    taken. The action's index is its mean over the tuples that contain v, plus 5 times its largest u_w, and the
    action with the highest index is taken.

    Simplified: the authors' actions are a continuum, with relevant dimensions of their own; here they are a finite
    set, so the partition of the actions is gone from the index and from m = ⌈(T/A)^(1/(2+2d̄))⌉, which the authors'
    own experiment with a finite set of articles uses too. Ties go to the first tuple, and to the action that was taken
    least often, not to one at random. κ scales the confidence radii; the authors' bound is for 1, with which
    everything is explored for longer than most streams last.

    A decision counts as an exploration when its action's mean is not the highest or its cell was never observed. Its
    probability is None where some action has no relevant tuple, and one at random stands in for it.

    Parameters
    ----------
    actions, features, seed, reward_range, max_pending, control_share, control
        As for :class:`releaf.Releaf`.
    horizon
        Number of decisions (T). The policy continues after them, with suboptimal intervals.
    gamma_rel
        Number of relevant features of each action (d̄); 2·gamma_rel features are needed.
    lipschitz
        Lipschitz constant of the expected reward in a relevant feature (L).
    confidence
        Scale of the confidence radii (κ).
    intervals
        Number of intervals of a feature (m), instead of the number that follows from the horizon.

    Examples
    --------
    >>> import releaf
    >>> bandit = releaf.CMABRL(actions=2, features=3, horizon=10_000)
    >>> bandit.intervals
    9
    """

    traits = Traits("CMAB-RL", "Turğay et al. 2020")
    _entry_points = CMAB_RL

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        seed: int | None = None,
        horizon: int = 100_000,
        gamma_rel: int = 1,
        lipschitz: float = 1.0,
        confidence: float = 0.003,
        intervals: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_pending: int = 100_000,
        control_share: float = 0.0,
        control: ActionName = "uniform",
    ) -> None:
        super().__init__(actions, features, "always", seed, max_pending, reward_range)
        self.horizon = whole("horizon", horizon, least=1, most=10**15)
        self.gamma_rel = whole("gamma_rel", gamma_rel, least=1)
        self.lipschitz = scale("lipschitz", lipschitz)
        self.confidence = positive("confidence", confidence, zero=True, most=1e6)
        if 2 * self.gamma_rel > len(self.schema):
            raise ValueError(
                f"gamma_rel={gamma_rel} is too large for {len(self.schema)} features: expected 2·gamma_rel ≤ features"
            )
        self.intervals = self._balanced() if intervals is None else whole("intervals", intervals, least=1, most=10**6)
        self._require_size(len(self.actions))
        self._set_control(control_share, control)
        self._start()

    def _balanced(self) -> int:
        """Number of intervals m, as the authors choose it."""
        power: float = (self.horizon / len(self.actions)) ** (1 / (2 + 2 * self.gamma_rel))
        return max(1, math.ceil(power - 1e-9))  # 10000 ** 0.25 is a little above 10

    def _require_size(self, actions: int) -> None:
        cells = cells_of(self._sizes(), 2 * self.gamma_rel, self.gamma_rel)
        if cells * actions > MOST_CELLS:
            raise ValueError(
                f"{len(self.schema)} features in {self.intervals} intervals make {cells:,} cells for each of "
                f"{actions} actions, more than {MOST_CELLS:,} together: "
                f"use fewer intervals or a shorter horizon, fewer features, or a smaller gamma_rel"
            )

    def _sizes(self) -> Array:
        """Number of intervals of each feature: one for each category, and one more if values may be missing."""
        numbers = self.intervals + (self.schema.lowest() < 0)
        categories = np.array([feature.categories for feature in self.schema.features])
        return np.where(categories > 0, categories, numbers).astype(np.int64)

    def _build(self, actions: int) -> UniformPartition:
        categories = np.array([feature.categories for feature in self.schema.features])
        tuples = math.comb(len(self.schema) - 1, 2 * self.gamma_rel - 1)
        terms = 2 * actions * self.horizon**1.5 * tuples * float(self.intervals) ** (2 * self.gamma_rel)
        radius = self.confidence**2 * (2 + 4 * math.log(terms))
        tolerance = 2 * self.lipschitz * math.sqrt(self.gamma_rel) / self.intervals
        sizes, params = self._sizes(), (radius, tolerance)
        return new_uniform_partition(
            self.seed, self.schema.lowest(), sizes, categories, self.gamma_rel, actions, params
        )

    def _add_action(self) -> None:
        self._require_size(len(self.actions) + 1)
        super()._add_action()

    def _probability(self, action: int) -> float | None:
        return None if self._state.chance[0] < 0 else 1.0

    def _relevant(self) -> Relevant | None:
        candidates = self._state.candidates
        return tuple([tuple(candidates[v].tolist()) if v >= 0 else None for v in self._state.relevant])

    def relevance(self) -> RelevanceTable:
        """Share of exploitations in which each feature was relevant, for each action (A × D)."""
        with self._lock:
            tallies = self._state.tallies
            shares = (tallies[:-1] / np.maximum(tallies[-1], 1)).T
            return RelevanceTable(shares, self.actions, self.schema.names)
