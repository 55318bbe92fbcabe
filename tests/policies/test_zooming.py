"""Contextual zooming: balls computed by hand on two contexts, and against its plain twin."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_baselines import Zooming

import releaf

# ln T = ln 3, so conf = 0.99 / √(1 + n): at most 1 from n = 0 on, 1/2 from n = 3 on, 1/4 from n = 15 on.
BY_HAND = {"horizon": 3, "confidence": 0.99 / math.sqrt(math.log(3))}


def test_balls_on_two_contexts_worked_out_by_hand() -> None:
    """Two contexts, 0 and 1, as far apart as can be; action 0 earns 1 at context 0, action 1 at context 1.

    The first ball, of radius 1, is chosen until a smaller one holds the context and its action; each time it is
    chosen its conf is at most 1, so a ball of radius 1/2 starts. Once both actions have one at context 0:
    - of action 0, mean 1, its pre-index is 1 + 1/2 + conf;
    - of action 1, mean 0, 0 + 1/2 + conf; its index is below as soon as both were chosen as often.
    """
    bandit = releaf.ContextualZooming(2, 1, seed=0, lipschitz=1.0, **BY_HAND)  # type: ignore[arg-type]
    assert [(ball.action, ball.radius) for ball in bandit.balls()] == [(None, 1.0)]

    first = bandit.decide([0.0])
    assert first.probability == 0.5, "either action: both are in the first ball's domain"
    bandit.learn(first, float(first.index == 0))
    root, ball = bandit.balls()
    assert (root.chosen, root.mean) == (1, float(first.index == 0))
    assert (ball.action, ball.centre, ball.radius, ball.chosen) == (first.index, (0.0,), 0.5, 0)

    # The new ball's index is 1/2 + min(0 + 1/2 + 0.99, 1/2 + 1/2 + 0.99, the first ball's pre-index + 1) = 1.99;
    # the first ball's is 1 + mean + 1 + 0.99/√2 = 2.70 + mean: it is chosen, for the action that is left.
    second = bandit.decide([0.0])
    assert second.index == 1 - first.index
    assert second.probability == 1.0
    bandit.learn(second, float(second.index == 0))
    assert len(bandit.balls()) == 3
    assert bandit.balls()[0].chosen == 2

    # From now on only the two balls of radius 1/2 have context 0 in their domains, both with index 1.99.
    # Action 0, the first, is chosen and earns 1, so its index is 1/2 + 1 + 1/2 + 0.99/√2 = 2.70, then 2.57; after the
    # third time its conf is 0.495, and one of radius 1/4 takes over, with index 1/4 + 0 + 1/4 + 0.99 = 1.49.
    # Action 1, still at 1.99, is chosen and earns nothing: 1.70, then 1.57, then one of radius 1/4 takes over, whose
    # index is 1/4 + the pre-index 0.995 of the one around it = 1.245. So it is action 0 again: 2.20, and higher still.
    taken = []
    for _ in range(8):
        choice = bandit.decide([0.0])
        bandit.learn(choice, float(choice.index == 0))
        taken.append(choice.index)
    assert taken == [0, 0, 0, 1, 1, 1, 0, 0]
    for action, chosen in ((0, [3, 2]), (1, [3, 0])):
        mine = [ball for ball in bandit.balls() if ball.action == action]
        assert [ball.radius for ball in mine] == [0.5, 0.25]
        assert [ball.chosen for ball in mine] == chosen
        assert mine[0].mean == float(action == 0)

    # Context 1 is 1 away, outside of all balls but the first, which takes it up where it left.
    choice = bandit.decide([1.0])
    assert choice.probability == 0.5
    bandit.learn(choice, float(choice.index == 1))
    assert bandit.balls()[0].chosen == 3
    assert bandit.balls()[-1].centre == (1.0,)


def test_it_ends_up_taking_the_right_action_at_both_contexts() -> None:
    contexts = np.random.default_rng(0).integers(0, 2, (2_000, 1)).astype(float)
    rewards = np.column_stack([1 - contexts[:, 0], contexts[:, 0]])
    bandit = releaf.ContextualZooming(2, 1, seed=0, **BY_HAND)  # type: ignore[arg-type]
    assert releaf.replay(bandit, contexts, rewards).rewards[-1_500:].mean() > 0.99


@settings(max_examples=40, deadline=None)
@given(
    features=st.integers(1, 11),
    actions=st.integers(1, 3),
    lipschitz=st.sampled_from([0.2, 0.7, 1.5]),
    confidence=st.sampled_from([0.05, 0.3, 1.0]),
    horizon=st.sampled_from([None, 500]),
    seed=st.integers(0, 2**16),
)
def test_it_does_what_its_definition_says(
    features: int, actions: int, lipschitz: float, confidence: float, horizon: int | None, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    bandit = releaf.ContextualZooming(
        actions, features, seed=seed, lipschitz=lipschitz, confidence=confidence, horizon=horizon
    )
    plain = Zooming(actions, [0] * features, lipschitz, confidence, horizon)
    for step in range(150):
        context = generator.random(features)
        eligible = sorted({*np.flatnonzero(generator.random(actions) < 0.5).tolist(), step % actions})
        choice = bandit.decide(context, eligible=eligible)
        expected = plain.expect(context, eligible)
        assert choice.index in expected
        if len(expected) == 1:
            assert choice.probability == 1.0
        reward = float(generator.random())
        bandit.learn(choice, reward)
        plain.learn(context, choice.index, reward)
    balls = bandit.balls()
    assert [ball.action for ball in balls] == [ball.action for ball in plain.balls]
    assert [ball.radius for ball in balls] == [ball.radius for ball in plain.balls]
    assert [ball.chosen for ball in balls] == [ball.chosen for ball in plain.balls]
    assert [ball.mean for ball in balls] == pytest.approx([plain.mean(ball) for ball in plain.balls])


@settings(derandomize=True, deadline=None, max_examples=60)
@given(data=st.data())
def test_without_an_action_it_does_what_its_definition_says_without_its_balls(data: st.DataObject) -> None:
    features, actions = data.draw(st.integers(1, 3)), data.draw(st.integers(2, 4))
    lipschitz, confidence = data.draw(st.sampled_from([0.3, 1.0, 4.0])), data.draw(st.sampled_from([0.05, 0.3]))
    generator = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    bandit = releaf.ContextualZooming(actions, features, seed=0, lipschitz=lipschitz, confidence=confidence)
    plain = Zooming(actions, [0] * features, lipschitz, confidence, None)
    moments = data.draw(st.sets(st.integers(1, 149), max_size=actions - 1))
    for step in range(150):
        context = generator.random(features)
        choice = bandit.decide(context)
        assert choice.index in plain.expect(context)
        if step in moments:  # after the decision, whose ball is known until the reward comes
            removed = data.draw(st.sampled_from([index for index in range(plain.actions) if index != choice.index]))
            bandit.remove_action(bandit.actions[removed])
            plain.forget(removed)
        reward = float(generator.random())
        bandit.learn(choice, reward)
        plain.learn(context, bandit.actions.index(choice.action), reward)
    arms = [None if ball.action is None else bandit.actions.index(ball.action) for ball in bandit.balls()]
    assert arms == [ball.action for ball in plain.balls]
    assert [ball.radius for ball in bandit.balls()] == [ball.radius for ball in plain.balls]
    assert [ball.chosen for ball in bandit.balls()] == [ball.chosen for ball in plain.balls]


def test_categories_and_missing_values_are_near_only_to_themselves() -> None:
    schema = releaf.Schema(plan=releaf.Categorical("a", "b", "c"), age=releaf.Continuous(missing=True))
    bandit = releaf.ContextualZooming(1, schema, seed=0, lipschitz=0.9, confidence=0.01)
    plain = Zooming(1, [3, 0], 0.9, 0.01, None)
    generator = np.random.default_rng(2)
    for _ in range(200):
        age = None if generator.random() < 0.3 else float(generator.random())
        choice = bandit.decide([str(generator.choice(["a", "b", "c"])), age])
        plain.expect(choice.context)
        reward = float(generator.random())
        bandit.learn(choice, reward)
        plain.learn(choice.context, 0, reward)
    assert [ball.chosen for ball in bandit.balls()] == [ball.chosen for ball in plain.balls]


def test_late_rewards_start_no_ball_where_there_is_one() -> None:
    bandit = releaf.ContextualZooming(1, 1, seed=0, confidence=0.1)
    first, second = bandit.decide([0.5]), bandit.decide([0.5])
    bandit.learn(first, 1.0)
    bandit.learn(second, 1.0)
    balls = [(ball.radius, ball.centre) for ball in bandit.balls()]
    assert len(balls) == len(set(balls)) == 3


@pytest.mark.parametrize("lipschitz", [100.0, 1e4, 1e5])
def test_small_balls_are_found_again(lipschitz: float) -> None:
    """Balls so small that single precision, which most are ruled out by, can hardly tell them apart."""
    generator = np.random.default_rng(0)
    bandit = releaf.ContextualZooming(1, 1, seed=0, lipschitz=lipschitz, confidence=1e-6)
    plain = Zooming(1, [0], lipschitz, 1e-6, None)
    centres = generator.random(8)
    for _ in range(400):
        context = np.clip(generator.choice(centres) + generator.uniform(-1, 1, 1) / lipschitz, 0, 1)
        bandit.learn(bandit.decide(context), 0.5)
        plain.expect(context)
        plain.learn(context, 0, 0.5)
    assert [ball.chosen for ball in bandit.balls()] == [ball.chosen for ball in plain.balls]


def test_no_two_balls_of_a_size_hold_each_others_centre() -> None:
    generator = np.random.default_rng(3)
    bandit = releaf.ContextualZooming(2, 2, seed=0, confidence=0.1)
    releaf.replay(bandit, generator.random((3_000, 2)), generator.random((3_000, 2)))
    balls = bandit.balls()[1:]
    assert len(balls) > 100
    for place, ball in enumerate(balls):
        for other in balls[:place]:
            if (ball.action, ball.radius) == (other.action, other.radius):
                assert math.dist(ball.centre, other.centre) > ball.radius
