"""Merging of AdaptiveReleaf learners: what each reward counts for, and what stays as it was."""

from __future__ import annotations

import copy
import threading
from typing import Any

import numpy as np
import pytest
from adaptive_twin import MIXED, arrays_of, fits_under_way, stream
from learner_comparison import full_state, run_steps

import releaf
from releaf.core.adaptive import engine
from releaf.core.adaptive.sample import KEYS
from releaf.core.adaptive.state import RATE, ROWS


def empty(**further: Any) -> Any:
    return releaf.AdaptiveReleaf(2, MIXED, seed=3, **further)


def part(steps: int, seed: int = 0, **further: Any) -> Any:
    """A learner of rewards of its own."""
    bandit = empty(**further)
    bandit.replay(*stream("mixed", steps, seed=seed))
    return bandit


@pytest.mark.parametrize(
    "rule", [{}, {"label_budget": 200}, {"observation_cost": 0.5}, {"forget": 100}, {"forget": "auto"}]
)
@pytest.mark.parametrize("steps", [0, 5, 300])
def test_a_learner_that_knows_nothing_changes_no_later_decision(rule: dict[str, Any], steps: int) -> None:
    one = part(steps, **rule)
    both = one.merge(empty(**rule)), empty(**rule).merge(one)
    contexts, rewards = stream("mixed", 400, seed=9)
    expected = run_steps(one, contexts, rewards)
    for merged in both:
        assert run_steps(merged, contexts, rewards) == expected
        assert arrays_of(merged) == arrays_of(one)


def test_a_learner_that_knows_nothing_leaves_a_fit_under_way_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "AT_ONCE", 100)
    contexts, rewards = stream("mixed", 500)
    met, one = 0, empty()
    for step in range(0, 400, 20):
        one.replay(contexts[step : step + 20], rewards[step : step + 20])
        if fits_under_way(one):
            met += 1
            lived, merged = copy.copy(one), one.merge(empty())
            rest = contexts[step + 20 :], rewards[step + 20 :]
            assert run_steps(merged, *rest) == run_steps(lived, *rest)
    assert met > 1


def test_the_order_of_two_learners_makes_no_difference() -> None:
    one, other = part(300, seed=1), part(400, seed=2)
    first, second = one.merge(other), other.merge(one)
    assert arrays_of(first) == arrays_of(second)
    contexts, rewards = stream("mixed", 300, seed=9)
    assert np.array_equal(first.estimate(contexts), second.estimate(contexts))
    assert run_steps(first, contexts, rewards) == run_steps(second, contexts, rewards)


def test_a_merged_learner_knows_what_one_learner_of_all_rewards_would() -> None:
    """Its estimates err less than those of its parts, and little more than those of one learner."""
    contexts, rewards = stream("mixed", 3_000)
    logged = np.random.default_rng(1).integers(0, 2, 3_000)

    def fed(rows: Any) -> Any:
        bandit = empty()
        gained = rewards[rows, logged[rows]]
        bandit.learn_log([contexts[row] for row in rows], logged[rows], gained)
        return bandit

    one, other, whole = fed(range(1_500)), fed(range(1_500, 3_000)), fed(range(3_000))
    merged = one.merge(other)
    assert (merged.observations, merged.steps) == (3_000, 3_000)
    tried, truth = stream("mixed", 2_000, seed=5)
    parts, both, all_at_once = (
        np.mean([np.square(bandit.estimate(tried) - truth).mean() for bandit in group])
        for group in ((one, other), (merged,), (whole,))
    )
    assert both < parts
    assert both < all_at_once + 0.2 * (parts - all_at_once)


def test_rewards_of_a_common_past_count_once() -> None:
    past = part(300)
    parts = [copy.copy(past) for _ in range(2)]
    for place, steps in enumerate((100, 250)):
        parts[place].replay(*stream("mixed", steps, seed=20 + place))
    merged = parts[0].merge(parts[1])
    assert (merged.observations, merged.steps) == (650, 650)
    keys = [sample.keys[: sample.counts[ROWS]] for sample in merged._engine.samples]
    assert sum(len(np.unique(own)) for own in keys) == sum(map(len, keys)) == 650
    count, total = merged._state.reward_sums
    assert count == 650
    assert total == pytest.approx(sum(sample.rewards[: sample.counts[ROWS]].sum() for sample in merged._engine.samples))


