"""RELEAF in plain Python, written for reading: the reference for the compiled learner.

The names are those of the paper; one step is `arrive`, then `observe` for each reward that is seen.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from itertools import combinations

Interval = tuple[int, int]  # (level l, number k): the interval (k / base^l, (k+1) / base^l]
CATEGORY, GONE = -1, -2  # "levels" of what never splits: a category, and missing values
MISSING = -1.0  # stands for a missing value in a context
Types = tuple[int, ...]
GRAIN = 2.0**-26  # of rewards, so that their sums are exact


@dataclass
class Outcome:
    """What the algorithm must do with a context, up to its random draws."""

    under_explored: set[int]
    relevant: list[Types | None] = field(default_factory=list)  # ĉ(a), None when there is no candidate
    estimates: list[float | None] = field(default_factory=list)  # of ĉ(a)
    possible: list[list[float]] = field(default_factory=list)  # the estimates of all v, should ĉ(a) be drawn


@dataclass
class PlainReleaf:
    features: int
    actions: int
    gamma: int = 1
    tuple_size: int = 2
    lipschitz: float | None = 1.0  # None: unknown
    rho: float = 2 + 2 * math.sqrt(2)
    delta: float = 0.05
    control_divisor: float = 5000.0
    base: int = 2
    start_level: int = 0
    greedy: bool = False
    categories: dict[int, int] = field(default_factory=dict)  # how many the categorical features have
    missing: set[int] = field(default_factory=set)  # continuous features that allow missing values

    def __post_init__(self) -> None:
        self.arrivals: list[dict[Interval, int]] = [dict.fromkeys(self.first(i), 0) for i in range(self.features)]
        self.rewards: dict[tuple[Types, tuple[Interval, ...], int], list[float]] = {}
        self.t = 0
        self.last: list[Interval] | None = None
        self.all_w = list(combinations(range(self.features), self.tuple_size))
        self.all_v = list(combinations(range(self.features), self.gamma))

    # --- intervals ------------------------------------------------------------------------------------------

    def first(self, i: int) -> list[Interval]:
        if i in self.categories:
            return [(CATEGORY, k) for k in range(self.categories[i])]
        gone = [(GONE, 0)] if i in self.missing else []
        return [(self.start_level, k) for k in range(self.base**self.start_level)] + gone

    def s(self, i: int, interval: Interval) -> float:
        level = interval[0]
        if level == GONE:
            return 1 / 2
        return 1.0 / (self.categories[i] if level == CATEGORY else int(self.base**level))

    def bounds(self, interval: Interval) -> tuple[float, float]:
        level, k = interval
        return k / self.base**level, (k + 1) / self.base**level

    def locate(self, context: list[float]) -> list[Interval]:
        return [self.leaf(i, x) for i, x in enumerate(context)]

    def leaf(self, i: int, x: float) -> Interval:
        if x == MISSING:
            return (GONE, 0)
        if i in self.categories:
            return (CATEGORY, math.floor(x * self.categories[i]))
        for interval in self.arrivals[i]:
            if interval[0] == GONE:
                continue
            low, high = self.bounds(interval)
            if low < x <= high or x == low == 0:
                return interval
        raise AssertionError(f"no interval of feature {i} holds {x}")

    def count_last_arrival(self) -> None:
        """Step 5, put off until the next context comes."""
        for i, p in enumerate(self.last or []):
            self.arrivals[i][p] += 1
            level, k = p
            if level >= 0 and self.arrivals[i][p] >= self.base ** (self.rho * level):
                del self.arrivals[i][p]
                for child in range(self.base):
                    self.arrivals[i][(level + 1, k * self.base + child)] = 0

    # --- cells ----------------------------------------------------------------------------------------------

    def seen(self, w: Types, p: list[Interval], a: int) -> list[float]:
        return self.rewards.get((w, tuple(p[i] for i in w), a), [])

    def mean(self, w: Types, p: list[Interval], a: int) -> float:
        rewards = self.seen(w, p, a)
        total = 0.0
        for reward in rewards:
            total += reward
        return total / len(rewards)

    def observe(self, context: list[float], a: int, reward: float) -> None:
        p = self.locate(context)
        reward = math.floor(reward / GRAIN + 0.5) * GRAIN
        for w in self.all_w:
            self.rewards.setdefault((w, tuple(p[i] for i in w), a), []).append(reward)

    def forget(self, action: int) -> None:
        """Be without an action, whose place those after it take."""
        self.actions -= 1
        self.rewards = {(w, p, a - (a > action)): rewards for (w, p, a), rewards in self.rewards.items() if a != action}

    # --- one step -------------------------------------------------------------------------------------------

    def arrive(self, context: list[float], eligible: set[int] | None = None) -> Outcome:
        """What to do with a context, among the eligible actions; the others have no estimate."""
        allowed = set(range(self.actions)) if eligible is None else eligible
        self.count_last_arrival()
        self.t += 1
        p = self.last = self.locate(context)
        lipschitz = self.lipschitz or 1 + math.log(self.t) / 2
        forced = len(allowed) == 1 < self.actions
        outcome = Outcome(set() if forced else self.under_explored(p, lipschitz) & allowed)
        if not outcome.under_explored:
            for a in range(self.actions):
                if forced or a not in allowed:
                    outcome.relevant.append(None)
                    outcome.estimates.append(self.mean_around(p, a))
                    outcome.possible.append([])
                    continue
                c = self.greedy_choice(p, a) if self.greedy else self.relevant(p, a, lipschitz)
                outcome.relevant.append(c)
                outcome.estimates.append(None if c is None else self.estimate(c, p, a))
                outcome.possible.append([self.estimate(v, p, a) for v in self.all_v])
        return outcome

    def under_explored(self, p: list[Interval], lipschitz: float) -> set[int]:
        d_star = self.features if self.greedy else math.comb(self.features - 1, self.tuple_size - 1)
        logarithm = math.log(self.t * d_star * self.actions / self.delta)
        short = set()
        for w in self.all_w:
            need = max(2 * logarithm / (lipschitz * self.s(i, p[i])) ** 2 / self.control_divisor for i in w)
            short |= {a for a in range(self.actions) if len(self.seen(w, p, a)) < need}
        return short

    def relevant(self, p: list[Interval], a: int, lipschitz: float) -> Types | None:
        variation: dict[Types, float] = {}
        for v in self.all_v:
            means = [self.mean(w, p, a) for w in self.all_w if set(v) <= set(w)]
            difference = max(means) - min(means)
            if difference <= 3 * lipschitz * math.sqrt(self.gamma) * max(self.s(i, p[i]) for i in v):
                variation[v] = difference
        return min(variation, key=lambda v: (variation[v], v)) if variation else None

    def mean_around(self, p: list[Interval], a: int) -> float:
        """Mean over all cells of the context; one half without rewards there."""
        rewards = [reward for w in self.all_w for reward in self.seen(w, p, a)]
        return sum(rewards) / len(rewards) if rewards else 0.5

    def greedy_choice(self, p: list[Interval], a: int) -> Types:
        return max(self.all_w, key=lambda w: self.mean(w, p, a))

    def estimate(self, v: Types, p: list[Interval], a: int) -> float:
        containing = [w for w in self.all_w if set(v) <= set(w)]
        if len(containing) == 1:
            return self.mean(containing[0], p, a)
        weighted = count = 0.0
        for w in containing:
            observations = len(self.seen(w, p, a))
            weighted += self.mean(w, p, a) * observations
            count += observations
        return weighted / count

    # --- for running it alone -------------------------------------------------------------------------------

    def act(self, context: list[float], generator: random.Random) -> tuple[int, bool]:
        """An action as the algorithm would draw it, and whether it explores."""
        outcome = self.arrive(context)
        if outcome.under_explored:
            return generator.choice(sorted(outcome.under_explored)), True
        drawn = [
            generator.choice(possible) if estimate is None else estimate
            for estimate, possible in zip(outcome.estimates, outcome.possible, strict=True)
        ]
        return drawn.index(max(drawn)), False
