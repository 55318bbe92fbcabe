"""Adding and removing actions, for every policy."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
from conformance import LOGGED, NAMES, POLICIES, make, refused, takes
from learner_comparison import full_state, plain, run_steps, stream

import releaf
from releaf.core.adaptive.state import ROWS
from releaf.core.releaf.engine import EngineSettings
from releaf.core.releaf.state import HASHED
from releaf.ensembles.ensemble import Ensemble

CONTEXTS, REWARDS = stream(600, actions=3, seed=4)
ACTIONS = ["wait", "treat", "refer"]
FORGETFUL = [policy for policy in POLICIES if not issubclass(policy, Ensemble)]
all_but_ensembles = pytest.mark.parametrize("policy", FORGETFUL, ids=[policy.__name__ for policy in FORGETFUL])
all_that_read_logs = pytest.mark.parametrize("policy", LOGGED, ids=[policy.__name__ for policy in LOGGED])
each_action = pytest.mark.parametrize("removed", range(3), ids=ACTIONS)
ROWS_OF_SAMPLES = ("sample_contexts", "sample_rewards", "sample_keys", "sample_numbers", "sample_steps")
# What belongs to no action: the time, the generator, and the contexts that came.
SHARED = ("clock", "seen", "fresh_knots", "fresh_levels", "founders", "arrivals")


def experienced(policy: type[Any], **further: Any) -> Any:
    bandit = make(policy, ACTIONS, **further)
    run_steps(bandit, CONTEXTS[:300], REWARDS[:300])
    return bandit


def without(rewards: Any, removed: int) -> Any:
    return np.delete(rewards, removed, axis=-1)


def wide_hash(**further: Any) -> Any:
    """A RELEAF whose cells are hashed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("releaf.policies.partitioned.EngineSettings", partial(EngineSettings, dense_limit=0))
        return releaf.Releaf(ACTIONS, 3, seed=6, **further)


# --- an action is removed -------------------------------------------------------------------------------------


def test_all_policies_are_looked_at() -> None:
    assert {"AdaptiveReleaf", "Releaf", "ContextualZooming", "LinTS"} <= {policy.__name__ for policy in FORGETFUL}
    assert len(FORGETFUL) >= 12
    assert len(LOGGED) >= 10


@each_action
@all_but_ensembles
def test_what_is_known_of_the_others_stays_bit_for_bit(policy: Any, removed: int) -> None:
    bandit = experienced(policy)
    before = bandit._arrays()
    bandit.remove_action(ACTIONS[removed])
    after = bandit._arrays()
    assert bandit.actions == tuple(np.delete(ACTIONS, removed))
    assert after.keys() == before.keys()
    if policy is releaf.ContextualZooming:
        return  # by its balls, below
    for name, array in before.items():
        if array.shape == after[name].shape:
            assert np.array_equal(after[name], array), name
            continue
        if name in ROWS_OF_SAMPLES:
            parts = np.split(array, np.cumsum(before["sample_counts"][:, ROWS])[:-1])
            assert np.array_equal(after[name], np.concatenate(parts[:removed] + parts[removed + 1 :])), name
            continue
        if name == "cells":  # after the least count of a cell the means, at the end some room
            rows = len(before["counts"]) // 3
            array, after[name] = array[: 4 * rows].reshape(rows, 4), after[name][: 3 * rows].reshape(rows, 3)
            assert np.array_equal(after[name][:, 0], after["counts"].reshape(rows, 2).min(axis=1))
            array, after[name] = array[:, 1:], after[name][:, 1:]
        if name in ("relevance", "counts", "sums") and array.ndim == 1 and array.size > 3:
            width = array.size // 3 if name == "relevance" else 1
            array = array.reshape((3, width) if name == "relevance" else (-1, 3))
            after[name] = after[name].reshape((2, width) if name == "relevance" else (-1, 2))
        (axis,) = (axis for axis in range(array.ndim) if array.shape[axis] != after[name].shape[axis])
        assert array.shape[axis] == 3
        for place, index in enumerate(other for other in range(3) if other != removed):
            assert np.array_equal(after[name].take(place, axis), array.take(index, axis)), name


