"""Conformance suite of the control group, run over every policy that learns every reward."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance import POLICIES, VARIANTS, Observing, is_ensemble, make, refused, takes, wanted
from learner_comparison import full_state, plain, stream

import releaf

ACTIONS = ("wait", "treat", "test", "send home", "call")
CONTEXTS, REWARDS = stream(500, 3, len(ACTIONS), seed=4)
SHARE = 0.3


def always_wants(policy: Any) -> bool:
    return takes(policy, "control_share") and make(policy, 2).observation_mode in ("always", "labels")


CONTROLLED: list[Any] = [policy for policy in [*POLICIES, *VARIANTS] if always_wants(policy)]
NAMES = [
    f"{policy.__name__}-{policy.observe}" if isinstance(policy, Observing) else policy.__name__ for policy in CONTROLLED
]
every_policy = pytest.mark.parametrize("policy", CONTROLLED, ids=NAMES)
both_controls = pytest.mark.parametrize("control", ["uniform", "test"])


def masks_of(steps: int, seed: int = 1) -> Any:
    """Random masks: some with all actions, some with a single one, and never with none."""
    draw = np.random.default_rng(seed)
    masks = draw.random((steps, len(ACTIONS))) < draw.choice([0.1, 0.5, 1.0], (steps, 1))
    masks[np.arange(steps), draw.integers(0, len(ACTIONS), steps)] = True
    return masks


MASKS = masks_of(len(CONTEXTS))


def controlled(policy: Any, control: Any = "uniform", share: float = SHARE, seed: int | None = 6) -> Any:
    return make(policy, ACTIONS, 3, seed=seed, control_share=share, control=control)


def names_in(mask: Any) -> list[str] | None:
    return None if mask is None else [name for name, marked in zip(ACTIONS, mask, strict=True) if marked]


def run_in_groups(bandit: Any, rows: slice, masks: Any = None) -> list[tuple[Any, ...]]:
    decisions = []
    for row in range(len(CONTEXTS))[rows]:
        choice = bandit.decide(CONTEXTS[row], eligible=names_in(None if masks is None else masks[row]))
        assert choice.wants_reward
        bandit.learn(choice, wanted(bandit, REWARDS[row], choice))
        decisions.append((*plain(choice), choice.eligible, choice.group))
    return decisions


def test_all_policies_that_learn_every_reward_are_here() -> None:
    assert {"AdaptiveReleaf", "LinUCB", "JointReleaf", "FixedShare", "ContextualZooming", "CMABRL"} <= {
        policy.__name__ for policy in CONTROLLED
    }
    assert {"Releaf-always", "Releaf-labels", "GreedyReleaf-labels", "AdaptiveReleaf-labels"} <= {*NAMES}


@every_policy
@both_controls
@pytest.mark.parametrize("masks", [None, MASKS], ids=["all", "masked"])
def test_a_replay_has_the_groups_of_step_by_step(policy: Any, control: str, masks: Any) -> None:
    one_by_one, at_once, parts = (controlled(policy, control) for _ in range(3))
    decisions = run_in_groups(one_by_one, slice(0, 200), masks)
    rows = None if masks is None else masks[:200]
    trace = releaf.replay(at_once, CONTEXTS[:200], REWARDS[:200], eligible=rows)
    assert trace.actions.tolist() == [ACTIONS.index(decision[1]) for decision in decisions]
    assert trace.explored.tolist() == [decision[2] for decision in decisions]
    assert trace.control is not None
    assert trace.control.tolist() == [decision[-1] == "control" for decision in decisions]
    for part in (slice(0, 1), slice(1, 65), slice(65, 200)):
        releaf.replay(parts, CONTEXTS[part], REWARDS[part], eligible=None if masks is None else masks[part])
    assert full_state(at_once) == full_state(one_by_one) == full_state(parts)
    assert at_once.lift() == one_by_one.lift()
    assert one_by_one.lift().learner_rewards + one_by_one.lift().control_rewards == 200


@every_policy
@pytest.mark.parametrize("masks", [None, MASKS], ids=["all", "masked"])
def test_many_decisions_have_the_groups_of_one_by_one(policy: Any, masks: Any) -> None:
    bandit, twin = controlled(policy), controlled(policy)
    for learner in (bandit, twin):
        learner.replay(CONTEXTS[:100], REWARDS[:100])
        learner.preview(CONTEXTS[0])  # AdaptiveReleaf finds relevance at its first decision after a fit
    some = None if masks is None else masks[100:160]
    many = bandit.decide_many(CONTEXTS[100:160], eligible=some)
    single = [
        twin.decide(CONTEXTS[row], eligible=names_in(None if masks is None else masks[row])) for row in range(100, 160)
    ]
    assert [plain(choice) for choice in many] == [plain(choice) for choice in single]
    assert [choice.group for choice in many] == [choice.group for choice in single]
    assert many.control.tolist() == [choice.group == "control" for choice in single]
    assert full_state(bandit) == full_state(twin)
    assert bandit.decide_many(CONTEXTS[:0]).control.tolist() == []


@every_policy
@pytest.mark.parametrize("seed", [6, None])
def test_saved_copied_and_pickled_learners_go_on_with_the_same_groups(
    policy: Any, seed: int | None, tmp_path: Path
) -> None:
    bandit = controlled(policy, "test", seed=seed)
    run_in_groups(bandit, slice(0, 120))
    waiting = [bandit.decide(context) for context in CONTEXTS[120:140]]
    bandit.save(tmp_path / "mid.releaf")
    twins = [releaf.load(tmp_path / "mid.releaf"), copy.deepcopy(bandit), pickle.loads(pickle.dumps(bandit))]
    twins.append(releaf.from_bytes(bandit.to_bytes()))
    for learner in (bandit, *twins):
        for choice, row in zip(waiting, REWARDS[120:140], strict=True):
            learner.learn(choice.id, wanted(learner, row, choice))
    assert all(full_state(twin) == full_state(bandit) for twin in twins)
    found = [run_in_groups(learner, slice(140, 200)) for learner in (bandit, *twins)]
    assert all(decisions == found[0] for decisions in found)
    assert all(twin.lift() == bandit.lift() for twin in twins)


@every_policy
def test_a_preview_is_the_next_decision_and_leaves_no_trace(policy: Any) -> None:
    bandit, groups = controlled(policy), set()
    run_in_groups(bandit, slice(0, 50))
    for row in range(50, 80):
        before = full_state(bandit)
        seen = bandit.preview(CONTEXTS[row], eligible=names_in(MASKS[row]))
        assert full_state(bandit) == before
        choice = bandit.decide(CONTEXTS[row], eligible=names_in(MASKS[row]))
        assert (plain(seen), seen.group) == (plain(choice), choice.group)
        groups.add(choice.group)
    assert groups == {"learner", "control"}


@every_policy
@both_controls
def test_probabilities_are_those_of_both_groups_together(policy: Any, control: str) -> None:
    """Draws of the learner alone, mixed with control, take each action with the probability that is told."""
    bandit = controlled(policy, control, share=0.5)
    run_in_groups(bandit, slice(0, 200))
    groups, eligible = set(), ["wait", "test", "call"]
    for row in range(200, 210):
        context, only = CONTEXTS[row], eligible if row % 2 else None
        repeated = np.repeat(context[None], 1_500, axis=0)
        draws = bandit.preview_actions(repeated, seed=row, eligible=only)
        choice = bandit.decide(context, eligible=only)
        if choice.probability is None:
            assert policy.__name__ in ("CMABRL", "Releaf", "GreedyReleaf")
            continue
        own = float(np.mean(draws == choice.index))
        other = float(choice.action == "test") if control == "test" else 1 / len(only or ACTIONS)
        noise = 4.5 * 0.5 * math.sqrt(max(own * (1 - own), 1 / 1_500) / 1_500)
        assert choice.probability == pytest.approx(0.5 * own + 0.5 * other, abs=noise)
        groups.add(choice.group)
    assert groups == {"learner", "control"} or policy.__name__ == "CMABRL"


@every_policy
def test_the_learners_own_probabilities_add_up_to_1(policy: Any) -> None:
    """Those of the same decision of control, for each action that control could take."""
    bandit = controlled(policy, share=0.5)
    run_in_groups(bandit, slice(0, 150))
    checked = 0
    for row in range(150, 170):
        only = ["wait", "test", "call"] if row % 2 else None
        if bandit.preview(CONTEXTS[row], eligible=only).group == "control":
            told = []
            for bandit.control in only or ACTIONS:
                told.append(bandit.preview(CONTEXTS[row], eligible=only).probability)
            if None not in told:
                own = [2.0 * (chance - 0.5) for chance in told]
                assert sum(own) == pytest.approx(1.0, abs=1e-5)
                assert min(own) >= -1e-9
                checked += 1
        bandit.control = "uniform"
        run_in_groups(bandit, slice(row, row + 1))
    assert checked >= 3 or policy.__name__ == "CMABRL"


@every_policy
def test_control_takes_its_action_or_a_uniform_one_where_that_is_not_eligible(policy: Any) -> None:
    bandit, taken = controlled(policy, "test", share=0.9), []
    for row in range(300):
        only = ["wait", "call"] if row % 2 else None
        choice = bandit.decide(CONTEXTS[row], eligible=only)
        bandit.learn(choice, wanted(bandit, REWARDS[row], choice))
        if choice.group == "control":
            assert choice.explored
            assert choice.estimates is choice.relevant is None
            assert choice.action in (only or ["test"])
            taken.append(choice.action)
    assert 90 < taken.count("test") < 180
    assert 40 < taken.count("wait") < 100


@every_policy
def test_the_only_eligible_action_is_certain_in_both_groups(policy: Any) -> None:
    bandit = controlled(policy, share=0.5)
    choices = [bandit.decide(context, eligible=["call"]) for context in CONTEXTS[:30]]
    assert {(choice.action, choice.explored, choice.probability) for choice in choices} == {("call", False, 1.0)}
    assert {choice.group for choice in choices} == {"learner", "control"}


@every_policy
def test_without_a_share_nothing_changes_and_there_is_no_lift(policy: Any) -> None:
    with_it, without = make(policy, ACTIONS, control_share=0.0), make(policy, ACTIONS)
    assert full_state(with_it) == full_state(without)
    choice = with_it.decide(CONTEXTS[0])
    assert choice.group is None
    assert with_it.decide_many(CONTEXTS[:2]).control is None
    assert with_it.replay(CONTEXTS[:2], REWARDS[:2]).control is None
    with pytest.raises(ValueError, match="has no control group: expected control_share above 0"):
        with_it.lift()


@every_policy
def test_a_replay_that_lacks_a_reward_counts_nothing(policy: Any) -> None:
    bandit = controlled(policy)
    run_in_groups(bandit, slice(0, 30))
    hidden = REWARDS[30:60].copy()
    hidden[20] = math.nan
    refused(bandit, lambda: bandit.replay(CONTEXTS[30:60], hidden), "rewards of row 20 are")


@every_policy
def test_the_control_action_may_be_removed(policy: Any, tmp_path: Path) -> None:
    if is_ensemble(policy):
        pytest.skip("no action of it can be removed")
    bandit = controlled(policy, "test", share=0.9)
    run_in_groups(bandit, slice(0, 20))
    bandit.remove_action("test")
    bandit.save(tmp_path / "less.releaf")
    again = releaf.load(tmp_path / "less.releaf")
    assert full_state(again) == full_state(bandit)
    chosen = {bandit.decide(context).action for context in CONTEXTS[20:80]}
    assert chosen == {*ACTIONS} - {"test"}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"control_share": 1.0}, "control_share must be a number of at least 0 below 1, got control_share=1.0"),
    ({"control_share": -0.1}, "control_share must be a number of at least 0 below 1, got control_share=-0.1"),
    ({"control_share": "half"}, "control_share must be a number of at least 0 below 1, got control_share='half'"),
    ({"control_share": True}, "control_share must be a number"),
    ({"control_share": math.nan}, "control_share must be a number"),
    ({"control_share": 0.1, "control": ["wait"]}, "an action's name must be text, a number or a boolean"),
    ({"control_share": 0.1, "control": "operate"}, "control must be 'uniform' or the name of an action, got"),
]


@every_policy
@pytest.mark.parametrize(("given", "text"), WRONG, ids=range(len(WRONG)))
def test_invalid_control_is_refused(policy: Any, given: Any, text: str) -> None:
    if given.get("control") == "operate" and policy.traits.takes_action_features:
        pytest.skip("its actions come and go")
    with pytest.raises((TypeError, ValueError)) as caught:
        make(policy, ACTIONS, **given)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "make_one",
    [
        lambda: releaf.Releaf(2, 3, control_share=0.1),
        lambda: releaf.AdaptiveReleaf(2, 3, control_share=0.1, label_budget=50),
        lambda: releaf.GreedyReleaf(2, 3, control_share=0.1, observe="all-actions"),
        lambda: Observing(releaf.Releaf, "explored")(2, 3, control_share=0.1),
    ],
)
def test_a_learner_that_requests_some_rewards_has_no_control_group(make_one: Any) -> None:
    with pytest.raises(ValueError, match="needs a learner that learns the reward of every decision"):
        make_one()


def test_a_name_as_text_stands_for_the_action_that_is_written_like_it() -> None:
    assert releaf.LinUCB([10, 20], 1, control_share=0.1, control="20").control == 20


def test_slates_are_refused_and_actions_of_a_request_have_groups() -> None:
    bandit = releaf.JointReleaf({}, ["heat"], action_features=["sweet"], seed=1, control_share=0.5, control="tea")
    refused(bandit, lambda: bandit.decide([0.5], k=2), "a slate can't be decided with control_share=0.5")
    seen = []
    for turn in range(60):
        offered = {"tea": [0.1], "cola": [0.9], "milk": [0.4]} if turn % 2 else {"cola": [0.9], "milk": [0.4]}
        choice = bandit.decide([turn / 60], actions=offered)
        assert choice.eligible is None or set(choice.eligible) == set(offered)
        bandit.learn(choice, 0.5)
        if choice.group == "control":
            seen.append((turn % 2, choice.action))
    assert set(seen) == {(1, "tea"), (0, "cola"), (0, "milk")}


@pytest.mark.parametrize("control", ["uniform", "b"])
@pytest.mark.parametrize("kind", [releaf.HybridLinUCB, releaf.JointReleaf])
def test_actions_of_a_request_have_the_frequencies_that_every_decision_tells(kind: Any, control: str) -> None:
    table, draws = {"a": [0.1], "b": [0.5], "c": [0.9]}, 600
    taught = kind(table, 1, seed=0, control_share=0.4, control=control, least_probability=0.1)
    for name in ("a", "a", "b", "c"):
        taught.observe([0.5], name, float(name == "a"))
    request = dict.fromkeys(("c", "a", "b"))
    told, counts, groups = set[tuple[float, ...]](), dict.fromkeys(table, 0), set[str]()
    for seed in range(draws):
        bandit = copy.deepcopy(taught)
        bandit.seed = seed  # of the groups
        bandit.set_random_state(seed)
        decision = bandit.decide([0.5], actions=request)
        chances = dict(zip(decision.eligible or bandit.actions, decision.probabilities, strict=True))
        assert decision.probability == pytest.approx(chances[decision.action], abs=1e-12)
        told.add(tuple(round(chances[name], 12) for name in table))
        counts[str(decision.action)] += 1
        groups.add(decision.group)
    (shares,) = told  # whoever decides, and whatever is drawn
    assert groups == {"control", "learner"}
    assert sum(shares) == pytest.approx(1)
    assert np.allclose([counts[name] / draws for name in table], shares, atol=4 * 0.5 / draws**0.5)


def test_costs_of_control_are_spent() -> None:
    bandit = releaf.LinUCB(2, 1, seed=0, cost={0: 0.0, 1: 5.0}, cost_weight=10.0, control_share=0.5, control=1)
    choices = [bandit.decide([0.5]) for _ in range(200)]
    assert bandit.spent == sum(choice.cost or 0.0 for choice in choices) > 300


def test_merged_learners_add_the_rewards_of_their_groups() -> None:
    parts = [releaf.AdaptiveReleaf(2, 3, seed=seed, control_share=0.4) for seed in (1, 2)]
    for part, rows in zip(parts, (slice(0, 100), slice(100, 250)), strict=True):
        part.replay(CONTEXTS[rows], REWARDS[rows, :2])
    whole, lifts = parts[0].merge(parts[1]).lift(), [part.lift() for part in parts]
    assert whole.control_rewards == sum(lift.control_rewards for lift in lifts)
    assert whole.learner_rewards == sum(lift.learner_rewards for lift in lifts)
    assert whole.upper - whole.lower < min(lift.upper - lift.lower for lift in lifts)


def test_rewards_in_the_users_units() -> None:
    unit, wide = (releaf.LinUCB(2, 3, seed=3, control_share=0.3, reward_range=own) for own in ((0, 1), (-10, 30)))
    unit.replay(CONTEXTS, REWARDS[:, :2])
    wide.replay(CONTEXTS, 40 * REWARDS[:, :2] - 10)
    one, other = unit.lift(), wide.lift()
    assert other.lower == pytest.approx(40 * one.lower)
    assert other.difference == pytest.approx(40 * (one.difference or 0.0))
    assert other.control_mean == pytest.approx(40 * (one.control_mean or 0.0) - 10)


def test_a_reward_of_an_overruled_decision_counts_for_its_group() -> None:
    bandit = releaf.LinUCB(2, 1, seed=0, control_share=0.5)
    choice = bandit.decide([0.3])
    bandit.learn(choice, 1.0, action=1 - choice.index)
    lift = bandit.lift()
    assert (lift.control_rewards, lift.learner_rewards) == ((1, 0) if choice.group == "control" else (0, 1))
