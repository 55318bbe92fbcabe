"""RELEAF: relevance learning with feedback (Tekin and van der Schaar)."""

from __future__ import annotations

import math
from typing import Literal

from releaf import theory
from releaf.decision import ActionName
from releaf.policies.argument_checks import positive, scale, whole
from releaf.policies.partition_export import freeze_partitions
from releaf.policies.partitioned import PartitionedPolicy
from releaf.policies.policy_export import Rule
from releaf.policy import Actions
from releaf.schema import Features
from releaf.traits import Traits

TUPLES = ("2gamma", "gamma+1")
MOST_STARTING_LEAVES = 2**16


class Releaf(PartitionedPolicy):
    """Learns which features matter for which action while it decides, and requests rewards only to explore.

    It splits every feature's range into finer intervals where contexts arrive, and estimates the mean reward of each
    action in every cell of a tuple of features' intervals. While some cell of the context has too few observations of
    an action, the learner explores; otherwise it finds for each action the features within whose intervals the means
    agree best (the relevant ones), and takes the action with the highest estimate.

    Parameters
    ----------
    actions
        Their number (A; their names are then 0 … A-1), or their names (𝒜).
    features
        Their number or their names, with values in [0, 1] (D); or a :class:`releaf.Schema`.
    seed
        Of the learner's random generator; the same seed and input give the same decisions. Random when None.
    lipschitz
        Lipschitz constant of the expected reward in a relevant feature (L); "unknown" for the slowly
        growing L̂(t) = 1 + ln(t)/2 (:func:`releaf.theory.lipschitz_estimate`).
    rho
        Duration of intervals (ρ): one of level l splits at base^(ρ·l) arrivals. None for Theorem 5's balanced ρ*.
    delta
        The probability with which the guarantees may fail (δ), in (0, 1).
    gamma_rel
        Number of relevant features of each action (γ_rel); 2·gamma_rel features are needed, and time per step grows as
        their number to the power of 2·gamma_rel.
    control_divisor
        Divisor of all control numbers (D_{i,t}). The theorems hold for 1; the paper's experiments use 5000, which
        explores far less.
    observe
        Which rewards are observed: "explored", that of the action taken, on explorations (RELEAF); "always", also on
        exploitations (RELEAF-ALL); "all-actions", the rewards of all actions, on explorations (RELEAF-FO); "labels",
        those of all actions at every step, where the right action is known afterwards.
    observation_cost
        The cost of one observation (c_O), for ``observation_spend``.
    base
        Number of intervals into which one splits, 2 in the paper: an interval of level l has the length s = base^(-l).
    epsilon
        Start at the level from which on every estimate is accurate to this much (ε, Theorem 4), instead of level 0.
    tuples
        "2gamma": cells of 2·gamma_rel features; "gamma+1": of gamma_rel + 1, fewer and without guarantee. The
        same for gamma_rel = 1.
    reward_range
        Lowest and highest possible reward, (0, 1) by default. Rewards are scaled to [0, 1] to learn them; estimates are
        in the given units. ``epsilon`` is in these units too, ``lipschitz`` in units of the scaled reward.
    max_pending
        Most pending decisions; beyond that the learner drops the oldest.
    control_share
        Share of decisions, in [0, 1), that control decides instead of the learner, which learns from them all the same;
        ``lift`` compares both groups. ``probability`` is the total one of both. For learners that learn every reward.
    control
        What control takes: "uniform", any eligible action with the same probability; or the name of an action, and
        uniformly where that one is not eligible.

    Examples
    --------
    >>> import releaf
    >>> bandit = releaf.Releaf(actions=["wait", "treat"], features=["age", "dose", "weight"], seed=0)
    >>> choice = bandit.decide([0.4, 0.1, 0.8])
    >>> choice.explored, choice.wants_reward
    (True, True)
    >>> bandit.learn(choice, reward=1.0)
    """

    traits = Traits(
        "RELEAF",
        "Tekin and van der Schaar 2015",
        learns_actively=True,
        observes="the reward of its action on explorations; or always (RELEAF-ALL); or all rewards on explorations "
        "(RELEAF-FO); or all rewards, always",
    )

    def __init__(
        self,
        actions: Actions,
        features: Features,
        *,
        seed: int | None = None,
        lipschitz: float | Literal["unknown"] = 1.0,
        rho: float | None = None,
        delta: float = 0.05,
        gamma_rel: int = 1,
        control_divisor: float = 5000.0,
        observe: Literal["explored", "always", "all-actions", "labels"] = "explored",
        observation_cost: float = 0.0,
        base: int = 2,
        epsilon: float | None = None,
        tuples: Literal["2gamma", "gamma+1"] = "2gamma",
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_pending: int = 100_000,
        control_share: float = 0.0,
        control: ActionName = "uniform",
    ) -> None:
        super().__init__(actions, features, observe, max_pending, reward_range)
        self._set_common_parameters(seed, rho, delta, control_divisor, observation_cost, base)
        self.lipschitz: float | str = "unknown"
        if not (isinstance(lipschitz, str) and lipschitz == "unknown"):
            self.lipschitz = scale("lipschitz", lipschitz)
        self.gamma_rel = whole("gamma_rel", gamma_rel, least=1)
        self.epsilon = None if epsilon is None else positive("epsilon", epsilon)
        if tuples not in TUPLES:
            raise ValueError(f"tuples must be one of {', '.join(map(repr, TUPLES))}, got tuples={tuples!r}")
        self.tuples = tuples
        size = self._tuple_size()
        self._set_control(control_share, control)
        self._start(
            gamma=self.gamma_rel,
            tuple_size=size,
            confidence_terms=math.comb(len(self.schema) - 1, size - 1),
            lipschitz=0.0 if self.lipschitz == "unknown" else float(self.lipschitz),
            start_level=self._start_level(),
        )

    def _tuple_size(self) -> int:
        """Number of features of a cell."""
        size = 2 * self.gamma_rel if self.tuples == "2gamma" else self.gamma_rel + 1
        if size > len(self.schema):
            needed = "2·gamma_rel" if self.tuples == "2gamma" else "gamma_rel + 1"
            raise ValueError(
                f"gamma_rel={self.gamma_rel} is too large for {len(self.schema)} features: expected {needed} ≤ features"
            )
        return size

    def _freeze_rule(self) -> Rule:
        return freeze_partitions(self._engine)

    def _start_level(self) -> int:
        """l_min of Theorem 4, or 0."""
        if self.epsilon is None:
            return 0
        if self.lipschitz == "unknown":
            raise ValueError(f"epsilon={self.epsilon} needs a known Lipschitz constant, got lipschitz='unknown'")
        level = theory.starting_level(float(self.lipschitz), self.epsilon / self._span, self.base)
        if level > math.log(MOST_STARTING_LEAVES, self.base):
            raise ValueError(
                f"epsilon={self.epsilon} would start at level {level}, with more than {MOST_STARTING_LEAVES:,} "
                f"intervals for each feature: expected a larger epsilon or a smaller lipschitz"
            )
        return level
