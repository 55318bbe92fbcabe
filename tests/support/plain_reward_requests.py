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
    """When to request a reward.

    ``limit`` is the price of an ordinary label or ε, ``width`` that of the bounds, ``most`` what labels may cost in
    all, and ``stop_after`` the number of unworthy labels after which random checks stop; 0 for never.
    """

    def __init__(
        self, rule: int, limit: float, width: float, categories: list[int], most: float, stop_after: int
    ) -> None:
        self.rule, self.limit, self.width, self.most, self.stop_after = rule, limit, width, most, stop_after
        self.stretch = np.maximum(categories, 1)
        self.requested, self.spent, self.error_sum, self.novelty_sum = 0, 0.0, 0.0, 0.0
        self.gain, self.gains, self.unworthy = 0.0, 0, 0

    def wants(
        self, learner: Any, context: Any, estimates: Any, doubts: Any, best: Any, label_cost: float = 1.0
    ) -> bool:
        """Whether to request the reward of this decision; the context is as precise as it came.

        ``estimates`` and ``doubts`` are of the eligible actions, of which ``best`` leads.
        """
        leader = int(np.argmax(estimates))
        gaps = [
            (estimates[leader] - estimates[other], math.hypot(doubts[leader], doubts[other]))
            for other in range(len(estimates))
            if other != leader
        ]
        loss, stopped = self.loss(gaps), 0 < self.stop_after <= self.unworthy
        self.weigh(learner, loss, label_cost)
        if self.spent + label_cost > self.most:
            return False
        if self.rule == COST and stopped:
            wanted = self.unworthy == 0
        else:
            wanted = {
                BUDGET: lambda: self.by_budget(learner, gaps, label_cost),
                COST: lambda: self.by_cost(learner, loss, label_cost),
                GUARANTEE: lambda: self.by_guarantee(estimates, doubts),
            }[self.rule]()
            wanted = wanted or self.by_chance(learner, context, estimates[leader], best, label_cost)
        self.requested += wanted
        self.spent += label_cost * wanted
        return wanted

    def loss(self, gaps: Any) -> float:
        """Highest expected improvement of another action over the leader."""
        losses = (
            doubt * (NORMAL.pdf(gap / doubt) - gap / doubt * NORMAL.cdf(-gap / doubt))
            for gap, doubt in gaps
            if doubt > 0
        )
        return max(losses, default=0.0)

    def weigh(self, learner: Any, loss: float, label_cost: float) -> None:
        """Count decisions in a row whose label is not worth its price, and average what labels gain per cost."""
        gain = loss * learner.time / (self.requested + 1)
        self.gains = min(self.gains + 1, 256)
        self.gain += (gain / label_cost - self.gain) / self.gains
        self.unworthy = 0 if gain > self.price(label_cost) else self.unworthy + 1

    def price(self, label_cost: float) -> float:
        return max(self.limit, rules.LEAST_COST) * label_cost

    def by_budget(self, learner: Any, gaps: Any, label_cost: float) -> bool:
        error = max((NORMAL.cdf(-gap / doubt) for gap, doubt in gaps if doubt > 0), default=0.0)
        self.error_sum += error
        first, last = rules.FIRST_ERROR_PROBABILITY, rules.LAST_ERROR_PROBABILITY
        least = first + (last - first) * (self.spent / self.most) ** 2
        if error / label_cost > least or error > max(least, rules.ENOUGH_FOR_DEAR):
            return True
        chance = rules.SHARE * (self.most - self.spent) * error / label_cost
        return bool(learner.generator.unit() * self.error_sum < chance)

    def by_cost(self, learner: Any, loss: float, label_cost: float) -> bool:
        if self.unworthy == 0:
            return True
        return bool(learner.generator.unit() * self.price(label_cost) < loss)

    def by_guarantee(self, estimates: Any, doubts: Any) -> bool:
        leader = int(np.argmax(estimates))
        lowest = estimates[leader] - self.width * doubts[leader]
        others = [place for place in range(len(estimates)) if place != leader]
        return any(estimates[place] + self.width * doubts[place] - lowest > self.limit for place in others)

    def by_chance(self, learner: Any, context: Any, estimate: float, action: Any, label_cost: float) -> bool:
        """Request at random, more often for contexts unlike those whose rewards confirm the estimate."""
        if action.learnt == 0:
            return label_cost <= 1.0 or bool(learner.generator.unit() < 1.0 / label_cost)
        latest = slice(-rules.LATEST_ROWS, None)
        confirm = np.abs(np.array(action.rewards[latest]) - estimate) <= rules.LIKELY
        contexts = np.array(action.contexts[latest]).reshape(-1, len(context))
        distances = np.minimum(np.abs(contexts - context) * self.stretch, 1.0).mean(axis=1)
        nearest, contradicting = (distances[rows].min(initial=1.0) for rows in (confirm, ~confirm))
        novelty = 1.0 if contradicting < nearest else nearest**2
        self.novelty_sum += novelty
        others = min(self.spent + 1.0, self.most - self.spent)
        chance = rules.SHARE * others * novelty / label_cost
        return bool(learner.generator.unit() * self.novelty_sum < chance)
