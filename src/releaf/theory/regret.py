"""Regret bounds of Theorems 1–5, the balanced duration parameter, and control numbers."""

from __future__ import annotations

import math
from typing import NamedTuple

from releaf.theory.parameters import checked, tuple_count


class RegretBounds(NamedTuple):
    """Bounds on the regret lost in exploitations (R_I) and in explorations (R_O)."""

    exploitation: float
    exploration: float

    @property
    def total(self) -> float:
        return self.exploitation + self.exploration


def _root(d_rel: int) -> float:
    return math.sqrt(4 * d_rel**2 + 16 * d_rel + 12)


@checked
def balanced_rho(d_rel: int) -> float:
    """The duration parameter ρ*(d) that balances exploration and exploitation regret (Theorems 3 and 5).

    The positive solution of ρ/(1+ρ) = (2+2d)/ρ.

    Examples
    --------
    >>> round(balanced_rho(1), 6) == round(2 + 2 * 2**0.5, 6)
    True
    """
    return (2 + 2 * d_rel + _root(d_rel)) / 2


@checked
def regret_exponent(d_rel: int) -> float:
    """g(d): with ρ*(d), the regret grows as T to this power, up to logarithms (Theorem 5).

    Examples
    --------
    >>> round(regret_exponent(1), 4)  # 2 (√2 - 1)
    0.8284
    """
    return (2 + 2 * d_rel + _root(d_rel)) / (4 + 2 * d_rel + _root(d_rel))


@checked
def control_number(
    t: int,
    length: float,
    *,
    actions: int,
    features: int,
    lipschitz: float = 1.0,
    delta: float = 0.05,
    gamma_rel: int = 1,
    control_divisor: float = 1.0,
) -> float:
    """D_{i,t}: how many observations a cell needs whose shortest interval has this length (eq. controlnum)."""
    return (
        2
        * math.log(t * tuple_count(features, gamma_rel) * actions / delta)
        / (lipschitz * length) ** 2
        / control_divisor
    )


@checked
def lipschitz_estimate(t: int) -> float:
    """L̂(t) = 1 + ln(t)/2, used where ``lipschitz="unknown"``.

    The paper's footnote asks for any slowly growing function; its bounds hold from the step on at which L̂(t) ≥ L.
    This one passes L = 2 at step 8, L = 5 at step 2,981.

    Examples
    --------
    >>> lipschitz_estimate(1)
    1.0
    """
    return 1.0 + math.log(t) / 2


@checked
def exploitation_bound(horizon: float, *, features: int, rho: float, lipschitz: float = 1.0, d_rel: int = 1) -> float:
    """R_I(T) ≤ 16 L D √d 2^(2ρ) T^(ρ/(1+ρ)) (Theorem 1 for d = 1, Theorem 5's proof beyond)."""
    return float(16 * lipschitz * features * math.sqrt(d_rel) * 4.0**rho * horizon ** (rho / (1 + rho)))


@checked
def exploration_bound(
    horizon: float,
    *,
    features: int,
    actions: int,
    rho: float,
    lipschitz: float = 1.0,
    delta: float = 0.05,
    observation_cost: float = 0.0,
) -> float:
    """R_O(T) of Theorem 2 (γ_rel = 1).

    960 D² (c_O+1) ln(T A D*/δ) / (7 L²) · T^(4/ρ) + 64 D² (c_O+1) / 3 · T^(2/ρ).
    """
    price = features**2 * (observation_cost + 1)
    logarithm = math.log(horizon * actions * tuple_count(features, 1) / delta)
    first = 960 * price * logarithm / (7 * lipschitz**2) * horizon ** (4 / rho)
    return float(first + 64 * price / 3 * horizon ** (2 / rho))


@checked
def starting_level(lipschitz: float, epsilon: float, base: int = 2) -> int:
    """l_min = ⌈log_base(3L / 2ε)⌉, the level at which all partitions start for ε-optimality (Theorem 4).

    At this level every estimate is within ε of the truth with probability 1 - δ. The paper concludes that no
    exploitation loses more than ε; what follows from Theorem 1 is 16·L·s ≤ 32ε/3. For a loss of at most ε
    pass 3ε/32.

    Examples
    --------
    >>> starting_level(1.0, 0.1)
    4
    """
    ratio = 3 * lipschitz / (2 * epsilon)
    if not math.isfinite(ratio):
        raise ValueError(f"epsilon={epsilon!r} is too small for lipschitz={lipschitz!r}: expected a finite 3L / 2ε")
    level = 0
    while base**level < ratio:
        level += 1
    return level


@checked
def epsilon_optimal_bounds(
    horizon: float,
    epsilon: float,
    *,
    features: int,
    actions: int,
    rho: float,
    lipschitz: float = 1.0,
    delta: float = 0.05,
    observation_cost: float = 0.0,
) -> RegretBounds:
    """The bounds of Theorem 4, for a learner that starts at :func:`starting_level`.

    R_I as in Theorem 1, R_O as in Theorem 2 times 81 L⁴/ε⁴.
    """
    explored = exploration_bound(
        horizon,
        features=features,
        actions=actions,
        rho=rho,
        lipschitz=lipschitz,
        delta=delta,
        observation_cost=observation_cost,
    )
    return RegretBounds(
        exploitation_bound(horizon, features=features, rho=rho, lipschitz=lipschitz),
        81 * lipschitz**4 / epsilon**4 * explored,
    )


@checked
def general_bounds(
    horizon: float,
    *,
    features: int,
    actions: int,
    d_rel: int,
    rho: float | None = None,
    lipschitz: float = 1.0,
    delta: float = 0.05,
    observation_cost: float = 0.0,
) -> RegretBounds:
    """The bounds of Theorem 5 for any D_rel with 2·D_rel ≤ D, with all constants of its proof.

    R_I is :func:`exploitation_bound`. R_O is C(D, 2d) (2d)! (c_O+1) times the sum over all levels
    l_1 ≤ … ≤ l_2d ≤ 1 + log₂(T)/ρ of 2^(l_1 + … + l_2d) (2 ln(T A D*/δ) 4^(l_2d) / L² + 1), which grows
    as T^((2+2d)/ρ) ln T. By default ρ is the balanced ρ*(d).
    """
    size = 2 * d_rel
    if size > features:
        raise ValueError(f"d_rel={d_rel} needs at least {size} features, got features={features}")
    duration = balanced_rho(d_rel) if rho is None else rho
    needed = 2 * math.log(horizon * actions * tuple_count(features, d_rel) / delta) / lipschitz**2
    top = math.floor(1 + math.log2(horizon) / duration)
    # sums[l]: over the levels of the tuple's later intervals, given that the present one has level l
    sums = [2.0**level * (needed * 4.0**level + 1) for level in range(top + 1)]
    for _ in range(size - 1):
        sums = [2.0**level * sum(sums[level:]) for level in range(top + 1)]
    explored = math.comb(features, size) * math.factorial(size) * (observation_cost + 1) * sum(sums)
    exploited = exploitation_bound(horizon, features=features, rho=duration, lipschitz=lipschitz, d_rel=d_rel)
    return RegretBounds(exploited, explored)