def test_the_balls_of_the_other_actions_stay_and_those_of_the_removed_one_go() -> None:
    bandit = experienced(releaf.ContextualZooming)
    before = bandit.balls()
    assert {ball.action for ball in before} == {None, *ACTIONS}
    bandit.remove_action("treat")
    assert bandit.balls() == [ball for ball in before if ball.action != "treat"]


@each_action
@all_but_ensembles
def test_it_is_never_chosen_again_and_all_goes_on(policy: Any, removed: int) -> None:
    bandit = experienced(policy)
    bandit.remove_action(ACTIONS[removed])
    contexts, rewards = stream(2_000, actions=2, seed=7)
    twins = [bandit, copy.deepcopy(bandit), releaf.from_bytes(bandit.to_bytes())]
    one_by_one, again = run_steps(twins[0], contexts, rewards), run_steps(twins[2], contexts, rewards)
    trace = twins[1].replay(contexts, rewards)
    assert again == one_by_one
    left = set(ACTIONS) - {ACTIONS[removed]}
    taken = {decision[1] for decision in one_by_one}
    assert taken == left or (policy is releaf.JointReleaf and taken < left)  # without features of actions it needs one
    assert [bandit.actions[index] for index in trace.actions] == [decision[1] for decision in one_by_one]
    assert trace.explored.tolist() == [decision[2] for decision in one_by_one]
    assert full_state(twins[1]) == full_state(bandit) == full_state(twins[2])
    assert bandit.estimate(contexts[:5]).shape == (5, 2)


@all_but_ensembles
def test_an_action_that_comes_and_goes_leaves_no_trace(policy: Any) -> None:
    bandit = experienced(policy)
    before = bandit._arrays()
    bandit.add_action("test")
    bandit.remove_action("test")
    after = bandit._arrays()
    for name, array in before.items():
        if name == "clock" or (policy is releaf.HybridEpsilon and name == "arrivals"):
            continue  # which tell that one was added, since when exploration starts again
        assert np.array_equal(after[name], array), name
    assert before["clock"][:2].tolist() == after["clock"][:2].tolist()


@each_action
@all_that_read_logs
def test_without_an_action_that_nothing_was_learnt_of_it_is_as_if_it_had_never_been(policy: Any, removed: int) -> None:
    further = {"intervals": 4} if policy is releaf.CMABRL else {}  # which it would choose by the number of actions
    bandit, twin = make(policy, ACTIONS, **further), make(policy, np.delete(ACTIONS, removed).tolist(), **further)
    taken = [twin.actions[step % 2] for step in range(400)]
    for learner in (bandit, twin):
        learner.learn_log(CONTEXTS[:400], taken, REWARDS[:400, 0])
    bandit.remove_action(ACTIONS[removed])
    known, expected = bandit._arrays(), twin._arrays()
    for name, array in expected.items():  # but for what the decisions drew, which a log is not about
        if name not in ("clock", "taken", "tallies", "relevance", "added_at"):
            assert np.array_equal(known[name], array), name
    if policy.__name__ in ("AdaptiveReleaf", "GreedyReleaf", "LinUCB", "UCB1"):  # whose estimates need no draws
        assert np.array_equal(bandit.estimate(CONTEXTS[400:]), twin.estimate(CONTEXTS[400:]), equal_nan=True)


@all_but_ensembles
def test_added_again_it_starts_with_nothing_and_is_taken_when_it_is_good(policy: Any) -> None:
    bandit = experienced(policy)
    bandit.remove_action("treat")
    assert bandit.add_action("treat") == "treat"
    assert bandit.actions == ("wait", "refer", "treat")
    contexts, rewards = stream(3_000, actions=3, seed=5)
    rewards *= 0.5
    rewards[:, 2] = 1.0
    twin = releaf.from_bytes(bandit.to_bytes())
    trace = bandit.replay(contexts, rewards)
    assert np.array_equal(twin.replay(contexts, rewards).actions, trace.actions)
    late = float(np.mean(trace.actions[-500:] == 2))
    assert 0.25 < late < 0.42 if policy is releaf.Random else late > 0.8


