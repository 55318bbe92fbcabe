"""AdaptiveReleaf among threads and processes, and with actions that come and go while a fit is under way."""

from __future__ import annotations

import copy
import hashlib
import os
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from adaptive_twin import SCHEMAS, arrays_of, fits_under_way, stream
from learner_comparison import run_steps

import releaf
from releaf.core.adaptive import engine
from releaf.core.adaptive.fitting import fit
from releaf.core.adaptive.state import EFFECT, LEARNT, NONE, STARTED
from releaf.core.runtime.jit import IS_COMPILED

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="streams would take too long in plain Python")
LONG_FIT = 0.3  # seconds


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Small fits run in a thread, take a while, and set this event when they start."""
    event = threading.Event()

    def slow_fit(*given: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            event.set()
            time.sleep(LONG_FIT)
        return fit(*given)

    monkeypatch.setattr(engine, "AT_ONCE", 300)
    monkeypatch.setattr(engine, "fit", slow_fit)
    return event


def with_a_fit_under_way(started: threading.Event, actions: int = 2) -> tuple[Any, Any, Any]:
    """A learner while a fit of one of its actions runs in the thread, and what follows in its stream."""
    contexts, rewards = stream("mixed", 700, actions)
    bandit = releaf.AdaptiveReleaf(actions, SCHEMAS["mixed"], seed=2)
    for step in range(700):
        started.clear()
        bandit.replay(contexts[step : step + 1], rewards[step : step + 1])
        if step > 150 and started.wait(0.01) and fits_under_way(bandit):
            return bandit, contexts[step + 1 :], rewards[step + 1 :]
    raise AssertionError("no fit was under way")


def test_decisions_and_rewards_do_not_wait_for_a_fit(started: threading.Event) -> None:
    bandit, contexts, rewards = with_a_fit_under_way(started)
    begun = time.perf_counter()
    choice = bandit.decide(contexts[0])
    other = next(action for action in (0, 1) if bandit._engine.samples[action].counts[STARTED] == NONE)
    bandit.learn(choice, rewards[0, other], action=other)
    bandit.estimate(contexts[:10])
    assert time.perf_counter() - begun < LONG_FIT / 2
    assert fits_under_way(bandit)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_continues_while_a_fit_is_under_way(started: threading.Event) -> None:
    """Threads do not survive a fork: the child does the fit itself."""
    bandit, contexts, rewards = with_a_fit_under_way(started)
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of newer Pythons, which can't know what the child does
        child = os.fork()
    if child == 0:
        try:
            os.write(write, digest_of_run(bandit, contexts, rewards))
        finally:
            os._exit(0)
    os.close(write)
    expected = digest_of_run(bandit, contexts, rewards)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == expected
    os.waitpid(child, 0)


def digest_of_run(bandit: Any, contexts: Any, rewards: Any) -> bytes:
    return hashlib.sha256(repr((run_steps(bandit, contexts, rewards), arrays_of(bandit))).encode()).digest()


def test_threads_that_share_a_learner_lose_nothing() -> None:
    bandit = releaf.AdaptiveReleaf(3, SCHEMAS["mixed"], seed=0)
    contexts, rewards = stream("mixed", 1_200, actions=3)

    def work(part: int) -> list[int]:
        ids, waiting = [], []
        for context, row in zip(contexts[part::3], rewards[part::3], strict=True):
            choice = bandit.decide(context)
            ids.append(choice.id)
            waiting.append((choice, row[choice.index]))
            if len(waiting) > 5:
                bandit.learn(*waiting.pop(0))
        for late in waiting:
            bandit.learn(*late)
        return ids

    with ThreadPoolExecutor(3) as pool:
        found = sorted(number for ids in pool.map(work, range(3)) for number in ids)
    assert found == list(range(1, 1_201))
    assert bandit.observations == 1_200
    assert bandit.pending == 0
    again = releaf.from_bytes(bandit.to_bytes())
    made = [run_steps(one, contexts[:200], rewards[:200]) for one in (again, bandit)]
    # relevance is of the contexts seen until it was asked for
    without_relevance = [[decision[:-1] for decision in steps] for steps in made]
    assert without_relevance[0] == without_relevance[1]


def test_learners_in_several_threads_do_not_disturb_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share the thread of fits."""
    monkeypatch.setattr(engine, "AT_ONCE", 300)
    streams = [stream("mixed", 400, seed=seed) for seed in range(3)]

    def run(given: Any) -> Any:
        bandit = releaf.AdaptiveReleaf(2, SCHEMAS["mixed"], seed=1)
        return run_steps(bandit, *given), arrays_of(bandit)

    expected = [run(given) for given in streams]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(run, streams)) == expected


