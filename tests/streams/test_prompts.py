"""`streams.prompts`: models of different price and quality, late and missing judgments, and a new version."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import releaf
from releaf import streams
from releaf.streams.prompts import MODELS, OUTPUT_TOKENS

STREAM = streams.prompts(20_000, seed=3)
BEFORE, AFTER = slice(0, STREAM.replaced), slice(STREAM.replaced, None)


def column(name: str) -> Any:
    return np.array([prompt[name] for prompt in STREAM.contexts])


def test_equal_seeds_give_equal_streams_and_other_seeds_do_not() -> None:
    one, same, other = streams.prompts(200, seed=5), streams.prompts(200, seed=5), streams.prompts(200, seed=6)
    assert one.contexts == same.contexts
    for name in ("costs", "expected", "rewards", "eligible", "delays", "is_judged"):
        np.testing.assert_array_equal(getattr(one, name), getattr(same, name))
    assert one.contexts != other.contexts


def test_policies_take_its_contexts_costs_and_eligible_models() -> None:
    bandit = releaf.AdaptiveReleaf(STREAM.actions, STREAM.features, seed=0, spend_budget=5.0)
    part = slice(0, 500)
    trace = releaf.replay(
        bandit, STREAM.contexts[part], STREAM.rewards[part], eligible=STREAM.eligible[part], cost=STREAM.costs[part]
    )
    assert trace.costs is not None
    np.testing.assert_array_equal(trace.costs, STREAM.costs[np.arange(500), trace.actions])
    assert STREAM.eligible[np.arange(500), trace.actions].all()


def test_an_answer_costs_its_tokens_and_those_of_the_prompt() -> None:
    large, code = MODELS[-1], np.flatnonzero(column("kind") == "code")
    expected = (column("tokens")[code] * large.price_in + OUTPUT_TOKENS[3] * large.price_out) / 1e6
    np.testing.assert_allclose(STREAM.costs[code, -1], expected)


def test_a_model_is_eligible_where_prompt_and_answer_fit_into_its_window() -> None:
    kinds = [("question", "summary", "extraction", "code", "mathematics").index(kind) for kind in column("kind")]
    for place, model in enumerate(MODELS):
        np.testing.assert_array_equal(
            STREAM.eligible[:, place], column("tokens") + OUTPUT_TOKENS[kinds] <= model.window
        )
    assert STREAM.eligible[:, -1].all()
    assert not STREAM.eligible[:, 0].all()


def test_judgments_follow_the_expected_quality() -> None:
    for place in range(len(MODELS)):
        chances, judged = STREAM.expected[:, place], STREAM.rewards[:, place]
        spread = np.sqrt((chances * (1 - chances)).sum())
        assert abs((judged - chances).sum()) < 4 * spread


def test_the_largest_model_is_the_best_on_average_but_not_the_best_value() -> None:
    means, costs = STREAM.expected.mean(axis=0), STREAM.costs.mean(axis=0)
    assert means.argmax() == costs.argmax() == 3
    is_code = (column("kind") == "code") & (np.arange(len(STREAM)) < STREAM.replaced)
    assert STREAM.expected[is_code, 1].mean() > STREAM.expected[is_code, 2].mean()  # and at half the price
    assert costs[1] < 0.55 * costs[2]


def test_the_new_version_is_better_at_mathematics_and_worse_at_questions_and_others_stay() -> None:
    kinds = column("kind")
    for kind, sign in (("mathematics", 1), ("code", 1), ("question", -1), ("summary", -1)):
        change = STREAM.expected[AFTER][kinds[AFTER] == kind].mean(axis=0)
        change -= STREAM.expected[BEFORE][kinds[BEFORE] == kind].mean(axis=0)
        assert sign * change[0] > 0.05
        assert np.abs(change[1:]).max() < 0.02


def test_without_a_replacement_the_models_stay_the_same() -> None:
    kept, changed = streams.prompts(1_000, replaced=None, seed=1), streams.prompts(1_000, replaced=0.0, seed=1)
    assert (kept.replaced, changed.replaced) == (1_000, 0)
    np.testing.assert_array_equal(kept.expected[:, 1:], changed.expected[:, 1:])
    assert (kept.expected[:, 0] != changed.expected[:, 0]).any()


def test_quality_does_not_depend_on_the_hour() -> None:
    hours = column("hour")
    means = np.array([STREAM.expected[BEFORE][hours[BEFORE] == hour].mean(axis=0) for hour in range(24)])
    assert np.ptp(means, axis=0).max() < 0.1


def test_judgments_are_late_and_some_never_come() -> None:
    assert STREAM.delays.mean() == pytest.approx(49.5, rel=0.05)  # of whole prompts
    assert (~STREAM.is_judged).mean() == pytest.approx(0.1, abs=0.01)
    at_once = streams.prompts(100, delay=0.0, unjudged=0.0)
    assert not at_once.delays.any()
    assert at_once.is_judged.all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, got steps=0"),
        ({"replaced": 1.5}, "replaced must be a share from 0 to 1, or None, got replaced=1.5"),
        ({"delay": -1.0}, "delay must be a number of prompts, 0 or more, got delay=-1.0"),
        ({"unjudged": 2.0}, "unjudged must be a share from 0 to 1, got unjudged=2.0"),
    ],
)
def test_wrong_values_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        streams.prompts(**options)
