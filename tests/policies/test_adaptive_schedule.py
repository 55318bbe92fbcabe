"""Fits of AdaptiveReleaf in a thread: the same decisions, bit for bit, however they run and wherever a learner goes."""

from __future__ import annotations

import copy
import itertools
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from adaptive_twin import SCHEMAS, arrays_of, fits_under_way, steps_of, stream
from learner_comparison import plain, run_steps

import releaf
from releaf.core.adaptive import engine
from releaf.core.adaptive.fit_jobs import FitJob
from releaf.core.adaptive.fitting import COARSE_LEAVES, fit
from releaf.core.adaptive.mixture import expert_weights
from releaf.core.adaptive.state import LEAF, SHARP_TREES, SMOOTH_TREES, STEADY_TREES
from releaf.core.adaptive.trees import TREE_COUNT
from releaf.core.runtime.jit import IS_COMPILED

RULES: dict[str, dict[str, Any]] = {
    "always": {},
    "budget": {"label_budget": 250},
    "window": {"forget": 80},
    "drift": {"forget": "auto"},
}


class CountedJob(FitJob):
    """A fit in a thread that is counted."""

    made = 0

    def __init__(self, fit: Callable[[], Any]) -> None:
        super().__init__(fit)
        CountedJob.made += 1


@pytest.fixture(autouse=True)
def small_fits_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "AT_ONCE", 150)
    monkeypatch.setattr(engine, "FitJob", CountedJob)
    CountedJob.made = 0


def learner(kind: str = "mixed", **further: Any) -> Any:
    return releaf.AdaptiveReleaf(2, SCHEMAS[kind], seed=2, **further)


