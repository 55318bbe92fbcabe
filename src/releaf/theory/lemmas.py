"""The lemmas of the paper's appendix, from the accuracy of a cell's mean to the loss of one exploitation."""

from __future__ import annotations

import math

from releaf.theory.parameters import checked, require_at_least, tuple_count

FIRST_EXPLOITATION = 2  # at step 1 no reward is known


@checked
def inaccuracy_bound(
    t: int, *, actions: int, features: int, delta: float = 0.05, gamma_rel: int = 1, control_divisor: float = 1.0
) -> float:
    """P(INACC_t(a, j)): probability that a cell of the relevant features has an inaccurate mean in an exploitation.

    Lemma ``corr``, and Lemma ``corrhigh`` for γ_rel > 1. A mean is inaccurate when it is further than 3/2·L·√γ·s from
    the expected reward at the centre of the cell; s is the longest interval of the relevant features. The cell holds
    at least D_{i,t} rewards, so the Chernoff bound of the proof is 2·(δ / (t·A·D*))^(4γ). The lemma rounds it up to
    2δ / (A·D*·t⁴).

    With ``control_divisor`` c the cell holds D_{i,t}/c rewards, and the exponent is 4γ/c. No lemma of the paper covers
    c > 1; this is what its proof gives then.

    The proof takes the number of rewards in a cell as fixed. That is right where exploring depends on counts alone, as
    with ``observe="explored"`` and "all-actions"; with "always" the number depends on the rewards themselves.

    Examples
    --------
    >>> f"{inaccuracy_bound(10, actions=2, features=5, delta=0.08):.3g}"  # 2 · (0.08 / (10 · 2 · 4))⁴
    '2e-12'
    """
    terms, power = actions * tuple_count(features, gamma_rel), 4 * gamma_rel / control_divisor  # of the Chernoff bound
    return float(min(1.0, 2 * (delta / (t * terms)) ** power))


@checked
def correctness_bound(
    horizon: float | None = None,
    *,
    actions: int,
    features: int,
    delta: float = 0.05,
    gamma_rel: int = 1,
    control_divisor: float = 1.0,
) -> float:
    """P(CORR_T) is at least this: every action's relevant features are candidates in all exploitations.

    Lemmas ``corr`` and ``corrhigh``, which round it down to 1 - δ. Without a horizon it holds for any number of steps.
    It is 1 less the sum of :func:`inaccuracy_bound` over the D* tuples of A actions and the steps from 2 on; 0 where
    that sum exceeds 1. The paper sums from step 3, but with ``epsilon`` and ``observe="all-actions"`` the second step
    may exploit.

    With ``control_divisor`` c the sum over all steps is finite for c < 4·γ_rel only, so for larger divisors the proof
    says nothing about a learner that never stops, and little about one that does.

    Examples
    --------
    >>> correctness_bound(actions=2, features=5, delta=0.05) >= 0.95
    True
    >>> correctness_bound(actions=2, features=5, delta=0.05, control_divisor=5000)
    0.0
    """
    terms, power = actions * tuple_count(features, gamma_rel), 4 * gamma_rel / control_divisor
    failures = 2 * terms * (delta / terms) ** power * _sum_of_powers(power, horizon)
    return float(max(0.0, 1.0 - failures))


@checked
def estimate_accuracy(lipschitz: float, length: float) -> float:
    """8·L·s: how far an action's estimate is from its expected reward at most, when CORR_T happens.

    Lemma ``estimatedrel``, of exploitations with γ_rel = 1.

    The mean of every pair of intervals that holds the relevant one is within 2·L·s of the expected reward (A.1). The
    estimated feature ĉ varies no more than the relevant one, which varies by 3·L·s at most; over the pair of both, the
    two estimates differ by 6·L·s at most (A.2).

    That pair's mean is itself within 2·L·s, so the first of the two differences of (A.2) is not needed: 5·L·s would do.
    This function returns the lemma's 8·L·s, on which Theorem 1 rests.
    """
    return 8 * lipschitz * length


@checked
def tuple_estimate_accuracy(
    lipschitz: float, *, d_rel: int, estimated_length: float, containing_length: float, relevant_length: float
) -> float:
    """3·L·√d·(ŝ + s_w) + 2·L·√d·s: the accuracy of an estimate for D_rel ≥ 1, when CORR_T happens.

    Lemma ``estimatedrelhigh``.

    The lemma names a tuple w without saying which. Its proof holds for every D_rel-tuple that contains ℛ(a), so w may
    be the one with the shortest longest interval; its last line has all D features in place of w, which is the largest.

    The proof uses that ĉ is a candidate, not that it varies least. With the latter, as for D_rel = 1, ŝ and s_w can be
    replaced by s: 8·L·√d·s.
    """
    require_at_least(relevant_length, containing_length=containing_length)
    summed = 3 * (estimated_length + containing_length) + 2 * relevant_length
    return lipschitz * math.sqrt(d_rel) * summed


@checked
def instantaneous_bound(lipschitz: float, chosen_length: float, best_length: float) -> float:
    """What one exploitation may lose at most: 8 L (s(p_chosen) + s(p_best)) (Theorem 1, γ_rel = 1).

    The sum of both actions' :func:`estimate_accuracy`: the chosen action has the highest estimate, so it is worse than
    the best one by no more than what its own estimate is too high by and the other's is too low by.
    """
    return estimate_accuracy(lipschitz, chosen_length) + estimate_accuracy(lipschitz, best_length)


@checked
def general_instantaneous_bound(lipschitz: float, longest: float, *, d_rel: int) -> float:
    """What one exploitation may lose at most for D_rel ≥ 1: 16·L·√d·s (proof of Theorem 5).

    Twice :func:`tuple_estimate_accuracy` with all lengths equal to that of the longest interval.
    """
    lengths = dict.fromkeys(("estimated_length", "containing_length", "relevant_length"), longest)
    return 2 * tuple_estimate_accuracy(lipschitz, d_rel=d_rel, **lengths)


def _sum_of_powers(power: float, horizon: float | None) -> float:
    """At least the sum of t^-power over the steps from 2 on: the first term, and the integral beyond it."""
    first = FIRST_EXPLOITATION
    if horizon is not None and horizon < first:
        return 0.0
    if horizon is None:
        beyond = first ** (1 - power) / (power - 1) if power > 1 else math.inf
    elif power == 1:
        beyond = math.log(horizon / first)
    else:
        beyond = (horizon ** (1 - power) - first ** (1 - power)) / (1 - power)
    return float(first**-power + beyond)
