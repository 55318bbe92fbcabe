"""Spend of an experiment whose policy weighs costs."""

from __future__ import annotations

from releaf.service.experiments.replayed_state import ReplayedState
from releaf.service.messages import SpendInfo


def spend_info(state: ReplayedState) -> SpendInfo | None:
    """The spend for the API; None where costs do not matter."""
    learner, spent = state.learner, state.counters.spent
    if learner.cost_weight is None:
        return None
    made = state.ordinal(state.decisions)
    return SpendInfo(
        spent=spent,
        mean_cost=spent / made if made else None,
        cost_weight=learner.cost_weight,
        budget=learner.spend_budget,
        period=None if learner.spend_budget is None else learner.budget_period,
        ahead=learner.spend_ahead,
    )