def drifting(steps: int) -> tuple[Any, Any]:
    """A stream of which all rewards fall by three quarters halfway."""
    contexts, rewards = stream("mixed", steps)
    return contexts, np.where(np.arange(steps)[:, None] < steps // 2, 0.75, 0.0) + 0.25 * rewards


# --- replay ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("kind", ["mixed", "many"])
def test_one_by_one_and_a_replay_agree(kind: str, rule: dict[str, Any]) -> None:
    contexts, rewards = drifting(steps_of(500)) if kind == "mixed" else stream("many", steps_of(400))
    slow, fast = learner(kind, **rule), learner(kind, **rule)
    for start in range(0, len(contexts), 37):
        part = contexts[start : start + 37], rewards[start : start + 37]
        decisions = run_steps(slow, *part)
        trace = fast.replay(*part)
        assert [decision[1] for decision in decisions] == trace.actions.tolist()
        assert [decision[2] for decision in decisions] == trace.explored.tolist()
        assert arrays_of(slow) == arrays_of(fast)
        assert np.array_equal(slow.estimate(contexts[:20]), fast.estimate(contexts[:20]))
    assert CountedJob.made > (4 if IS_COMPILED else 0)


def test_large_fits_run_in_a_thread_without_being_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    contexts, rewards = stream("many", steps_of(600))
    slow, fast, threads = learner("many"), learner("many"), set()

    def watched(*given: Any) -> Any:
        threads.add(threading.current_thread().name.split("_")[0])
        return fit(*given)

    monkeypatch.setattr(engine, "fit", watched)
    decisions = run_steps(slow, contexts, rewards)
    assert [decision[1] for decision in decisions] == fast.replay(contexts, rewards).actions.tolist()
    assert arrays_of(slow) == arrays_of(fast)
    assert threads == {"MainThread", "releaf-fit"} or not IS_COMPILED


# --- when the thread runs ---------------------------------------------------------------------------------------


class AtOnce:
    """A fit that is done as soon as it starts."""

    def __init__(self, fit: Callable[[], Any]) -> None:
        self.done = fit()

    def result(self) -> Any:
        return self.done


class AtLast:
    """A fit that is done when it takes effect."""

    def __init__(self, fit: Callable[[], Any]) -> None:
        self.result = fit


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("job", [AtOnce, AtLast])
def test_it_makes_no_difference_when_a_fit_is_done(
    job: Any, rule: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rewards come late and in another order than the decisions."""
    contexts, rewards = drifting(steps_of(400))
    expected = run_late(learner(**rule), contexts, rewards)
    monkeypatch.setattr(engine, "FitJob", job)
    assert run_late(learner(**rule), contexts, rewards) == expected


def run_late(bandit: Any, contexts: Any, rewards: Any, late: int = 40) -> tuple[Any, Any]:
    """Decide, and learn each reward ``late`` decisions later at most, in a random order."""
    draw, decisions, waiting = np.random.default_rng(0), [], []
    for context, row in zip(contexts, rewards, strict=True):
        choice = bandit.decide(context)
        decisions.append(plain(choice)[:-1])  # relevance is of the contexts seen when it was last looked at
        if choice.wants_reward:
            waiting.append((choice.id, row[choice.index]))
        if len(waiting) > late:
            bandit.learn(*waiting.pop(draw.integers(len(waiting))))
    return decisions, arrays_of(bandit)


# --- copies at any point ----------------------------------------------------------------------------------------

WAYS: dict[str, Callable[[Any], Any]] = {
    "bytes": lambda bandit: releaf.from_bytes(bandit.to_bytes()),
    "pickle": lambda bandit: pickle.loads(pickle.dumps(bandit)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_saved_learner_continues_exactly_from_any_point(rule: dict[str, Any]) -> None:
    """Also between the start and the effect of a fit, and with rewards that are still to come."""
    contexts, rewards = drifting(steps_of(360))
    original, ways = learner(**rule), itertools.cycle(WAYS.values())
    copies: list[tuple[int, Any]] = []
    decisions, waiting, under_way = [], [], 0
    for step, (context, row) in enumerate(zip(contexts, rewards, strict=True)):
        if step % 7 == 0 or (step % 2 == 0 and fits_under_way(original)):
            copies.append((step, next(ways)(original)))
            under_way += fits_under_way(original)
        choice = original.decide(context)
        decisions.append(plain(choice)[:-1])  # relevance is of the contexts seen when it was last looked at
        if choice.wants_reward:
            waiting.append((choice.id, row[choice.index]))
        if len(waiting) > 3:
            original.learn(*waiting.pop(0))
    assert under_way > 10 or not IS_COMPILED
    expected = arrays_of(original)
    for step, duplicate in copies:
        later = zip(contexts[step:], rewards[step:], decisions[step:], strict=True)
        owed = [(number, rewards[number - 1][pending[1]]) for number, pending in duplicate._pending.items()]
        for context, row, decision in later:
            choice = duplicate.decide(context)
            assert plain(choice)[:-1] == decision
            if choice.wants_reward:
                owed.append((choice.id, row[choice.index]))
            if len(owed) > 3:
                duplicate.learn(*owed.pop(0))
        assert arrays_of(duplicate) == expected


# --- cost -----------------------------------------------------------------------------------------------------


def line_with_noise(steps: int) -> tuple[Any, Any]:
    """Rewards of 0 and 1 whose chance is a line of one feature: trees find nothing but noise."""
    draw = np.random.default_rng(3)
    contexts = draw.random((steps, 4))
    chance = np.stack([0.2 + 0.6 * contexts[:, 0], 0.8 - 0.6 * contexts[:, 0]], axis=1)
    return contexts, (draw.random((steps, 2)) < chance).astype(float)


@pytest.mark.skipif(not IS_COMPILED, reason="thousands of steps")
def test_trees_that_count_nothing_are_coarse_and_walked_by_no_decision() -> None:
    contexts, rewards = line_with_noise(6_000)
    bandit = releaf.AdaptiveReleaf(2, 4, seed=0)
    bandit.replay(contexts, rewards)
    for action, model in enumerate(bandit._engine.models):
        assert not expert_weights(bandit._state, action)[[SHARP_TREES, SMOOTH_TREES, STEADY_TREES]].any()
        nodes_of_a_tree = len(model.nodes) / TREE_COUNT
        assert nodes_of_a_tree < 2 * COARSE_LEAVES * 1.25  # a leaf less than twice the fewest rewards is not split
    before = bandit._state.leaves.copy()
    estimates = [bandit.decide(context).estimates for context in contexts[:50]]
    assert (bandit._state.leaves == before).all()
    kept = [place for place, row in enumerate(estimates) if row is not None]
    assert bandit.estimate(contexts[kept]).tolist() == [list(estimates[place] or ()) for place in kept]


@pytest.mark.skipif(not IS_COMPILED, reason="thousands of steps")
def test_trees_that_count_are_grown_to_the_end() -> None:
    draw = np.random.default_rng(4)
    contexts = draw.random((3_000, 4))
    right = (contexts[:, 0] > 0.5) ^ (contexts[:, 1] > 0.5) ^ (contexts[:, 2] > 0.5)
    bandit = releaf.AdaptiveReleaf(2, 4, seed=0)
    bandit.replay(contexts, np.stack([right, ~right], axis=1).astype(float))
    for action, sample in enumerate(bandit._engine.samples):
        assert expert_weights(bandit._state, action)[SHARP_TREES:].any()
        assert sample.counts[LEAF] == 1
