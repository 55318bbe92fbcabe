"""`Apprentice`: a learner watches an application, and is promoted once it is shown to earn more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance import NAMES, POLICIES, make
from learner_comparison import full_state

import releaf
from releaf.policies.apprentice_comparison import ApprenticeComparison

LOGGED = [(policy, name) for policy, name in zip(POLICIES, NAMES, strict=True) if policy.traits.learns_from_logs]
OTHERS = [(policy, name) for policy, name in zip(POLICIES, NAMES, strict=True) if not policy.traits.learns_from_logs]
every_log_learner = pytest.mark.parametrize("policy", [p for p, _ in LOGGED], ids=[name for _, name in LOGGED])


def rows(count: int, seed: int, propensity: float | None) -> list[tuple[Any, int, float, float | None]]:
    """An application that takes action 0 with a propensity (None: always), where action 1 is better if x > 0.5."""
    draw = np.random.default_rng(seed)
    made: list[tuple[Any, int, float, float | None]] = []
    for context in draw.random((count, 2)):
        first = propensity is None or draw.random() < propensity
        better = 0.8 if (context[0] > 0.5) == (not first) else 0.2
        chance = None if propensity is None else (propensity if first else 1 - propensity)
        made.append((context, 0 if first else 1, float(draw.random() < better), chance))
    return made


def watch(apprentice: releaf.Apprentice, log: list[tuple[Any, int, float, float | None]]) -> None:
    for context, action, reward, probability in log:
        apprentice.observe(context, action, reward, probability=probability)


def linear(**further: Any) -> Any:
    return releaf.LinUCB(2, features=2, **further)


@every_log_learner
def test_the_learner_is_the_same_as_after_observe_alone(policy: Any) -> None:
    watched, alone = make(policy, 2, 2), make(policy, 2, 2)
    apprentice = releaf.Apprentice(watched)
    for context, action, reward, probability in rows(40, 1, 0.5):
        expected = alone.preview(context)
        choice = apprentice.observe(context, action, reward, probability=probability)
        assert (choice.action, choice.probability) == (expected.action, expected.probability)
        alone.observe(context, action, reward)
    assert full_state(watched) == full_state(alone)
    assert apprentice.report().decisions == 40


@pytest.mark.parametrize("policy", [p for p, _ in OTHERS], ids=[name for _, name in OTHERS])
def test_a_policy_that_learns_from_no_log_cannot_watch(policy: Any) -> None:
    with pytest.raises(ValueError, match=r"can't learn the reward of one action .* traits\.learns_from_logs is True"):
        releaf.Apprentice(make(policy, 2, 2))


def test_a_better_learner_is_promoted_and_decides() -> None:
    apprentice = releaf.Apprentice(linear())
    watch(apprentice, rows(1500, 2, 0.7))
    report = apprentice.report()
    assert report.can_promote
    assert report.low > 0
    assert report.difference is not None
    assert report.application_reward is not None
    assert report.low < report.difference < report.high
    assert report.difference == pytest.approx(0.3, abs=0.05)  # the best earns 0.8, the application 0.5
    assert report.learner_reward == pytest.approx(report.application_reward + report.difference)
    policy = apprentice.promote()
    assert policy.decide([0.9, 0.5]).action == 1
    with pytest.raises(ValueError, match=r"was promoted and decides now: use policy\.decide"):
        apprentice.observe([0.9, 0.5], 1, 1.0)


def test_a_learner_that_is_not_better_is_promoted_by_force_only() -> None:
    apprentice = releaf.Apprentice(linear())
    watch(apprentice, rows(30, 3, 0.7))
    low, high = apprentice.report().low, apprentice.report().high
    with pytest.raises(ValueError, match="is not shown to earn more than the application: after 30 compared") as error:
        apprentice.promote()
    assert f"{low:+.4g} to {high:+.4g}" in str(error.value)
    assert not apprentice.promoted
    assert apprentice.promote(force=True) is apprentice.policy
    assert apprentice.promoted


@pytest.mark.parametrize("probability", [None, 1.0])
def test_an_application_without_randomisation_gives_no_estimate_and_no_promotion(probability: float | None) -> None:
    apprentice = releaf.Apprentice(linear())
    for context, action, reward, _ in rows(1000, 4, None):
        apprentice.observe(context, action, reward, probability=probability)
    report = apprentice.report()
    disagreed = sum(
        count for taken in report.choices for chosen, count in report.choices[taken].items() if taken != chosen
    )
    assert report.untested == disagreed > 0
    assert report.difference is None
    assert report.learner_reward is None
    assert report.modelled_difference is not None  # shown, and marked
    assert report.low <= 0 <= report.high
    assert "no evidence" in report.text
    assert "their rewards are unknown" in report.text


def test_a_learner_that_always_agrees_earns_the_same() -> None:
    apprentice = releaf.Apprentice(linear())
    for context in np.random.default_rng(5).random((50, 2)):
        apprentice.observe(context, 1, 0.5, eligible=[1])
    report = apprentice.report()
    assert (report.agreement, report.recent_agreement, report.difference) == (1.0, 1.0, 0.0)
    assert report.agreed_reward == report.application_reward == 0.5
    assert report.choices == {1: {1: 50}}


def test_the_bounds_hold_at_all_times_for_a_learner_that_is_no_better() -> None:
    class Fixed(releaf.LinUCB):
        def preview(self, context: Any, eligible: Any = None, cost: Any = None, label_cost: Any = None) -> Any:
            choice = super().preview(context, eligible)
            choice.action, choice.index = 1, 1
            return choice

    wrong = 0
    for seed in range(20):
        apprentice, draw = releaf.Apprentice(Fixed(2, features=2)), np.random.default_rng(seed)
        crossed = False
        for context in draw.random((200, 2)):
            apprentice.observe(context, int(draw.random() < 0.3), float(draw.random() < 0.5), probability=None)
            crossed |= apprentice.report().low > 0 or apprentice.report().high < 0
        wrong += crossed
    assert wrong == 0


def test_rewards_are_in_the_units_of_the_learner() -> None:
    plain, scaled = releaf.Apprentice(linear()), releaf.Apprentice(linear(reward_range=(-10.0, 10.0)))
    for context, action, reward, probability in rows(200, 6, 0.5):
        plain.observe(context, action, reward, probability=probability)
        scaled.observe(context, action, 20 * reward - 10, probability=probability)
    one, other = plain.report(), scaled.report()
    assert one.application_reward is not None
    assert one.difference is not None
    assert other.application_reward == pytest.approx(20 * one.application_reward - 10)
    assert other.difference == pytest.approx(20 * one.difference)
    assert other.low == pytest.approx(20 * one.low)


def test_the_warm_up_teaches_and_is_not_compared() -> None:
    apprentice = releaf.Apprentice(linear(), warm_up=30)
    watch(apprentice, rows(50, 7, 0.5))
    assert apprentice.report().decisions == 20
    assert apprentice.policy.steps == 50


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"action": 7}, "unknown action 7"),
        ({"reward": 3.0}, "reward"),
        ({"probability": 0.0}, r"probability must be a positive number and at most 1, got probability=0\.0"),
        ({"eligible": [1]}, r"action 0 was not eligible: expected one of \(1,\)"),
        ({"context": [0.5]}, "context has 1 value"),
    ],
)
def test_invalid_input_names_the_value_and_changes_nothing(given: dict[str, Any], message: str) -> None:
    apprentice = releaf.Apprentice(linear())
    watch(apprentice, rows(20, 8, 0.5))
    before = apprentice.to_bytes()
    arguments: dict[str, Any] = {"context": [0.5, 0.5], "action": 0, "reward": 1.0, **given}
    with pytest.raises(ValueError, match=message):
        apprentice.observe(**arguments)
    assert apprentice.to_bytes() == before


def test_only_a_learner_can_watch() -> None:
    with pytest.raises(TypeError, match=r"policy must be a learner, such as releaf\.AdaptiveReleaf\(…\), got 'LinUCB'"):
        releaf.Apprentice("LinUCB")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="warm_up must be a whole number of at least 0, got warm_up=-1"):
        releaf.Apprentice(linear(), warm_up=-1)


def test_a_saved_apprentice_continues_exactly(tmp_path: Path) -> None:
    apprentice, log = releaf.Apprentice(releaf.AdaptiveReleaf(2, 2, seed=0), warm_up=5), rows(80, 9, 0.6)
    watch(apprentice, log[:40])
    apprentice.save(tmp_path / "watching.releaf")
    loaded = releaf.load(tmp_path / "watching.releaf")
    watch(apprentice, log[40:])
    watch(loaded, log[40:])
    assert loaded.report() == apprentice.report()
    assert releaf.from_bytes(loaded.to_bytes()).to_bytes() == apprentice.to_bytes()


def test_the_report_shows_itself() -> None:
    apprentice = releaf.Apprentice(releaf.LinUCB(["<wait>", "treat"], features=2))
    assert "unknown" in apprentice.report().text
    apprentice.observe([0.1, 0.2], "<wait>", 1.0, probability=0.5)
    report = apprentice.report()
    assert repr(report) == report.text
    assert report.text.startswith("LinUCB, apprentice in 1 compared decisions\n  agreement")
    assert report._repr_html_().startswith("<p>LinUCB, apprentice in 1 compared decisions</p><table>")
    assert report.to_dict()["can_promote"] is False
    assert report.to_dict()["choices"] == report.choices


def test_with_a_wrong_model_the_estimate_is_unbiased_and_the_bounds_hold_while_one_peeks() -> None:
    """Action 0 earns 0.4 and action 1 earns 0.5; the learner takes 1, and estimates 0.9 and 0.1."""
    draw, misses, estimates, repetitions = np.random.default_rng(10), 0, [], 100
    for _ in range(repetitions):
        comparison, missed = ApprenticeComparison(), False
        for first, luck in draw.random((300, 2)):
            taken, chance = (0, 0.7) if first < 0.7 else (1, 0.3)
            reward = float(luck < (0.4, 0.5)[taken])
            comparison.add(taken, 1, reward, chance, {0: 0.9, 1: 0.1})
            missed |= not comparison.low <= 0.07 <= comparison.high  # 0.5 - (0.7 · 0.4 + 0.3 · 0.5)
        misses += missed
        estimates.append(comparison.difference)
    assert misses <= 0.05 * repetitions
    known = np.array([estimate for estimate in estimates if estimate is not None])
    assert len(known) == repetitions
    assert abs(known.mean() - 0.07) < 3 * known.std() / np.sqrt(repetitions)


@pytest.mark.parametrize("force", [True, False])
def test_a_promoted_learner_is_not_promoted_again(force: bool) -> None:
    apprentice = releaf.Apprentice(releaf.LinUCB(2, 1))
    assert apprentice.promote(force=True) is apprentice.policy
    with pytest.raises(ValueError, match=r"was promoted already and decides now: use apprentice\.policy"):
        apprentice.promote(force=force)