def test_a_new_action_without_a_label_gets_a_number_that_is_free() -> None:
    bandit: Any = releaf.UCB1(3, 2)
    bandit.remove_action(0)
    assert bandit.actions == (1, 2)
    assert bandit.add_action() == 3
    bandit.remove_action(1)
    assert [bandit.add_action(), bandit.add_action()] == [4, 5]
    bandit.remove_action(4)
    assert bandit.add_action() == 4
    assert bandit.actions == (2, 3, 5, 4)


@pytest.mark.parametrize("observe", ["explored", "always", "all-actions", "labels"])
def test_hashed_cells_forget_an_action_too(observe: Any) -> None:
    bandit, twin = wide_hash(observe=observe), releaf.Releaf(ACTIONS, 3, seed=6, observe=observe)
    for learner in (bandit, twin):
        run_steps(learner, CONTEXTS[:300], REWARDS[:300])
        learner.remove_action("wait")
    assert (bandit._engine.clock(HASHED), twin._engine.clock(HASHED)) == (1, 0)
    again = releaf.from_bytes(bandit.to_bytes())
    expected = run_steps(twin, CONTEXTS[300:], REWARDS[300:, 1:])
    assert run_steps(bandit, CONTEXTS[300:], REWARDS[300:, 1:]) == expected
    assert run_steps(again, CONTEXTS[300:], REWARDS[300:, 1:]) == expected


# --- while decisions wait -------------------------------------------------------------------------------------


def everyone_waits(policy: type[Any]) -> list[Any]:
    """A learner for each way in which its rewards can be wanted."""
    if policy is releaf.AdaptiveReleaf:
        return [make(policy, ACTIONS), make(policy, ACTIONS, observe="labels"), make(policy, ACTIONS, label_budget=99)]
    if takes(policy, "control_divisor"):
        return [make(policy, ACTIONS, observe=observe) for observe in ("explored", "always", "all-actions", "labels")]
    return [make(policy, ACTIONS)]


@pytest.mark.parametrize("by_id", [False, True])
@each_action
@all_but_ensembles
def test_decisions_for_other_actions_still_wait(policy: Any, removed: int, by_id: bool) -> None:
    for bandit in everyone_waits(policy):
        waiting = [choice for choice in bandit.decide_many(CONTEXTS[:60]) if choice.wants_reward]
        gone = [choice for choice in waiting if choice.index == removed]
        bandit.remove_action(ACTIONS[removed])
        assert bandit.pending == len(waiting) - len(gone)
        again = releaf.from_bytes(bandit.to_bytes())
        for learner in (bandit, again):
            for choice in waiting:
                told = [0.25, 0.75] if learner.observation_mode in ("all-actions", "labels") else 0.5
                if choice in gone:
                    with pytest.raises(ValueError, match=r"is not pending: .* or its action was removed$"):
                        learner.learn(choice.id if by_id else choice, told)
                else:
                    learner.learn(choice.id if by_id else choice, told)
            assert learner.pending == 0
        assert full_state(again) == full_state(bandit)
        assert plain(again.decide(CONTEXTS[70])) == plain(bandit.decide(CONTEXTS[70]))


def test_a_waiting_decision_is_learnt_for_the_action_that_it_took() -> None:
    bandit = releaf.UCB1(ACTIONS, 1)
    choices = bandit.decide_many([[0.5]] * 3)
    bandit.remove_action("wait")
    bandit.learn(choices[2], 0.75)
    bandit.learn(choices[1], 0.25)
    assert dict(zip(bandit.actions, bandit.decide([0.5]).estimates or (), strict=True)) == {
        "treat": 0.25,
        "refer": 0.75,
    }


def test_decisions_of_before_an_action_was_added_expect_what_is_left_of_their_actions() -> None:
    bandit = releaf.Releaf(ACTIONS, 2, seed=0, observe="all-actions")
    early = next(choice for choice in (bandit.decide([0.2, 0.2]) for _ in range(99)) if choice.action == "wait")
    bandit.add_action("new")
    late = next(choice for choice in (bandit.decide([0.2, 0.2]) for _ in range(99)) if choice.action == "wait")
    bandit.remove_action("treat")
    bandit.learn(early, {"wait": 1.0, "refer": 0.0})
    with pytest.raises(ValueError, match="each of the 3 actions"):
        bandit.learn(late, [1.0, 0.0])
    bandit.remove_action("new")
    bandit.learn(late, {"refer": 0.5, "wait": 0.5})
    assert bandit.observations == 2


