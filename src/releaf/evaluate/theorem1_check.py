"""Check of Theorem 1's bound on the loss of each exploitation, for streams with known expected rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np

from releaf import theory
from releaf.policies import Releaf
from releaf.policy import Replayable, Trace
from releaf.streams import Stream

MULTIPLES = np.geomspace(0.01, 100.0, 33).tolist()


class Guarantee(TypedDict):
    """Losses of a run's exploitations compared with the bound 8·L·(s + s′).

    Attributes
    ----------
    exploitations, held
        Number of exploitations, and of those for which the bound held.
    tested
        Number of exploitations for which the bound could have failed, because the worst action loses more.
    constant
        Largest loss as a multiple of L·(s + s′), of which the bound allows 8. None without exploitations.
    multiples, exceeding
        Multiples of L·(s + s′), and the share of exploitations with a larger loss.
    """

    exploitations: int
    held: int
    tested: int
    constant: float | None
    multiples: list[float]
    exceeding: list[float]


def check_theorem1_applies(policy: Replayable, stream: Stream, relevant: Sequence[int]) -> None:
    """Raise a ValueError unless Theorem 1 covers this policy and stream, up to the control numbers."""
    if not isinstance(policy, Releaf) or policy.gamma_rel != 1 or policy.lipschitz == "unknown" or policy.steps:
        raise ValueError(
            f"relevant={relevant!r} needs a new Releaf with gamma_rel=1 and a known lipschitz, got {policy!r}"
        )
    if stream.expected is None:
        raise ValueError(f"relevant={relevant!r} needs a stream whose expected rewards are known, got none")
    features = range(stream.contexts.shape[1])
    if len(relevant) != len(stream.actions) or not all(feature in features for feature in relevant):
        raise ValueError(
            f"relevant={relevant!r}: expected for each of {len(stream.actions)} actions the position of a feature, "
            f"from 0 to {features[-1]}"
        )


def check_theorem1(trace: Trace, stream: Stream, policy: Releaf, relevant: Sequence[int]) -> Guarantee:
    """Compare the loss of each exploitation with Theorem 1's bound.

    Parameters
    ----------
    trace, stream, policy
        A policy's trace over a stream, from its first decision on.
    relevant
        Per action, the position of the one feature that its expected reward depends on.
    """
    exploited, expected = np.flatnonzero(~trace.explored), np.asarray(stream.expected)
    means = expected[exploited]
    chosen, best = trace.actions[exploited], means.argmax(axis=1)
    lengths = _lengths(stream, policy, relevant)[exploited]
    rows = np.arange(len(exploited))
    unit = float(policy.lipschitz) * (lengths[rows, chosen] + lengths[rows, best])
    losses = means[rows, best] - means[rows, chosen]
    constant = theory.instantaneous_bound(1.0, 0.5, 0.5)
    allowed = constant * unit
    units = float(policy.lipschitz) * (lengths + lengths[rows, best][:, None])
    could_fail = (means[rows, best][:, None] - means > constant * units).any(axis=1)
    ranked = np.sort(losses / unit)
    above = len(ranked) - np.searchsorted(ranked, MULTIPLES, side="right")
    return Guarantee(
        exploitations=len(exploited),
        held=int((losses <= allowed).sum()),
        tested=int(could_fail.sum()),
        constant=float(ranked[-1]) if len(ranked) else None,
        multiples=MULTIPLES,
        exceeding=(above / max(len(ranked), 1)).tolist(),
    )


def _lengths(stream: Stream, policy: Releaf, relevant: Sequence[int]) -> Any:
    """The length of the interval of each action's relevant feature at each step (T × A)."""
    rho = theory.balanced_rho(1) if policy.rho is None else policy.rho
    level = 0 if policy.epsilon is None else theory.starting_level(float(policy.lipschitz), policy.epsilon, policy.base)
    found = {
        feature: theory.interval_lengths(stream.contexts[:, feature], rho=rho, base=policy.base, start_level=level)
        for feature in set(relevant)
    }
    return np.column_stack([found[feature] for feature in relevant])
