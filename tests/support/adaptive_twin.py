"""Streams for AdaptiveReleaf with all kinds of features, its state, and a run in lock step with its plain twin."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np
import pytest
from plain_adaptive import PlainAdaptive
from plain_levels import Features

import releaf
from releaf.core.adaptive.state import NONE, STARTED
from releaf.core.runtime.jit import IS_COMPILED

NUMBERS = releaf.Schema(a=releaf.Continuous(), b=releaf.Continuous(), c=releaf.Continuous())
MIXED = releaf.Schema(
    size=releaf.Continuous(),
    age=releaf.Continuous(0, 100, missing=True),
    kind=releaf.Categorical(*"abcde"),
    shop=releaf.Categorical(*range(40)),
    known=releaf.Boolean(missing=True),
)
MANY = releaf.Schema({f"x{place}": releaf.Continuous() for place in range(30)})
HUGE = releaf.Schema(size=releaf.Continuous(), customer=releaf.Categorical(*range(5_000)))
SCHEMAS = {"numbers": NUMBERS, "mixed": MIXED, "many": MANY, "huge": HUGE}


def stream(kind: str, steps: int, actions: int = 2, seed: int = 0) -> tuple[Any, Any]:
    """Contexts, and rewards in eighths, whose sums are exact in every order; pairs of features interact."""
    draw, schema = np.random.default_rng(seed), SCHEMAS[kind]
    places = draw.random((steps, len(schema)))
    places[:, 0] = np.round(places[:, 0] * 6) / 8  # with ties
    gone = draw.random(places.shape) < 0.2
    contexts = [
        [_value(feature, place, is_gone) for feature, place, is_gone in zip(schema.features, row, missing, strict=True)]
        for row, missing in zip(places, gone, strict=True)
    ]
    last = np.where(gone[:, 1], 0.5, places[:, -1]) if kind == "mixed" else places[:, -1]
    score = np.where((places[:, 0] > 0.4) ^ (places[:, 1] > 0.6), 0.8, 0.2)
    score += 0.3 * np.cos(40 * np.floor(40 * places[:, -2])) + 0.3 * (last > 0.7)
    means = np.stack([score, 1.0 - score, np.full(steps, 0.5), 0.2 + 0.6 * places[:, 1]][:actions], axis=1)
    noisy = np.clip(means + draw.normal(0.0, 0.15, means.shape), 0.0, 1.0)
    return contexts, np.round(noisy * 8) / 8


def _value(feature: Any, place: float, is_gone: bool) -> Any:
    if feature.missing and is_gone:
        return None
    if isinstance(feature, releaf.Categorical):
        return feature.values[int(place * len(feature.values))]
    if isinstance(feature, releaf.Boolean):
        return bool(place > 0.5)
    return feature.low + (feature.high - feature.low) * place


def twin_of(bandit: releaf.AdaptiveReleaf) -> PlainAdaptive:
    """The plain twin of a learner that knows nothing yet."""
    optimism, floor, rule, limit, width, window, most, stop_after = bandit._params(len(bandit.actions))
    features = Features(
        [feature.categories for feature in bandit.schema.features],
        [bool(lowest < 0.0) for lowest in bandit.schema.lowest()],
    )
    assert bandit.seed is not None
    return PlainAdaptive(
        len(bandit.actions),
        features,
        seed=bandit.seed,
        optimism=optimism,
        floor=bandit._state.floors.tolist() if floor < 0.0 else floor,
        rule=int(rule),
        limit=limit,
        width=width,
        window=int(window),
        most=most,
        stop_after=int(stop_after),
    )


def assert_same_decision(
    choice: releaf.Decision,
    bandit: Any,
    twin: PlainAdaptive,
    eligible: list[int] | None = None,
    label_cost: float = 1.0,
) -> None:
    expected = twin.decide(choice.context, eligible, label_cost)
    assert bandit._state.estimates.tolist() == pytest.approx(expected.estimates.tolist(), abs=1e-6)
    assert (choice.index, choice.explored, choice.wants_reward) == expected[:3]
    assert choice.probability == pytest.approx(expected.probability, abs=1e-9)


def run_in_lock_step(
    bandit: Any, contexts: Any, rewards: Any, late: int = 0, share: float | None = None, label_costs: Any = None
) -> PlainAdaptive:
    """Let a learner and its twin decide and learn; ``late`` rewards wait, and are learnt in a random order.

    If a ``share`` is given, each action is eligible that often; ``label_costs`` are those of the decisions.
    """
    twin, draw = twin_of(bandit), np.random.default_rng(7)
    waiting: list[tuple[releaf.Decision, Any]] = []
    costs = repeat(None, len(contexts)) if label_costs is None else label_costs
    for context, row, label_cost in zip(contexts, rewards, costs, strict=True):
        places = some_of(len(bandit.actions), share, draw) if share is not None else None
        eligible = None if places is None else [bandit.actions[place] for place in places]
        choice = bandit.decide(context, eligible, label_cost=label_cost)
        assert_same_decision(choice, bandit, twin, places, 1.0 if label_cost is None else label_cost)
        if choice.wants_reward:
            waiting.append((choice, row))
        while len(waiting) > late:
            known, gained = waiting.pop(draw.integers(len(waiting)))
            learnt = dict(enumerate(gained)) if bandit.wants_all else {known.index: gained[known.index]}
            if known.eligible is not None:
                learnt = {place: gain for place, gain in learnt.items() if bandit.actions[place] in known.eligible}
            bandit.learn(known, list(gained) if bandit.wants_all else gained[known.index])
            twin.learn(known.context, learnt)
    return twin


def some_of(actions: int, share: float, draw: np.random.Generator) -> list[int]:
    """Some actions in order, at least one."""
    places = np.flatnonzero(draw.random(actions) < share).tolist()
    return places or [int(draw.integers(actions))]


def fits_under_way(bandit: Any) -> int:
    """Number of actions whose fit has started and has not taken effect."""
    return sum(sample.counts[STARTED] != NONE for sample in bandit._engine.samples)


def arrays_of(bandit: Any) -> dict[str, bytes]:
    """All that a learner has learnt, without its name and its pending decisions."""
    return {name: array.tobytes() for name, array in bandit._arrays().items()}


def steps_of(count: int) -> int:
    """Fewer steps where kernels run as plain Python."""
    return count if IS_COMPILED else min(count, 120)
