"""AdaptiveReleaf in plain numpy: the reference for its kernels and for the schedule of its fits.

Slow, and written from the rules alone. Constants are the package's, looked up when used, so that a test may change
them. Random draws come from the same generator, so that the twin takes the same actions.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from plain_adaptive_model import Given, PlainModel
from plain_levels import Features, PlainLevels
from plain_reward_requests import PlainRequests
from plain_trees import WORD, SplitMix, mixed

from releaf.core.adaptive import decision_step, drift_detection, engine, fitting, initial_state, mixture, trees
from releaf.core.adaptive.sample import KEYS
from releaf.core.adaptive.state import ALWAYS, AUTO, EXPERTS, SEEN, SHARP_TREES, SMOOTH_TREES, STEADY_TREES


def key_of(context: Any, number: int, reward: float) -> int:
    """Hash of a row's values and of a number."""
    word = (number * 0x9E3779B97F4A7C15 + 1) & WORD
    for value in context:
        word = mixed((word + int(value * 1048576.0) + 1048577) & WORD)
    return mixed((word + int(reward * 1048576.0)) & WORD) >> 2


class Outcome(NamedTuple):
    """A decision."""

    action: int
    explored: bool
    wants_reward: bool
    probability: float
    estimates: Any


class PlainAction:
    """One action: a sample of its rewards, its model, and the fit under way if there is one."""

    def __init__(self, learner: PlainAdaptive) -> None:
        self.learner = learner
        self.contexts: list[Any] = []
        self.rewards: list[float] = []
        self.keys: list[int] = []
        self.numbers: list[int] = []
        self.learnt = self.rate = self.forgotten = self.fitted_for = 0
        self.latest_key = learner.first_key
        self.next = initial_state.FIRST_FIT
        self.started: tuple[PlainModel, Any, int, int] | None = None  # model, kept rows, rewards, when it takes effect
        self.excess, self.since = 0.0, 0
        self.trend, self.since_trend = 0.0, 0
        self.losses = np.zeros(EXPERTS)
        nothing = Given(np.zeros((0, 0)), np.zeros(0), [], learner.first_levels, 0.5, 1)
        self.model = PlainModel(learner.features, nothing)

    def store(self, context: Any, exact: Any, reward: float) -> None:
        self.contexts.append(context)
        self.rewards.append(reward)
        self.latest_key = key_of(exact, self.latest_key, reward)
        self.keys.append(self.latest_key)
        self.numbers.append(self.learnt)
        self.learnt += 1

    def do_what_is_due(self) -> None:
        if self.started is None and self.learnt >= self.next:
            self.start_fit()
        if self.started is not None and self.learnt >= self.started[3]:
            self.finish_fit()

    def start_fit(self) -> None:
        """Fit to the rows that are stored now; the model takes effect some rewards later, unless it is a small fit."""
        at_once, rows = self.forget(), len(self.rewards)
        while sum(kept := self.kept()) > self.learner.most_rows:
            self.rate += 1
        nodes_of_a_tree = fitting.NODE_BYTES // (16 * trees.TREE_COUNT * len(self.learner.actions))
        count, total = self.learner.reward_sums
        counts_nothing = not self.learner.weights(self.losses)[[SHARP_TREES, SMOOTH_TREES, STEADY_TREES]].any()
        coarse = rows // fitting.COARSE_LEAVES if counts_nothing else 0
        given = Given(
            np.array(self.contexts)[kept],
            np.array(self.rewards)[kept],
            [key for key, is_kept in zip(self.keys, kept, strict=True) if is_kept],
            self.learner.levels,
            (total + 1.0) / (count + 2.0),
            max(trees.LEAST_LEAF, math.ceil(2 * rows / nodes_of_a_tree), coarse),
        )
        at_once = at_once or rows * len(self.learner.features.categories) <= engine.AT_ONCE
        is_before_time = self.learnt < self.fitted_for + self.growth(self.fitted_for - self.forgotten)
        lag = rows // (engine.ROWS_PER_SHORT_LAG if is_before_time else engine.ROWS_PER_LAG)
        lag = 0 if at_once else lag
        self.started = PlainModel(self.learner.features, given), kept, self.learnt, self.learnt + lag

    def finish_fit(self) -> None:
        """Take the fitted model into use, and let it learn the rewards that came since."""
        assert self.started is not None
        self.model, kept, self.fitted_for, _ = self.started
        stays = [*kept, *(True for _ in self.rewards[len(kept) :])]
        self.keep(stays)
        self.started = None
        self.next = self.fitted_for + self.growth(self.fitted_for - self.forgotten)
        for context, reward in list(zip(self.contexts, self.rewards, strict=True))[kept.sum() :]:
            self.model.learn(context, reward, self.learner.fading, self.learner.window == AUTO)

    def kept(self) -> Any:
        """Which rows a fit uses: those of the window whose key is small enough."""
        first = self.learnt - self.learner.window if self.learner.window > 0 else 0
        rows = zip(self.keys, self.numbers, strict=True)
        return np.array([key < KEYS >> self.rate and number >= first for key, number in rows], dtype=bool)

    def keep(self, stays: Any) -> None:
        self.contexts, self.rewards, self.keys, self.numbers = (
            [value for value, is_kept in zip(values, stays, strict=True) if is_kept]
            for values in (self.contexts, self.rewards, self.keys, self.numbers)
        )

    def growth(self, rewards: int) -> int:
        """Rewards from one fit to the next."""
        if self.learner.requests.rule == ALWAYS:
            growth = next(growth for most, growth in engine.GROWTHS if rewards <= most)
            grown = max(int(rewards * (growth - 1.0)) + 1, initial_state.FIRST_FIT)
        else:
            grown = max(int(rewards * (engine.GROWTH_OF_FEW - 1.0)) + 1, engine.LEAST_GROWTH_OF_FEW)
        window = self.learner.window
        return min(grown, self.learner.most_rows // 2, window // 2 + 1 if window > 0 else grown)

    # --- drift ----------------------------------------------------------------------------------------------

    def notices_drift(self, estimate: float, reward: float) -> bool:
        if self.learner.window != AUTO:
            return False
        variance = min(estimate * (1.0 - estimate), 2.0 * self.model.wide.variance)
        surprise = (reward - estimate) ** 2 / max(variance, drift_detection.LEAST_VARIANCE)
        self.excess += min(surprise, drift_detection.MOST_SURPRISE) - drift_detection.USUAL_SURPRISE
        if self.excess <= 0.0:
            self.excess, self.since = 0.0, self.learnt
        return self.excess > drift_detection.ALARM

    def notices_trend(self, estimate: float, reward: float) -> bool:
        if self.learner.window != AUTO:
            return False
        without, left = (reward - estimate) ** 2, (reward - estimate - self.model.predicted) ** 2
        variance = drift_detection.TREND_CAUTION * max(self.model.wide.variance, drift_detection.LEAST_VARIANCE)
        self.trend += (without - left) / (2.0 * variance)
        if self.trend <= 0.0:
            self.trend, self.since_trend = 0.0, self.learnt
        return self.trend > drift_detection.TREND_ALARM

    def misses(self) -> bool:
        """Whether the errors since the last fit add up to much."""
        since, few = self.learnt - self.fitted_for, (self.fitted_for - self.forgotten) // decision_step.SHARE_MISSED
        count, total = self.learner.reward_sums
        share = (total + 1.0) / (count + 2.0)
        variance = max(share * (1.0 - share), mixture.LEAST_VARIANCE)
        is_unlikely = self.model.missed**2 > decision_step.UNLIKELY * since * variance
        return since >= max(decision_step.FEWEST_MISSED, few) and is_unlikely

    def note_drift(self, begun: int) -> None:
        self.note_trend(begun)
        self.excess, self.since = 0.0, self.learnt

    def note_trend(self, begun: int) -> None:
        self.forgotten = max(self.forgotten, begun)
        self.trend, self.since_trend, self.next, self.started = 0.0, self.learnt, self.learnt, None

    def forget(self) -> bool:
        before = len(self.rewards)
        self.keep([number >= self.forgotten for number in self.numbers])
        if len(self.rewards) == before:
            return False
        if len(self.rewards) == self.learnt - self.forgotten:
            self.rate = 0
        return True


class PlainAdaptive:
    """All actions, and the contexts seen.

    ``rule``, ``limit``, ``width``, ``most`` and ``stop_after`` are those of the reward requests. ``window``
    is 0, a number of rewards, or AUTO.
    """

    def __init__(
        self,
        actions: int,
        features: Features,
        *,
        seed: int,
        optimism: float = 0.5,
        floor: float | list[float] = 0.0,
        rule: int = ALWAYS,
        limit: float = 0.0,
        width: float = 0.0,
        window: int = 0,
        most: float = math.inf,
        stop_after: int = 0,
    ) -> None:
        self.features, self.optimism, self.floor, self.window = features, optimism, floor, window
        self.requests = PlainRequests(rule, limit, width, features.categories, most, stop_after)
        first = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
        self.generator, self.first_key = SplitMix(first), first % KEYS
        self.first_levels = self.levels = PlainLevels(features)
        self.seen: dict[int, Any] = {}
        self.time = self.seen_rate = 0
        self.reward_sums, self.pooled_losses = np.zeros(2), np.zeros(EXPERTS)
        self.actions = [PlainAction(self) for _ in range(actions)]

    @property
    def most_rows(self) -> int:
        row = 4 * len(self.features.categories) + 24
        most = engine.SAMPLE_BYTES // (row * len(self.actions))
        return min(max(most, engine.LEAST_MOST_ROWS), engine.MOST_ROWS)

    @property
    def fading(self) -> float:
        return 1.0 / (1.0 - 1.0 / self.window) if self.window > 0 else 1.0

    # --- decide -----------------------------------------------------------------------------------------------

    def decide(self, context: Any, eligible: list[int] | None = None, label_cost: float = 1.0) -> Outcome:
        """Decide among the eligible actions: as if the others did not exist, but for the bonus, which counts all."""
        allowed = list(range(len(self.actions))) if eligible is None else eligible
        self.see(context)
        everything, spreads, doubts = self.estimate(context)
        forced = len(allowed) == 1 < len(self.actions)
        estimates, rule = everything[allowed], self.requests.rule
        leader = int(np.argmax(estimates))
        best = self.actions[allowed[leader]]
        if rule != ALWAYS and (
            forced or not self.requests.wants(self, context, estimates, doubts[allowed], best, label_cost)
        ):
            return Outcome(allowed[leader], False, False, 1.0, everything)
        bonuses = [self.bonus(self.actions[place], spreads[place]) for place in allowed]
        chances = self.chances(estimates, bonuses, allowed)
        drawn = self.drawn(chances)
        explored = not forced and (drawn != leader or rule != ALWAYS or self.reward_sums[0] == 0.0)
        return Outcome(allowed[drawn], explored, True, chances[drawn], everything)

    def see(self, context: Any) -> None:
        """Sample contexts; levels follow from the sample each time the number of contexts has doubled."""
        self.time += 1
        key = key_of(context, self.time, 0.0)
        if key < KEYS >> self.seen_rate:
            while len(self.seen) == SEEN:
                self.seen_rate += 1
                self.seen = {other: row for other, row in self.seen.items() if other < KEYS >> self.seen_rate}
            if key < KEYS >> self.seen_rate:
                self.seen[key] = stored(context)
        if self.time >= decision_step.FIRST_LEVELS and self.time & (self.time - 1) == 0:
            self.levels = PlainLevels(self.features, self.levels, np.array(list(self.seen.values())))

    def estimate(self, context: Any) -> tuple[Any, Any, Any]:
        """The estimate and the standard deviation of each action, without and with that between the experts."""
        estimates, spreads, doubts = np.empty((3, len(self.actions)))
        for place, action in enumerate(self.actions):
            predictions, variance = action.model.predict(stored(context))
            estimates[place], between = self.mix(predictions, action.losses)
            spreads[place], doubts[place] = math.sqrt(variance), math.sqrt(variance + between)
        return estimates, spreads, doubts

    def weights(self, losses: Any) -> Any:
        """Weights of the experts, which fall with the losses."""
        count, total = self.reward_sums
        share = (total + 1.0) / (count + 2.0)
        variance = max(share * (1.0 - share), mixture.LEAST_VARIANCE)
        exponents = (mixture.LEARNING_RATE * losses + mixture.POOLED_LEARNING_RATE * self.pooled_losses) / variance
        weights = np.exp(exponents.min() - exponents)
        weights[STEADY_TREES] *= mixture.PRIOR_OF_STEADY
        weights[weights < mixture.LEAST_WEIGHT * weights.sum()] = 0.0
        return weights

    def mix(self, predictions: Any, losses: Any) -> tuple[float, float]:
        """Weighted mean of the predictions, and the variance between them."""
        weights = self.weights(losses)
        mean = np.average(predictions, weights=weights)
        return float(mean), float(np.average((predictions - mean) ** 2, weights=weights))

    def bonus(self, action: PlainAction, spread: float) -> float:
        """Standard deviation, and more where it is larger than it would be with the action's share of decisions."""
        weights = len(action.model.wide.weights) + sum(map(len, action.model.effects.means.values()))
        usual = action.model.wide.variance * weights * len(self.actions) / (1.0 + self.time)
        later = max(math.log((1.0 + self.time) / decision_step.LATER), 0.0)
        eagerness = decision_step.EAGERNESS + decision_step.LATER_EAGERNESS * later
        return spread * math.sqrt(1.0 + eagerness * max(math.log(spread**2 / usual), 0.0))

    def chances(self, estimates: Any, bonuses: Any, allowed: list[int]) -> Any:
        """Probability of each eligible action, for one draw of optimism for all."""
        if isinstance(self.floor, list):
            drawn = np.array([self.floor[place] for place in allowed])
        else:
            drawn = np.full(len(allowed), min(self.floor, 1.0 / len(allowed)))
        count, sure = decision_step.OPTIMISM_LEVELS, max(1.0 - drawn.sum(), 0.0)
        for level in range(count):
            upper = estimates + 2 * self.optimism * (level + 0.5) / count * np.array(bonuses)
            best = upper == upper.max()
            drawn[best] += sure / (count * best.sum())
        return drawn

    def drawn(self, chances: Any) -> int:
        left, last = self.generator.unit(), 0
        for place, chance in enumerate(chances):
            if chance > 0.0:
                last, left = place, left - chance
                if left < 0.0:
                    break
        return last

    # --- learn ------------------------------------------------------------------------------------------------

    def learn(self, context: Any, rewards: dict[int, float]) -> None:
        """Learn the reward of an action, or of all of them."""
        for place, reward in rewards.items():
            self.learn_one(context, self.actions[place], reward)
        for action in self.actions:
            action.do_what_is_due()

    def learn_one(self, context: Any, action: PlainAction, reward: float) -> None:
        predictions = np.array(action.model.learn(stored(context), reward, self.fading, self.window == AUTO))
        mean, _ = self.mix(predictions, action.losses)
        for losses in (action.losses, self.pooled_losses):
            losses += (reward - predictions) ** 2
            losses[:] = np.minimum(losses - losses.min(), mixture.MOST_LEAD)
        self.reward_sums += 1.0, reward
        action.store(stored(context), context, reward)
        if action.notices_drift(mean, reward):
            for other in self.actions:
                other.note_drift(action.since if other is action else other.learnt - drift_detection.KEPT_BY_OTHERS)
        elif action.notices_trend(mean, reward):
            action.note_trend(action.since_trend)
        elif self.is_surprise(action, mean, reward) or action.misses():
            action.next = action.learnt

    def is_surprise(self, action: PlainAction, mean: float, reward: float) -> bool:
        few = action.learnt < decision_step.FEW and self.requests.rule != ALWAYS
        return few and abs(reward - mean) > decision_step.SURPRISE


def stored(context: Any) -> Any:
    """The values as a sample stores them."""
    return np.asarray(context).astype(np.float32).astype(np.float64)