def test_two_learners_of_one_state_do_not_take_each_others_decisions_for_all_that() -> None:
    first = releaf.UCB1(ACTIONS, 1)
    second = releaf.from_bytes(first.to_bytes())
    choices = [learner.decide([0.5]) for learner in (first, second, first)]
    second.decide([0.5])
    for learner in (first, second):
        learner.remove_action("wait")
    second.learn(choices[2], 1.0)  # alike in all: the same context and action at the same step
    other = first.decide([0.5])
    second.decide([0.25])
    with pytest.raises(ValueError, match="was made by another learner"):
        second.learn(other, 1.0)


# --- refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES, ids=NAMES)
def test_unknown_actions_and_the_last_one_are_not_removed(policy: Any) -> None:
    bandit, single = make(policy), make(policy, ["only"])
    run_steps(bandit, CONTEXTS[:50], REWARDS[:50, :2])
    refused(bandit, lambda: bandit.remove_action("no"), "unknown action 'no': the actions are (0, 1)")
    refused(bandit, lambda: bandit.remove_action(None), "must be text, a number or a boolean, got None", TypeError)
    only = "action 'only' can't be removed: it is the only one"
    refused(single, lambda: single.remove_action("only"), only)
    if issubclass(policy, Ensemble):
        text = f"{policy.__name__} can't remove action 1, which its base classifiers vote for"
        refused(bandit, lambda: bandit.remove_action(1), text)
        assert bandit.actions == (0, 1)


# --- explanations ---------------------------------------------------------------------------------------------


def test_an_old_decision_is_explained_by_the_actions_of_its_time() -> None:
    bandit = experienced(releaf.Releaf)
    choice = next(choice for choice in map(bandit.decide, CONTEXTS[300:]) if not choice.explored)
    before = bandit.explain(choice)
    bandit.remove_action("wait")
    bandit.add_action("new")
    after = bandit.explain(choice)
    assert [(known.action, known.estimate) for known in after.actions] == [
        (known.action, known.estimate) for known in before.actions
    ]
    assert after.headline == before.headline
    assert all(f"\n  {action!r}: " in before for action in ACTIONS)


def test_the_adaptive_learner_explains_by_the_actions_of_now() -> None:
    bandit = experienced(releaf.AdaptiveReleaf)
    choices = {choice.action: choice for choice in map(bandit.decide, CONTEXTS[300:])}
    bandit.remove_action("wait")
    text = bandit.explain(choices["treat"]).text
    assert text.startswith(f"Decision {choices['treat'].id} chose 'treat'")
    assert "'wait'" not in text
    assert bandit.relevance().shape == (2, 3)
    assert list(bandit.relevant_features()) == list(bandit.effect(0)) == ["treat", "refer"]
    with pytest.raises(ValueError, match="unknown action 'wait'"):
        bandit.explain(choices["wait"])


# --- threads --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [releaf.Releaf, releaf.LinUCB, releaf.AdaptiveReleaf])
def test_actions_come_and_go_while_other_threads_decide(policy: Any) -> None:
    bandit = make(policy, ACTIONS)
    bandit.decide(CONTEXTS[0])

    def work(part: int) -> set[Any]:
        found = set()
        for context in CONTEXTS[part::3]:
            choice = bandit.decide(context)
            found.add(choice.action)
            assert choice._actions[choice.index] == choice.action
            bandit.learn_log([context], ["wait"], [0.5])
        return found

    with ThreadPoolExecutor(4) as pool:
        working = [pool.submit(work, part) for part in range(3)]
        for _ in range(100):
            bandit.remove_action("treat")
            bandit.add_action("treat")
        assert set.union(*(done.result() for done in working)) <= set(ACTIONS)
    assert bandit.actions == ("wait", "refer", "treat")
