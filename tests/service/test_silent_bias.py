"""What the service learns and shows is not biased by who is rewarded when, or by when a shadow was added."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

import releaf
from releaf.service.errors import ApiError
from releaf.service.experiments import learner_factory
from releaf.service.experiments.state import ExperimentState
from releaf.service.messages import NewExperiment, PolicySpec, RewardRules

RATES = {"a": 0.05, "b": 0.03}
WITHIN = 40.0  # seconds until a click is no longer expected
PER_SECOND = 500.0


def experiment(policy: PolicySpec, default: float | None = 0.0) -> ExperimentState:
    rules = RewardRules(within_seconds=WITHIN, default=default)
    spec = NewExperiment(name="x", actions=list(RATES), features=1, policy=policy, rewards=rules)
    return ExperimentState(spec, learner_factory.make_learner(spec))


@pytest.mark.parametrize("limit", [None, 10_000])
def test_clicks_at_once_and_silence_later_give_the_true_rates(limit: int | None) -> None:
    """More decisions wait than a limit of 10,000 allows: then new ones are refused, and no old one is forgotten."""
    parameters: dict[str, Any] = {"seed": 0, "least_probability": 0.2} | ({"max_pending": limit} if limit else {})
    state = experiment(PolicySpec(name="AdaptiveReleaf", parameters=parameters))
    rng, at, codes = np.random.default_rng(0), 1_000.0, set()
    for _ in range(300):
        at += 100 / PER_SECOND
        while state.expire(at):
            pass
        try:
            made = state.decide(rng.random((100, 1)).tolist(), [None] * 100, at)
        except ApiError as error:
            codes.add((error.status, error.code))
            continue
        for event in made:
            if rng.random() < RATES[str(event.action)]:
                state.reward(event.number, 1.0, at)
        assert state.unaccounted() == 0
    assert codes == ({(503, "pending_limit")} if limit else set())
    while state.expire(at + WITHIN):
        pass
    assert not state.pending
    counters = state.counters
    assert counters.rewards + counters.defaults == counters.asked == counters.decisions
    estimates = state.learner.estimate([[0.5]])[0]
    assert estimates == pytest.approx(list(RATES.values()), abs=0.01)


def test_a_shadow_from_after_a_good_season_is_not_shown_as_better() -> None:
    """Rewards double when the season turns, and Random is added then: on the same decisions it earns less."""
    state = experiment(PolicySpec(name="AdaptiveReleaf", parameters={"seed": 0, "least_probability": 0.1}))
    rng, at = np.random.default_rng(1), 1_000.0
    for step in range(6_000):
        at += 0.01
        if step == 3_000:
            spec = PolicySpec(name="Random", parameters={"seed": 1})
            shadow = learner_factory.build_policy(spec, state.learner.actions, state.learner.schema)
            state.add_shadow("random", spec, shadow, at)
        context = rng.random()
        (event,) = state.decide([[context]], [None], at)
        season = 0.5 if step < 3_000 else 1.0
        chance = season * (0.7 if (context > 0.5) == (event.action == "a") else 0.3)
        state.reward(event.number, float(rng.random() < chance), at)
        if step >= 3_000:
            told = state.shadows[0].to_message()
            assert told.difference_low is not None
            assert told.difference_low <= 0.0
    overall, value, difference = state.counts().mean_reward, told.value, told.difference
    low, high = told.difference_low, told.difference_high
    assert overall is not None
    assert value is not None
    assert value > overall  # other decisions, by which it would seem better
    assert low is not None
    assert high is not None
    assert difference is not None
    assert low < difference < -0.1
    assert difference < high < 0.05
    assert told.in_charge == pytest.approx(0.66, abs=0.05)
    assert told.compared == 3_000


def test_a_better_shadow_is_shown_as_better_and_a_promotion_starts_anew() -> None:
    state = experiment(PolicySpec(name="EpsilonGreedy", parameters={"seed": 0, "epsilon": 0.3}))
    spec = PolicySpec(name="AdaptiveReleaf", parameters={"seed": 1})
    shadow = learner_factory.build_policy(spec, state.learner.actions, state.learner.schema)
    state.add_shadow("adaptive", spec, shadow, 999.0)
    rng, at = np.random.default_rng(1), 1_000.0
    for _ in range(4_000):
        at += 0.01
        context = rng.random()
        (event,) = state.decide([[context]], [None], at)
        state.reward(event.number, float(rng.random() < (0.8 if (context > 0.5) == (event.action == "a") else 0.2)), at)
    told = state.shadows[0].to_message()
    assert told.difference_low is not None
    assert told.difference_low > 0.1
    state.promote("adaptive", at)
    after = state.shadows[0].to_message()
    assert (after.name, after.compared, after.difference_low) == ("former", 0, None)


def test_the_library_counts_and_tells_what_it_evicts() -> None:
    bandit = releaf.UCB1(2, 1, seed=0, max_pending=3)
    waiting: deque[Any] = deque(bandit.decide([0.5]) for _ in range(3))
    with pytest.warns(UserWarning, match=r"more than max_pending=3 decisions wait .*: the oldest are evicted"):
        bandit.decide([0.5])
    bandit.decide_many([[0.5]] * 4)  # warned about once
    assert bandit.evicted == 5
    with pytest.raises(ValueError, match="older than the newest 3 pending ones"):
        bandit.learn(waiting[0], 1.0)
    assert releaf.from_bytes(bandit.to_bytes()).evicted == 5
    bandit.preview([0.5])
    assert (bandit.evicted, bandit.pending) == (5, 3)