# --- actions that come and go -----------------------------------------------------------------------------------


def in_some_way_changed(bandit: Any, change: str) -> Any:
    busy = next(place for place, sample in enumerate(bandit._engine.samples) if sample.counts[STARTED] != NONE)
    if change == "add":
        bandit.add_action()
    elif change == "remove the one":
        bandit.remove_action(bandit.actions[busy])
    else:
        bandit.remove_action(next(name for place, name in enumerate(bandit.actions) if place != busy))
    return bandit


@pytest.mark.parametrize("change", ["add", "remove the one", "remove another"])
def test_actions_may_change_while_a_fit_is_under_way(started: threading.Event, change: str) -> None:
    """As in a learner that was saved before or after, and does the fit anew."""
    bandit, contexts, _ = with_a_fit_under_way(started, actions=3)
    before, fits = copy.copy(bandit), fits_under_way(bandit)
    in_some_way_changed(bandit, change)
    assert fits_under_way(bandit) == fits - (change == "remove the one")
    after = copy.copy(bandit)
    in_some_way_changed(before, change)
    _, rewards = stream("mixed", 700, actions=4, seed=1)
    rewards = rewards[: len(contexts), : len(bandit.actions)]
    learners = bandit, before, after
    decisions = [run_steps(learner, contexts, rewards) for learner in learners]
    assert decisions[1:] == decisions[:1] * 2
    assert arrays_of(before) == arrays_of(after) == arrays_of(bandit)
    assert {decision[1] for decision in decisions[0]} == set(bandit.actions)


def test_a_fit_of_an_action_that_was_removed_is_not_that_of_its_successor(started: threading.Event) -> None:
    """The action that moves to its place keeps its own model until its own fit."""
    bandit, contexts, _ = with_a_fit_under_way(started, actions=3)
    busy = next(place for place, sample in enumerate(bandit._engine.samples) if sample.counts[STARTED] != NONE)
    expected = np.delete(bandit.estimate(contexts[:20]), busy, axis=1)
    counts = [int(sample.counts[LEARNT]) for sample in bandit._engine.samples]
    bandit.remove_action(bandit.actions[busy])
    assert [int(sample.counts[LEARNT]) for sample in bandit._engine.samples] == counts[:busy] + counts[busy + 1 :]
    for _ in range(3):
        bandit._do_what_is_due()
    assert np.array_equal(bandit.estimate(contexts[:20]), expected)


def test_a_new_action_is_learnt_by_fits_of_its_own() -> None:
    contexts, rewards = stream("mixed", 900, actions=3)
    bandit = releaf.AdaptiveReleaf(2, SCHEMAS["mixed"], seed=2)
    bandit.replay(contexts[:300], rewards[:300, :2])
    bandit.add_action()
    best = np.ones(len(rewards))  # the new action is the best in every context
    trace = bandit.replay(contexts[300:], np.column_stack([rewards[300:, :2], best[300:]]))
    assert np.mean(trace.actions[200:] == 2) > 0.9
    sample = bandit._engine.samples[2]
    assert sample.counts[EFFECT] > 0
    assert sample.counts[LEARNT] == np.sum(trace.actions == 2)