@pytest.mark.parametrize("steps", [0, 1, 50, 400])
def test_a_learner_merged_with_its_own_past_stays_as_it_is(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its sample was thinned since."""
    monkeypatch.setattr(engine, "SAMPLE_BYTES", 0)
    monkeypatch.setattr(engine, "LEAST_MOST_ROWS", 128)
    past = part(120)
    later = copy.copy(past)
    later.replay(*stream("mixed", steps, seed=8))
    for merged in (later.merge(past), past.merge(later)):
        assert merged.observations == later.observations
        assert arrays_of(merged) == arrays_of(later)


def test_labels_of_a_common_past_count_once_as_well() -> None:
    past = part(200, observe="labels")
    parts = [copy.copy(past) for _ in range(2)]
    for place, one in enumerate(parts):
        one.replay(*stream("mixed", 100, seed=20 + place))
    merged = parts[0].merge(parts[1])
    assert merged.steps == 400
    assert merged.observations == 800


def test_requests_of_a_common_past_are_not_spent_twice() -> None:
    past = releaf.AdaptiveReleaf(2, MIXED, seed=3, label_budget=150)
    past.replay(*stream("mixed", 100))
    spent = past.explorations
    assert spent > 50
    merged = copy.copy(past).merge(past)
    assert merged.explorations == spent
    assert merged.steps == 100
    assert merged.labels_left == past.labels_left


@pytest.mark.parametrize("logged", [0, 50])
def test_copies_of_one_learner_share_its_label_budget(logged: int) -> None:
    past = releaf.AdaptiveReleaf(2, MIXED, seed=3, label_budget=150)
    contexts, rewards = stream("mixed", 60)
    past.learn_log(contexts[:logged], [row % 2 for row in range(logged)], rewards[:logged, 0])
    past.replay(contexts[50:], rewards[50:])
    parts = [copy.copy(past) for _ in range(2)]
    for place, one in enumerate(parts):
        one.set_random_state(place + 7)
        one.replay(*stream("mixed", 40, seed=20 + place))
    merged = parts[0].merge(parts[1])
    assert merged.explorations == sum(one.explorations for one in parts) - past.explorations
    assert (merged.label_budget, merged.labels_left) == (150, 150 - merged.explorations)


def test_thinned_samples_unite_at_the_higher_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SAMPLE_BYTES", 0)
    monkeypatch.setattr(engine, "LEAST_MOST_ROWS", 128)
    one, other = part(1_000, seed=1), part(200, seed=2)
    merged = one.merge(other)
    assert merged.observations == 1_200
    for mine, theirs, both in zip(*(bandit._engine.samples for bandit in (one, other, merged)), strict=True):
        rate = int(both.counts[RATE])
        assert rate >= mine.counts[RATE] > theirs.counts[RATE] == 0
        expected = np.concatenate([sample.keys[: sample.counts[ROWS]] for sample in (mine, theirs)])
        assert set(both.keys[: both.counts[ROWS]].tolist()) == set(expected[expected < KEYS >> rate].tolist())
        assert both.counts[ROWS] <= 128
    tried, truth = stream("mixed", 1_000, seed=5)
    assert np.square(merged.estimate(tried) - truth).mean() < np.square(truth - 0.5).mean()


def test_actions_of_both_are_there_with_what_each_knew() -> None:
    contexts, rewards = stream("mixed", 300, actions=3)
    one, other = (releaf.AdaptiveReleaf(names, MIXED, seed=0) for names in (["a", "b"], ["b", "c"]))
    one.replay(contexts, rewards[:, :2])
    other.replay(contexts, rewards[:, 1:])
    merged = one.merge(other)
    assert merged.actions == ("a", "b", "c")
    counts = [[int(sample.counts[ROWS]) for sample in bandit._engine.samples] for bandit in (one, other, merged)]
    assert counts[2] == [counts[0][0], counts[0][1] + counts[1][0], counts[1][1]]
    losses = [bandit._state.losses for bandit in (one, other, merged)]
    assert losses[2].tolist() == [losses[0][0].tolist(), (losses[0][1] + losses[1][0]).tolist(), losses[1][1].tolist()]
    merged.replay(contexts, rewards)


@pytest.mark.parametrize(
    ("other", "error", "text"),
    [
        (lambda: releaf.AdaptiveReleaf(2, 3, seed=0), ValueError, "different features can't be merged"),
        (lambda: releaf.AdaptiveReleaf(2, {"x": releaf.Quantile()}, seed=0), ValueError, "different features"),
        (lambda: releaf.LinUCB(2, MIXED), TypeError, "other must be a AdaptiveReleaf too, got LinUCB"),
    ],
)
def test_what_cannot_be_merged_is_refused_and_changes_nothing(other: Any, error: Any, text: str) -> None:
    one, two = part(100), other()
    before = full_state(one), full_state(two)
    with pytest.raises(error, match=text):
        one.merge(two)
    assert (full_state(one), full_state(two)) == before


def test_learners_of_different_quantiles_are_refused() -> None:
    one, two = (releaf.AdaptiveReleaf(2, {"x": releaf.Quantile()}, seed=0) for _ in range(2))
    one.decide([1.0])
    with pytest.raises(ValueError, match="different quantiles"):
        one.merge(two)


def test_both_learners_stay_as_they_are_and_pending_decisions_with_them() -> None:
    one, other = part(100, seed=1), part(100, seed=2)
    choice = one.decide(stream("mixed", 1)[0][0])
    before = full_state(one), full_state(other)
    merged = one.merge(other)
    merged.replay(*stream("mixed", 50, seed=3))
    assert (full_state(one), full_state(other)) == before
    assert merged.pending == 0
    with pytest.raises(ValueError, match="was made by another learner"):
        merged.learn(choice, 1.0)
    one.learn(choice, 1.0)


def test_two_threads_that_merge_each_other_do_not_deadlock() -> None:
    one, other = part(200, seed=1), part(200, seed=2)
    expected, found = arrays_of(one.merge(other)), list[dict[str, bytes]]()

    def merge_often(first: Any, second: Any) -> None:
        found.extend(arrays_of(first.merge(second)) for _ in range(20))

    threads = [threading.Thread(target=merge_often, args=pair, daemon=True) for pair in ((one, other), (other, one))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert found == [expected] * 40


def test_a_merged_learner_goes_on_and_is_saved_exactly() -> None:
    merged = part(200, seed=1).merge(part(250, seed=2))
    again = releaf.from_bytes(merged.to_bytes())
    contexts, rewards = stream("mixed", 300, seed=9)
    assert run_steps(again, contexts, rewards) == run_steps(merged, contexts, rewards)


def test_rewards_of_learners_with_few_different_contexts_all_count() -> None:
    """Equal rewards of equal contexts are no sign of a common past."""
    parts = []
    for seed in range(2):
        draw = np.random.default_rng(seed)
        parts.append(releaf.AdaptiveReleaf(2, releaf.Schema(sure=releaf.Boolean()), seed=0))
        parts[-1].replay((draw.random((1_000, 1)) < 0.5).tolist(), (draw.random((1_000, 2)) < 0.5).astype(float))
    assert parts[0].merge(parts[1]).observations >= 1_990


def test_equal_rewards_of_learners_with_other_seeds_all_count() -> None:
    """Nothing but the seed tells the rewards of one from those of the other."""
    parts = [releaf.AdaptiveReleaf(["one"], 1, seed=seed) for seed in (0, 1)]
    for part in parts:
        part.learn_log([[0.5]] * 1_000, ["one"] * 1_000, [1.0] * 1_000)
    assert parts[0].merge(parts[1]).observations == 2_000


def test_copies_with_random_states_of_their_own_lose_no_equal_rewards() -> None:
    first = releaf.AdaptiveReleaf(["one"], 1, seed=0)
    first.learn_log([[0.5]] * 100, ["one"] * 100, [1.0] * 100)
    copies = [releaf.from_bytes(first.to_bytes()) for _ in range(2)]
    for state, part in enumerate(copies):
        part.set_random_state(state + 1)
        part.learn_log([[0.5]] * 300, ["one"] * 300, [1.0] * 300)
    assert copies[0].merge(copies[1]).observations == 700


def test_a_merged_learner_may_spend_what_both_have_left() -> None:
    draw = np.random.default_rng(0)
    parts = [releaf.AdaptiveReleaf(2, 2, seed=seed, label_budget=100) for seed in (0, 1)]
    for part in parts:
        contexts = draw.random((400, 2))
        part.replay(contexts, contexts)
    left = sum(100 - part.explorations for part in parts)
    whole = parts[0].merge(parts[1])
    assert whole.label_budget == whole.explorations + left
    contexts = draw.random((5_000, 2))
    whole.replay(contexts, (draw.random((5_000, 2)) < 0.5).astype(float))
    assert whole.explorations == whole.label_budget
    assert releaf.from_bytes(whole.to_bytes()).label_budget == whole.label_budget
