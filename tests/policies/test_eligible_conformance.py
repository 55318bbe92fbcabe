"""Conformance suite of decisions among some of the actions, run over every policy."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance import NAMES, POLICIES, VARIANT_NAMES, VARIANTS, is_ensemble, make, refused, takes, wanted
from learner_comparison import full_state, plain, run_steps, stream

import releaf
from releaf.core.runtime import state_file
from releaf.policies.previews import preview_states

ACTIONS = ("wait", "treat", "test", "send home", "call")
CONTEXTS, REWARDS = stream(500, 3, len(ACTIONS), seed=4)
every_policy = pytest.mark.parametrize("policy", [*POLICIES, *VARIANTS], ids=[*NAMES, *VARIANT_NAMES])


def masks_of(steps: int, actions: int = len(ACTIONS), seed: int = 1) -> Any:
    """Random masks: some with all actions, some with a single one, and never with none."""
    draw = np.random.default_rng(seed)
    masks = draw.random((steps, actions)) < draw.choice([0.1, 0.5, 1.0], (steps, 1))
    masks[np.arange(steps), draw.integers(0, actions, steps)] = True
    return masks


MASKS = masks_of(len(CONTEXTS))


def names_in(mask: Any) -> list[str]:
    return [name for name, is_eligible in zip(ACTIONS, mask, strict=True) if is_eligible]


def run_eligible_steps(bandit: Any, contexts: Any, rewards: Any, masks: Any) -> list[tuple[Any, ...]]:
    decisions = []
    for context, row, mask in zip(contexts, rewards, masks, strict=True):
        choice = bandit.decide(context, eligible=[bandit.actions[place] for place in np.flatnonzero(mask)])
        if choice.wants_reward:
            bandit.learn(choice, wanted(bandit, row, choice))
        decisions.append((*plain(choice), choice.eligible))
    return decisions


_LEARNT: dict[str, bytes] = {}


def learnt(policy: Any, **further: Any) -> Any:
    """A learner that has lived through restricted decisions; each call returns a copy."""
    key = f"{policy.__name__} {getattr(policy, 'observe', '')} {further}"
    if key not in _LEARNT:
        bandit = make(policy, ACTIONS, **further)
        bandit.replay(CONTEXTS[:200], REWARDS[:200], eligible=MASKS[:200])
        _LEARNT[key] = bandit.to_bytes()
    return releaf.from_bytes(_LEARNT[key])


@every_policy
def test_it_takes_eligible_actions_only_and_names_them(policy: Any) -> None:
    bandit = make(policy, ACTIONS)
    for context, row, mask in zip(CONTEXTS, REWARDS, MASKS, strict=True):
        choice = bandit.decide(context, eligible=names_in(mask)[::-1])
        assert choice.action in names_in(mask)
        assert choice.eligible == (None if mask.all() else tuple(names_in(mask)))
        assert (choice.estimates is None) == choice.explored
        assert choice.estimates is None or np.isfinite(choice.estimates).all()
        if choice.wants_reward:
            bandit.learn(choice, wanted(bandit, row, choice))


@every_policy
@pytest.mark.parametrize("actions", [2, 5])
def test_a_replay_with_a_mask_is_the_same_as_step_by_step(policy: Any, actions: int) -> None:
    contexts, rewards = stream(400, 4, actions, seed=8)
    masks = masks_of(400, actions, seed=2)
    one_by_one, at_once, parts = (make(policy, actions, 4) for _ in range(3))
    decisions = run_eligible_steps(one_by_one, contexts, rewards, masks)
    trace = releaf.replay(at_once, contexts, rewards, eligible=masks)
    assert trace.actions.tolist() == [decision[1] for decision in decisions]
    assert trace.explored.tolist() == [decision[2] for decision in decisions]
    assert trace.observed.tolist() == [decision[3] for decision in decisions]
    for rows in (slice(0, 1), slice(1, 65), slice(65, 400)):
        releaf.replay(parts, contexts[rows], rewards[rows], eligible=masks[rows])
    assert full_state(at_once) == full_state(one_by_one) == full_state(parts)


@every_policy
def test_a_mask_of_all_actions_changes_nothing(policy: Any) -> None:
    free, masked, replayed = (make(policy, ACTIONS) for _ in range(3))
    decisions = run_steps(free, CONTEXTS[:200], REWARDS[:200])
    everything = np.ones((200, len(ACTIONS)), dtype=bool)
    found = run_eligible_steps(masked, CONTEXTS[:200], REWARDS[:200], everything)
    assert found == [(*decision, None) for decision in decisions]
    releaf.replay(replayed, CONTEXTS[:200], REWARDS[:200], eligible=everything)
    assert full_state(free) == full_state(masked) == full_state(replayed)


@every_policy
def test_after_a_restricted_decision_all_actions_are_eligible_again(policy: Any) -> None:
    bandit = learnt(policy)
    bandit.decide(CONTEXTS[200], eligible=["call"])
    bandit.decide_many(CONTEXTS[201:210], eligible=["call", "wait"])
    bandit.replay(CONTEXTS[210:220], REWARDS[210:220], eligible=MASKS[210:220])
    twin = releaf.from_bytes(bandit.to_bytes())
    assert plain(bandit.decide(CONTEXTS[220])) == plain(twin.decide(CONTEXTS[220]))
    assert bandit.decide(CONTEXTS[220]).eligible is None


@every_policy
def test_many_decisions_with_a_mask_are_those_of_one_by_one(policy: Any) -> None:
    bandit, twin = learnt(policy), learnt(policy)
    for learner in (bandit, twin):
        learner.preview(CONTEXTS[0])  # AdaptiveReleaf finds relevance at the first decision after it was loaded
    many = bandit.decide_many(CONTEXTS[200:260], eligible=MASKS[200:260])
    one_by_one = [
        twin.decide(context, eligible=names_in(mask))
        for context, mask in zip(CONTEXTS[200:260], MASKS[200:260], strict=True)
    ]
    assert [plain(choice) for choice in many] == [plain(choice) for choice in one_by_one]
    assert many.eligible == [choice.eligible for choice in many] == [choice.eligible for choice in one_by_one]
    assert full_state(bandit) == full_state(twin)


@every_policy
def test_names_for_all_rows_names_by_row_and_a_mask_say_the_same(policy: Any) -> None:
    masks = np.repeat([[True, False, True, False, False]], 20, axis=0)
    forms: list[Any] = [masks, ["wait", "test"], ("test", "wait"), np.array(["wait", "test"])]
    forms.append([["wait", "test"]] * 20)
    decided = [
        [plain(choice) for choice in learnt(policy).decide_many(CONTEXTS[200:220], eligible=form)] for form in forms
    ]
    assert all(found == decided[0] for found in decided)
    some = learnt(policy).decide_many(CONTEXTS[200:203], eligible=[None, {"call"}, ACTIONS])
    assert some.eligible == [None, ("call",), None]
    assert learnt(policy).decide_many(CONTEXTS[:0], eligible=["call"]).eligible == []


@every_policy
def test_a_preview_among_eligible_actions_is_the_decision_and_leaves_no_trace(policy: Any) -> None:
    bandit = learnt(policy)
    before = full_state(bandit)
    seen = bandit.preview(CONTEXTS[200], eligible=["treat", "call"])
    assert full_state(bandit) == before
    choice = bandit.decide(CONTEXTS[200], eligible=["treat", "call"])
    assert (plain(seen), seen.eligible) == (plain(choice), ("treat", "call"))


@every_policy
def test_previewed_actions_with_a_mask_are_those_of_previews_one_by_one(policy: Any) -> None:
    bandit, expected = learnt(policy), []
    states = preview_states(3, 60).tolist()
    for context, mask, state in zip(CONTEXTS[200:260], MASKS[200:260], states, strict=True):
        twin = copy.deepcopy(bandit)
        twin.set_random_state(state)
        expected.append(twin.preview(context, eligible=names_in(mask)).index)
    before = full_state(bandit)
    assert bandit.preview_actions(CONTEXTS[200:260], seed=3, eligible=MASKS[200:260]).tolist() == expected
    assert full_state(bandit) == before


@every_policy
def test_probabilities_are_exact_among_the_eligible_actions(policy: Any) -> None:
    """The share of draws that take an action is the probability that is told with it, and these add up to 1."""
    bandit = learnt(policy)
    sets = (["wait", "test", "call"], ["treat", "call"], ["test"])
    for context, eligible in zip(CONTEXTS[200:203], sets, strict=True):
        told: dict[str, set[float | None]] = {}
        for state in preview_states(5, 200).tolist():
            bandit.set_random_state(state)
            seen = bandit.preview(context, eligible=eligible)
            told.setdefault(seen.action, set()).add(seen.probability)
        assert set(told) <= set(eligible)
        if any(None in chances for chances in told.values()):
            assert policy.__name__ in ("CMABRL", "Releaf", "GreedyReleaf")
            continue
        assert all(len(chances) == 1 for chances in told.values())
        chance = {name: next(iter(chances)) for name, chances in told.items()}
        draws = bandit.preview_actions(np.repeat(context[None], 2_000, axis=0), seed=6, eligible=eligible)
        for name, probability in chance.items():
            assert probability is not None
            noise = math.sqrt(probability * (1 - probability) / 2_000)
            assert np.mean(draws == ACTIONS.index(name)) == pytest.approx(probability, abs=4.5 * noise + 1e-9)
        rare = 1.0 - sum(probability or 0.0 for probability in chance.values())
        assert -1e-6 <= rare < 0.06  # of actions that none of the few draws took


@every_policy
def test_the_only_eligible_action_is_certain_and_no_exploration(policy: Any) -> None:
    bandit = make(policy, ACTIONS)
    for context, row in zip(CONTEXTS[:60], REWARDS[:60], strict=True):
        choice = bandit.decide(context, eligible=["call"])
        assert (choice.action, choice.explored, choice.probability) == ("call", False, 1.0)
        assert choice.eligible == ("call",)
        assert choice.estimates is not None
        assert choice.wants_reward == (bandit.observation_mode in ("always", "labels"))
        if choice.wants_reward:
            bandit.learn(choice, wanted(bandit, row, choice))
    if hasattr(bandit, "explorations"):
        assert bandit.explorations == 0
    assert bandit.labels_spent == (60 if bandit.observation_mode in ("always", "labels") else 0)


@pytest.mark.parametrize("given", [{"label_budget": 30}, {"observation_cost": 0.01}, {"delta": 0.1, "epsilon": 0.1}])
def test_a_learner_that_requests_rewards_requests_none_where_there_is_no_choice(given: Any) -> None:
    bandit = releaf.AdaptiveReleaf(ACTIONS, 3, seed=0, **given)
    choices = bandit.decide_many(CONTEXTS[:50], eligible=["treat"])
    assert not choices.wants_reward.any()
    assert bandit.labels_spent == 0
    assert releaf.replay(bandit, CONTEXTS[:50], REWARDS[:50], eligible=["treat"]).observed.sum() == 0
    assert bandit.decide(CONTEXTS[50]).wants_reward
    one_by_one, at_once = (releaf.AdaptiveReleaf(ACTIONS, 3, seed=0, **given) for _ in range(2))
    run_eligible_steps(one_by_one, CONTEXTS, REWARDS, MASKS)
    releaf.replay(at_once, CONTEXTS, REWARDS, eligible=MASKS)
    assert full_state(one_by_one) == full_state(at_once)


@every_policy
def test_rewards_of_other_actions_are_not_read(policy: Any) -> None:
    hidden = np.where(MASKS, REWARDS, math.nan)
    seen, blind = make(policy, ACTIONS), make(policy, ACTIONS)
    seen.replay(CONTEXTS, REWARDS, eligible=MASKS)
    blind.replay(CONTEXTS, hidden, eligible=MASKS)
    assert full_state(seen) == full_state(blind)
    if seen.wants_all:
        by_name, by_row = learnt(policy), learnt(policy)
        for bandit in (by_name, by_row):
            choice = bandit.decide(CONTEXTS[200], eligible=["wait", "call"])
            while not choice.wants_reward:
                choice = bandit.decide(CONTEXTS[200] * 0.37, eligible=["wait", "call"])
            bandit.learn(choice, {"wait": 0.5, "call": 1.0} if bandit is by_name else [0.5, None, math.nan, 0.25, 1.0])
        assert full_state(by_name) == full_state(by_row)
        waiting = by_row.decide(CONTEXTS[1], eligible=["wait", "call"])
        if waiting.wants_reward:
            refused(by_row, lambda: by_row.learn(waiting, {"wait": 0.5}), "missing ['call']")


@every_policy
def test_saved_while_restricted_decisions_wait_it_goes_on_as_if_nothing_had_happened(
    policy: Any, tmp_path: Path
) -> None:
    so_that_it_explores: Any = {"control_divisor": 5} if takes(policy, "control_divisor") else {}
    bandit = learnt(policy, **so_that_it_explores)
    waiting = [
        bandit.decide(context, eligible=names_in(mask))
        for context, mask in zip(CONTEXTS[200:230], MASKS[200:230], strict=True)
    ]
    if not is_ensemble(policy):
        bandit.add_action("new")
        bandit.remove_action("test")
    bandit.save(tmp_path / "mid.releaf")
    again = releaf.load(tmp_path / "mid.releaf")
    assert full_state(again) == full_state(bandit)
    rows = np.delete(REWARDS, 2, axis=1) if not is_ensemble(policy) else REWARDS
    for learner in (bandit, again):
        for choice, row in zip(waiting, rows[200:230], strict=True):
            if choice.wants_reward and learner.is_pending(choice.id):
                learner.learn(choice.id, list(row) if learner.wants_all else row[0])
    assert full_state(again) == full_state(bandit)


@every_policy
def test_a_file_without_restricted_decisions_is_as_it_was_before(policy: Any, tmp_path: Path) -> None:
    bandit = learnt(policy)
    bandit.decide(CONTEXTS[0])
    bandit.save(tmp_path / "plain.releaf")
    _, arrays = state_file.read(tmp_path / "plain.releaf")
    assert {name for name in arrays if name.startswith("waiting.")} == {
        *("waiting.numbers", "waiting.contexts", "waiting.choices"),
    }


WRONG_TABLES: list[Any] = [
    np.zeros((1, 5), dtype=np.uint8),  # the chosen action is not among them
    np.ones((2, 5), dtype=np.uint8),
    np.ones((1, 4), dtype=np.uint8),
    np.full((1, 5), 2, dtype=np.uint8),
    np.ones((1, 5), dtype=np.int64),
    np.ones(5, dtype=np.uint8),
]


@pytest.mark.parametrize("table", WRONG_TABLES, ids=range(len(WRONG_TABLES)))
def test_a_file_with_impossible_eligible_actions_is_refused(table: Any, tmp_path: Path) -> None:
    bandit = releaf.LinUCB(ACTIONS, 3)
    bandit.decide(CONTEXTS[0], eligible=["call", "wait"])
    bandit.save(tmp_path / "good.releaf")
    header, arrays = state_file.read(tmp_path / "good.releaf")
    releaf.load(tmp_path / "good.releaf")
    state_file.write(tmp_path / "bad.releaf", header, {**arrays, "waiting.eligible": table})
    with pytest.raises(releaf.StateError, match="its pending decisions contradict the rest"):
        releaf.load(tmp_path / "bad.releaf")


@every_policy
def test_the_reward_of_an_action_that_was_not_eligible_is_refused(policy: Any) -> None:
    bandit = learnt(policy, **({"control_divisor": 1e-3} if takes(policy, "control_divisor") else {}))
    choice = bandit.decide(CONTEXTS[200], eligible=["treat", "call"])
    if not choice.wants_reward or bandit.wants_all:
        pytest.skip("it learns the rewards of all actions, or none")
    for decision in (choice, choice.id):
        refused(
            bandit,
            lambda decision=decision: bandit.learn(decision, 1.0, action="wait"),
            f"action 'wait' was not eligible in decision {choice.id}: expected one of ('treat', 'call')",
        )
    bandit.learn(choice, 1.0, action="call" if bandit.traits.learns_from_logs else None)


BAD: list[tuple[Any, type[Exception], str]] = [
    ([], ValueError, f"eligible names no action: expected at least one of {ACTIONS!r}"),
    (["wait", "operate"], ValueError, "eligible names an unknown action 'operate': the actions are"),
    (["wait", "wait"], ValueError, "eligible names 'wait' twice: expected each action once"),
    ("wait", TypeError, "eligible must be a sequence of action names, got 'wait'"),
    (3, TypeError, "eligible must be a sequence of action names, got 3"),
    ([["wait"]], TypeError, "an action's name must be text, a number or a boolean, got ['wait']"),
    (dict.fromkeys(ACTIONS, True), TypeError, "eligible must be a sequence of action names, got {'wait': True"),
    ([True, False], TypeError, "eligible looks like a mask: expected names of actions, or a boolean T × A array in"),
]
BAD_OF_MANY: list[tuple[Any, type[Exception], str]] = [
    *((given, error, text) for given, error, text in BAD[:3]),
    ("wait", TypeError, "eligible must hold action names, or be a boolean T × A mask, got 'wait'"),
    ([["wait"], []], ValueError, "eligible of row 1 names no action: expected at least one of"),
    ([["wait"], ["operate"]], ValueError, "eligible of row 1 names an unknown action 'operate'"),
    ([["wait"], "call"], TypeError, "eligible of row 1 must be a sequence of action names, got 'call'"),
    ([["wait"]] * 3, ValueError, "eligible has 3 rows: expected 2, one for each context"),
    (np.ones((2, 4), dtype=bool), ValueError, "eligible has shape (2, 4): expected (2, 5) (steps × actions)"),
    (np.array([[True] * 5, [False] * 5]), ValueError, "eligible of row 1 names no action"),
    (dict.fromkeys(ACTIONS, True), TypeError, "eligible must hold action names, or be a boolean T × A mask, got {"),
    ([["wait"], {"wait": True}], TypeError, "eligible of row 1 must be a sequence of action names, got {'wait': True}"),
]


@every_policy
def test_invalid_eligible_actions_are_refused_and_change_nothing(policy: Any) -> None:
    bandit = learnt(policy)
    for given, error, text in BAD:
        refused(bandit, lambda given=given: bandit.decide(CONTEXTS[0], eligible=given), text, error)
        refused(bandit, lambda given=given: bandit.preview(CONTEXTS[0], eligible=given), text, error)
    for given, error, text in BAD_OF_MANY:
        refused(bandit, lambda given=given: bandit.decide_many(CONTEXTS[:2], eligible=given), text, error)
        refused(bandit, lambda given=given: bandit.preview_actions(CONTEXTS[:2], eligible=given), text, error)
        refused(bandit, lambda given=given: bandit.replay(CONTEXTS[:2], REWARDS[:2], eligible=given), text, error)
    refused(bandit, lambda: bandit.decide([0.5, 2.0, 0.5], eligible=["call"]), "expected a number in [0, 1]")


@every_policy
def test_a_mask_is_not_taken_for_names(policy: Any) -> None:
    """True equals 1, which may be a name: a mask of the actions 0 and 1 names both of them, or the wrong one."""
    contexts, text = CONTEXTS[:2], "looks like a mask: expected names of actions, or a boolean T × A array in"
    bandit = make(policy, 2)
    masks: list[Any] = [[False, True], np.array([False, True]), (np.True_,), {True}]
    for given in masks:
        refused(bandit, lambda given=given: bandit.decide(contexts[0], eligible=given), text, TypeError)
        refused(bandit, lambda given=given: bandit.preview(contexts[0], eligible=given), text, TypeError)
        refused(bandit, lambda given=given: bandit.decide_many(contexts, eligible=given), text, TypeError)
    masks = [[[True, False], [False, True]], [[1, 0], [True, False]]]
    for given in masks:
        refused(bandit, lambda given=given: bandit.decide_many(contexts, eligible=given), text, TypeError)
    assert make(policy, [False, True]).decide(contexts[0], eligible=[True]).action is True
