"""The rules by which AdaptiveReleaf requests rewards, in plain Python: the reference for its kernels."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from releaf.core.adaptive import reward_requests as rules
from releaf.core.adaptive.state import BUDGET, COST, GUARANTEE

NORMAL = NormalDist()


class PlainRequests:
    """When to request a reward; ``limit`` is the budget, the cost or ε, and ``width`` that of the bounds."""

    def __init__(self, rule: int, limit: float, width: float, categories: list[int]) -> None:
        self.rule, self.limit, self.width = rule, limit, width
        self.stretch = np.maximum(categories, 1)
        self.requested, self.error_sum, self.novelty_sum = 0, 0.0, 0.0

    def wants(self, learner: Any, context: Any, estimates: Any, doubts: Any, best: Any) -> bool:
        """Whether to request the reward of this decision; the context is as precise as it came.

        ``estimates`` and ``doubts`` are of the eligible actions, of which ``best`` leads.
        """
        if self.rule == BUDGET and self.requested >= self.limit:
            return False
        leader = int(np.argmax(estimates))
        gaps = [
            (estimates[leader] - estimates[other], math.hypot(doubts[leader], doubts[other]))
            for other in range(len(estimates))
            if other != leader
        ]
        decides = {BUDGET: self.by_budget, COST: self.by_cost, GUARANTEE: self.by_guarantee}[self.rule]
        wanted = decides(learner, gaps, estimates, doubts) or self.by_chance(learner, context, estimates[leader], best)
        self.requested += wanted
        return wanted

    def by_budget(self, learner: Any, gaps: Any, estimates: Any, doubts: Any) -> bool:
        error = max((NORMAL.cdf(-gap / doubt) for gap, doubt in gaps if doubt > 0), default=0.0)
        self.error_sum += error
        first, last = rules.FIRST_ERROR_PROBABILITY, rules.LAST_ERROR_PROBABILITY
        if error > first + (last - first) * (self.requested / self.limit) ** 2:
            return True
        return bool(learner.generator.unit() * self.error_sum < rules.SHARE * (self.limit - self.requested) * error)

    def by_cost(self, learner: Any, gaps: Any, estimates: Any, doubts: Any) -> bool:
        losses = [
            doubt * (NORMAL.pdf(gap / doubt) - gap / doubt * NORMAL.cdf(-gap / doubt))
            for gap, doubt in gaps
            if doubt > 0
        ]
        loss, cost = max(losses, default=0.0), max(self.limit, rules.LEAST_COST)
        if loss * learner.time / (self.requested + 1) > cost:
            return True
        return bool(learner.generator.unit() * cost < loss)

    def by_guarantee(self, learner: Any, gaps: Any, estimates: Any, doubts: Any) -> bool:
        leader = int(np.argmax(estimates))
        lowest = estimates[leader] - self.width * doubts[leader]
        others = [place for place in range(len(estimates)) if place != leader]
        return any(estimates[place] + self.width * doubts[place] - lowest > self.limit for place in others)

    def by_chance(self, learner: Any, context: Any, estimate: float, action: Any) -> bool:
        """Request at random, more often for contexts unlike those whose rewards confirm the estimate."""
        if action.learnt == 0:
            return True
        latest = slice(-rules.LATEST_ROWS, None)
        confirm = np.abs(np.array(action.rewards[latest]) - estimate) <= rules.LIKELY
        contexts = np.array(action.contexts[latest]).reshape(-1, len(context))
        distances = np.minimum(np.abs(contexts - context) * self.stretch, 1.0).mean(axis=1)
        nearest, contradicting = (distances[rows].min(initial=1.0) for rows in (confirm, ~confirm))
        novelty = 1.0 if contradicting < nearest else nearest**2
        self.novelty_sum += novelty
        others = self.requested + 1.0
        if self.rule == BUDGET:
            others = min(others, self.limit - self.requested)
        return bool(learner.generator.unit() * self.novelty_sum < rules.SHARE * others * novelty)
