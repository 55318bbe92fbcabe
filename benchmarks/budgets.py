"""Decisions within a budget: spend, and reward against the best policy within it, over 100,000 decisions.

The comparison is LinUCB with a fixed weight of cost, the best for the first 1,000 decisions by their true expected
rewards. Once it has spent the whole budget it takes the cheapest action.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import releaf
from benchmarks.measure import Finding, Say
from benchmarks.planted_costs import STREAMS, PlantedCosts, best_weight, best_within
from benchmarks.workload import Array

STEPS, PERIOD, PILOT, SEED = 100_000, 1_000, 1_000, 1
POLICIES: dict[str, Any] = {
    "AdaptiveReleaf": releaf.AdaptiveReleaf,
    "LinUCB": releaf.LinUCB,
    "LinTS": releaf.LinTS,
}


def run(say: Say) -> list[Finding]:
    findings = []
    for name, (make, budget) in STREAMS.items():
        stream, allowance = make(STEPS, SEED), budget * STEPS / PERIOD
        best = best_within(stream.expected, stream.costs, allowance)
        for policy, build in POLICIES.items():
            say(f"budgets, {name}: {policy}")
            bandit = build(stream.costs.shape[1], stream.contexts.shape[1], seed=SEED, spend_budget=budget)
            trace = releaf.replay(bandit, stream.contexts, stream.rewards, cost=stream.costs)
            share = _gained(stream, trace.actions) / best
            findings += _findings(
                f"{name}, {policy}", bandit.spent / allowance, share, _most_ahead(trace.costs, budget)
            )
        say(f"budgets, {name}: LinUCB with a fixed weight")
        spent, gained = _with_fixed_weight(stream, budget, allowance)
        what = f"{name}, LinUCB with a fixed weight: "
        findings.append(Finding(what=f"{what}spend as a share of the budget, if it went on", value=spent / allowance))
        findings.append(Finding(what=f"{what}reward as a share of the best within the budget", value=gained / best))
    return findings


def _findings(what: str, spent: float, share: float, ahead: float) -> list[Finding]:
    is_target = what.endswith("AdaptiveReleaf")  # the others' models can't fit curved rewards
    return [
        Finding(what=f"{what}: difference of spend and budget, as a share", value=abs(spent - 1.0), at_most=0.01),
        Finding(
            what=f"{what}: reward as a share of the best within the budget",
            value=share,
            at_least=0.97 if is_target else None,
        ),
        Finding(what=f"{what}: most that spend was ahead of the allowance, in budgets of a period", value=ahead),
    ]


def _gained(stream: PlantedCosts, actions: Array) -> float:
    return float(stream.expected[np.arange(len(actions)), actions].sum())


def _most_ahead(costs: Array | None, budget: float) -> float:
    assert costs is not None
    allowed = np.arange(1, len(costs) + 1) * budget / PERIOD
    return float((np.cumsum(costs) - allowed).max() / budget)


def _with_fixed_weight(stream: PlantedCosts, budget: float, allowance: float) -> tuple[float, float]:
    """Spend and reward of LinUCB with a weight from a pilot; the reward within the budget."""
    pilot = slice(0, PILOT)
    weight = best_weight(stream.expected[pilot], stream.costs[pilot], budget * PILOT / PERIOD)
    bandit = releaf.LinUCB(stream.costs.shape[1], stream.contexts.shape[1], cost_weight=weight)
    trace = releaf.replay(bandit, stream.contexts, stream.rewards, cost=stream.costs)
    assert trace.costs is not None
    cheapest = stream.costs.argmin(axis=1)
    least = stream.costs.min(axis=1)
    left = least[::-1].cumsum()[::-1]
    is_over = np.cumsum(trace.costs) - trace.costs + left > allowance
    within = np.where(np.maximum.accumulate(is_over), cheapest, trace.actions)
    return bandit.spent, _gained(stream, within)
