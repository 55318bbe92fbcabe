"""Conformance suite of the Policy protocol, run over every policy."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance import (
    FIXED,
    NAMES,
    POLICIES,
    VARIANT_NAMES,
    VARIANTS,
    in_own_terms,
    is_ensemble,
    is_randomised,
    make,
    takes,
    wanted,
)
from learner_comparison import full_state, plain, run_steps, stream

import releaf
from releaf.core.runtime import state_file

CONTEXTS, REWARDS = stream(600, seed=4)
every_policy = pytest.mark.parametrize("policy", [*POLICIES, *VARIANTS], ids=[*NAMES, *VARIANT_NAMES])


def test_all_rivals_of_the_paper_are_here() -> None:
    bandits = {"CMABRL", "ContextualZooming", "EpsilonGreedy", "GreedyReleaf", "HybridEpsilon", "LinTS", "LinUCB"}
    bandits |= {"LinearEpsilonGreedy", "Random", "Releaf", "UCB1"}
    votes = {"AdaBoost", "AverageMajority", "Blum", "FixedShare", "OnlineAdaBoost", "WeightedMajority"}
    assert bandits | votes <= set(NAMES)


@every_policy
def test_it_follows_the_protocol(policy: Any) -> None:
    bandit = make(policy, ["wait", "treat"], ["age", "dose", "weight"])
    assert isinstance(bandit, releaf.Policy)
    choice = bandit.decide({"age": 0.5, "dose": 0.25, "weight": 1.0})
    assert choice.action == bandit.actions[choice.index]
    assert choice.id == 1
    assert (choice.estimates is None) == choice.explored
    assert repr(bandit) == f"{policy.__name__}(2 actions, 3 features, 1 decisions)"


@every_policy
def test_the_same_seed_makes_the_same_decisions(policy: Any) -> None:
    first, second, other = make(policy), make(policy), make(policy, seed=7)
    decisions = run_steps(first, CONTEXTS, REWARDS)
    assert decisions == run_steps(second, CONTEXTS, REWARDS)
    assert full_state(first) == full_state(second)
    assert (decisions != run_steps(other, CONTEXTS, REWARDS)) == is_randomised(policy)


@every_policy
def test_without_a_seed_two_learners_have_generators_of_their_own(policy: Any) -> None:
    first, second = full_state(make(policy, seed=None)), full_state(make(policy, seed=None))
    assert first.pop("policy.clock") != second.pop("policy.clock")
    for state in (first, second):
        state.pop("policy.sample_counts", None)  # with the first keys of samples, which follow from the seed too
    assert first == second


@every_policy
@pytest.mark.parametrize("actions", [1, 2, 5])
def test_a_replay_is_the_same_as_step_by_step(policy: Any, actions: int) -> None:
    contexts, rewards = stream(400, 4, actions, seed=8)
    one_by_one, at_once = make(policy, actions, 4), make(policy, actions, 4)
    decisions = run_steps(one_by_one, contexts, rewards)
    trace = releaf.replay(at_once, contexts, rewards)
    assert trace.actions.tolist() == [decision[1] for decision in decisions]
    assert trace.explored.tolist() == [decision[2] for decision in decisions]
    assert trace.observed.tolist() == [decision[3] for decision in decisions]
    assert np.array_equal(trace.rewards, rewards[np.arange(400), trace.actions])
    assert full_state(at_once) == full_state(one_by_one)


@every_policy
def test_a_replay_in_parts_is_the_same_as_in_one(policy: Any) -> None:
    whole, parts = make(policy), make(policy)
    actions = releaf.replay(whole, CONTEXTS, REWARDS).actions
    cuts = [releaf.replay(parts, CONTEXTS[a:b], REWARDS[a:b]).actions for a, b in ((0, 1), (1, 65), (65, 600))]
    assert np.array_equal(np.concatenate(cuts), actions)
    assert full_state(parts) == full_state(whole)


@every_policy
def test_saved_in_mid_stream_it_goes_on_as_if_nothing_had_happened(policy: Any, tmp_path: Path) -> None:
    bandit = make(policy, ["wait", "treat"])
    run_steps(bandit, CONTEXTS[:300], REWARDS[:300])
    waiting = [bandit.decide(context) for context in CONTEXTS[300:310]]
    bandit.save(tmp_path / "mid.releaf")
    again = releaf.load(tmp_path / "mid.releaf")
    assert type(again) is type(bandit)
    assert again.prior_labels == bandit.prior_labels
    for learner in (bandit, again):
        for choice, rewards in zip(waiting, REWARDS[300:310], strict=True):
            if choice.wants_reward:
                learner.learn(choice.id, wanted(learner, rewards, choice))
    assert run_steps(again, CONTEXTS[310:], REWARDS[310:]) == run_steps(bandit, CONTEXTS[310:], REWARDS[310:])
    assert full_state(again) == full_state(bandit)


@every_policy
def test_copies_and_pickles_stand_on_their_own(policy: Any) -> None:
    original = make(policy)
    run_steps(original, CONTEXTS[:200], REWARDS[:200])
    before = full_state(original)
    for twin in (copy.deepcopy(original), pickle.loads(pickle.dumps(original))):
        assert full_state(twin) == before
        run_steps(twin, CONTEXTS[200:], REWARDS[200:])
        assert full_state(original) == before


@every_policy
def test_an_added_action_is_tried_and_taken_when_it_is_good(policy: Any) -> None:
    bandit = make(policy)
    run_steps(bandit, CONTEXTS[:300], REWARDS[:300])
    assert bandit.add_action("new") == "new"
    assert bandit.actions == (0, 1, "new")
    contexts, rewards = stream(3_000, actions=3, seed=5)
    rewards *= 0.5
    rewards[:, 2] = 1.0
    trace = releaf.replay(bandit, contexts, rewards)
    late = float(np.mean(trace.actions[-500:] == 2))
    if is_ensemble(policy):
        assert late == 0.0, "base classifiers can't vote for what they never heard of"
    elif policy.__name__ == "Random":
        assert 0.25 < late < 0.42
    else:
        assert late > 0.8


@every_policy
def test_an_action_can_be_added_while_decisions_wait(policy: Any, tmp_path: Path) -> None:
    bandit = make(policy)
    waiting = [choice for choice in map(bandit.decide, CONTEXTS[:50]) if choice.wants_reward]
    bandit.add_action()
    bandit.save(tmp_path / "wider.releaf")
    again = releaf.load(tmp_path / "wider.releaf")
    for learner in (bandit, again):
        for choice in waiting:
            learner.learn(choice.id, wanted(learner, [0.25, 0.75], choice))
    assert full_state(again) == full_state(bandit)
    assert plain(again.decide(CONTEXTS[60])) == plain(bandit.decide(CONTEXTS[60]))


@every_policy
def test_rewards_may_be_late_lost_or_out_of_order(policy: Any) -> None:
    bandit, twin = make(policy), make(policy)
    for learner in (bandit, twin):
        generator = np.random.default_rng(3)
        waiting: list[tuple[Any, Any]] = []
        for context, rewards in zip(CONTEXTS, REWARDS, strict=True):
            choice = learner.decide(context)
            waiting += [(choice, rewards)] if choice.wants_reward else []
            while len(waiting) > 20:
                late, earned = waiting.pop(int(generator.integers(len(waiting))))
                if generator.random() < 0.8:
                    learner.learn(late, wanted(learner, earned, late))
    assert full_state(bandit) == full_state(twin)
    assert all(np.isfinite(value) for value in bandit.decide(CONTEXTS[0]).estimates or [])


@pytest.mark.parametrize("name", ["UCB1", "EpsilonGreedy", "LinUCB", "CMABRL"])
def test_while_no_reward_has_come_all_actions_have_their_turns(name: str) -> None:
    bandit = make(getattr(releaf, name), 3)
    taken = [choice.index for choice in bandit.decide_many(CONTEXTS[:30])]
    assert np.bincount(taken, minlength=3).tolist() == [10, 10, 10]


# --- bad input ------------------------------------------------------------------------------------------------

UNIT = "expected a number in [0, 1]"
BAD_CONTEXTS: list[tuple[Any, str]] = [
    ([0.5, math.nan, 0.5], f"feature 'x1' is nan: {UNIT}"),
    (np.array([0.5, 0.5, 1.5]), f"feature 'x2' is 1.5: {UNIT}"),
    (np.array([-1.0, 0.5, 0.5]), f"feature 'x0' is -1.0: {UNIT}"),
    (np.array([math.inf, 0.5, 0.5]), f"feature 'x0' is inf: {UNIT}"),
    ([0.5, 0.5], "context has 2 values, the schema has 3 (missing: 'x2')"),
    (["0.5", 0.5, 0.5], f"feature 'x0' is '0.5': {UNIT}"),
]


def assert_refused(policy: Any, call: Any, text: str, error: type[Exception] = ValueError, **arguments: Any) -> None:
    """The call fails with this text, and the learner is what it was and decides as an untouched twin does."""
    bandit, twin = make(policy, **arguments), make(policy, **arguments)
    for learner in (bandit, twin):
        run_steps(learner, CONTEXTS[:100], REWARDS[:100])
        learner.decide(CONTEXTS[100])
    before = full_state(bandit)
    with pytest.raises(error) as caught:
        call(bandit)
    assert text in str(caught.value)
    assert full_state(bandit) == before
    assert run_steps(bandit, CONTEXTS[101:200], REWARDS[101:200]) == run_steps(
        twin, CONTEXTS[101:200], REWARDS[101:200]
    )


@every_policy
@pytest.mark.parametrize(("context", "text"), BAD_CONTEXTS, ids=[text for _, text in BAD_CONTEXTS])
def test_a_bad_context_is_refused_and_changes_nothing(policy: Any, context: Any, text: str) -> None:
    names = releaf.Schema.of(3).names
    text = text.replace("x0", names[0]).replace("x1", names[1]).replace("x2", names[2])
    assert_refused(policy, lambda bandit: bandit.decide(context), text)


@every_policy
def test_bad_rewards_are_refused_and_change_nothing(policy: Any) -> None:
    if policy.__name__ in FIXED:
        assert_refused(policy, lambda bandit: bandit.learn(101, 1.0), "is not pending")
        return
    assert_refused(policy, lambda bandit: bandit.learn(999, 1.0), "unknown decision 999")
    assert_refused(policy, lambda bandit: bandit.learn("1", 1.0), "choice must be a Decision or its id", TypeError)
    probe = make(policy)
    if probe.observation_mode in ("always", "labels"):
        assert_refused(policy, lambda bandit: bandit.learn(100, 1.0), "is not pending")
        wrong: Any = 1.5 if probe.observation_mode == "always" else [0.5, 1.5]
        assert_refused(policy, lambda bandit: bandit.learn(101, wrong), "reward is 1.5: expected a number in [0, 1]")
        wrong = "1" if probe.observation_mode == "always" else [1.0]
        text = "reward is '1'" if probe.observation_mode == "always" else "expected a reward for each of the 2 actions"
        assert_refused(policy, lambda bandit: bandit.learn(101, wrong), text)


@every_policy
def test_a_replay_that_lacks_a_reward_is_refused_and_changes_nothing(policy: Any) -> None:
    rewards = REWARDS.copy()
    rewards[150] = math.nan
    if policy.__name__ in FIXED:
        trace = make(policy).replay(CONTEXTS, rewards)
        assert np.isnan(trace.rewards).sum() == 1
        return
    rewards[150:] = math.nan
    so_that_it_explores: Any = {"control_divisor": 5} if takes(policy, "control_divisor") else {}
    needs = "the learner needs a reward that is NaN"
    assert_refused(policy, lambda bandit: bandit.replay(CONTEXTS, rewards), needs, **so_that_it_explores)


@every_policy
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"actions": 0}, "actions must be at least 1, got actions=0"),
        ({"actions": ["a", "a"]}, "actions must have different names"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got seed=-1"),
        ({"seed": 1.5}, "seed must be a whole number of at least 0, got seed=1.5"),
    ],
)
def test_bad_arguments_are_refused(policy: Any, arguments: Any, text: str) -> None:
    given = {"actions": 2, "features": 3, "seed": 0, **arguments}
    if is_ensemble(policy):
        given["experts"] = make(policy)._experts
    with pytest.raises(ValueError, match="^" + text.replace("(", r"\(")):
        policy(**given)


WAITING: list[tuple[str, Any]] = [
    ("contexts", np.full((1, 100_000), 0.5)),
    ("contexts", np.full((1, 4), 1.5)),
    ("contexts", np.array([[0.5, 1.0, 0.5, 0.5]])),  # 1.0 is no category
    ("contexts", np.array([[0.5, 0.5, 0.5, -1.0]])),  # the last one can't be missing
    ("numbers", np.array([7])),
    ("numbers", np.array([0])),
    ("choices", np.array([[2, 2]])),
    ("choices", np.array([[0, 3]])),
]


@every_policy
@pytest.mark.parametrize(("part", "value"), WAITING)
def test_waiting_decisions_that_can_not_be_are_refused(policy: Any, part: str, value: Any, tmp_path: Path) -> None:
    bandit = make(policy, 2, SCHEMA)
    bandit.decide([30, "free", True, 0.5])
    bandit.save(tmp_path / "good.releaf")
    header, arrays = state_file.read(tmp_path / "good.releaf")
    arrays["waiting.numbers"] = np.array([1])
    arrays["waiting.contexts"] = np.array([[0.25, 0.5, 0.5, 0.5]])
    arrays["waiting.choices"] = np.array([[0, 2]])
    state_file.write(tmp_path / "still-good.releaf", header, arrays)
    releaf.load(tmp_path / "still-good.releaf")
    state_file.write(tmp_path / "bad.releaf", header, {**arrays, f"waiting.{part}": value})
    with pytest.raises(releaf.StateError):
        releaf.load(tmp_path / "bad.releaf")


@every_policy
def test_an_altered_file_is_refused(policy: Any, tmp_path: Path) -> None:
    bandit = make(policy)
    run_steps(bandit, CONTEXTS[:200], REWARDS[:200])
    bandit.save(tmp_path / "good.releaf")
    header, arrays = state_file.read(tmp_path / "good.releaf")
    for name, array in arrays.items():
        if not name.startswith("policy.") or not array.size:
            continue
        others = [
            {**arrays, name: array[..., :-1]},
            {**arrays, name: array[:0]},
            {key: value for key, value in arrays.items() if key != name},
        ]
        if array.dtype.kind == "f":
            others.append({**arrays, name: np.full_like(array, math.nan)})
        if array.dtype.kind == "i":
            others.append({**arrays, name: np.full_like(array, np.iinfo(array.dtype).min)})
        for altered in others:
            state_file.write(tmp_path / "bad.releaf", header, altered)
            with pytest.raises(releaf.StateError):
                releaf.load(tmp_path / "bad.releaf")


@pytest.mark.parametrize("name", ["LinUCB", "WeightedMajority"])
def test_a_pickle_works_in_another_process(name: str, tmp_path: Path) -> None:
    (policy,) = (policy for policy in POLICIES if policy.__name__ == name)
    bandit = make(policy)
    run_steps(bandit, CONTEXTS[:50], REWARDS[:50])
    (tmp_path / "bandit.pickle").write_bytes(pickle.dumps(bandit))
    program = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).decide([0.5, 0.5, 0.5]).index)"
    command = [sys.executable, "-c", program, str(tmp_path / "bandit.pickle")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) == bandit.decide([0.5, 0.5, 0.5]).index


@every_policy
def test_a_preview_leaves_no_trace(policy: Any) -> None:
    bandit = make(policy)
    run_steps(bandit, CONTEXTS[:100], REWARDS[:100])
    before = full_state(bandit)
    seen = bandit.preview(CONTEXTS[100])
    assert full_state(bandit) == before
    assert plain(seen) == plain(bandit.decide(CONTEXTS[100]))


# --- features of all kinds ------------------------------------------------------------------------------------

SCHEMA = releaf.Schema(
    age=releaf.Continuous(0, 120, missing=True),
    plan=releaf.Categorical("free", "team", "firm"),
    new=releaf.Boolean(missing=True),
    score=releaf.Continuous(),
)


@every_policy
def test_categories_and_missing_values_are_understood(policy: Any, tmp_path: Path) -> None:
    contexts, rewards = stream(300, 4, seed=9)
    rows = in_own_terms(contexts, SCHEMA)
    for row in rows[::7]:
        row[0] = None
    for row in rows[::11]:
        row[2] = math.nan
    one_by_one, at_once = make(policy, 2, SCHEMA), make(policy, 2, SCHEMA)
    run_steps(one_by_one, rows, rewards)
    at_once.replay(rows, rewards)
    assert full_state(one_by_one) == full_state(at_once)
    at_once.save(tmp_path / "kinds.releaf")
    again = releaf.load(tmp_path / "kinds.releaf")
    assert plain(again.decide(rows[0])) == plain(at_once.decide(rows[0]))
    with pytest.raises(ValueError, match="feature 'plan' is 'gold'"):
        again.decide([30, "gold", True, 0.5])


DATED = releaf.Schema(
    since=releaf.DateTime("2024-01-01", "2025-06-30", ["trend", "weekday", "day of year"], missing=True),
    new=releaf.Boolean(),
)


@every_policy
def test_dates_are_understood_and_future_ones_decided(policy: Any, tmp_path: Path) -> None:
    contexts, rewards = stream(200, 2, seed=9)
    rows = in_own_terms(contexts, DATED)
    for row in rows[::5]:
        row[0] = None
    one_by_one, at_once = make(policy, 2, DATED), make(policy, 2, DATED)
    run_steps(one_by_one, rows, rewards)
    at_once.replay([[None if day is None else day.isoformat(), new] for day, new in rows], rewards)
    at_once.save(tmp_path / "dates.releaf")
    again = releaf.load(tmp_path / "dates.releaf")
    for context in (["2041-05-05", True], [None, False], ["1999-12-31T23:59:59+01:00", True]):
        choices = [plain(learner.decide(context)) for learner in (one_by_one, at_once, again)]
        assert choices[0] == choices[1] == choices[2]
    with pytest.raises(ValueError, match="feature 'since' is 'soon': expected a date or a time, such as 2024-01-31"):
        again.decide(["soon", True])


# --- regret ---------------------------------------------------------------------------------------------------


def easy_stream(steps: int, uses_context: bool) -> tuple[Any, Any]:
    """Two actions, of which one earns 0.9 and the other 0.1: by the context, or always the first."""
    generator = np.random.default_rng(11)
    contexts = generator.random((steps, 3))
    contexts[:, 0] = np.where(contexts[:, 0] <= 0.5, 0.7 * contexts[:, 0], 1.0 - 0.7 * (1.0 - contexts[:, 0]))
    first = contexts[:, 0] > 0.5 if uses_context else np.ones(steps, dtype=bool)
    expected = np.where(first[:, None], [0.9, 0.1], [0.1, 0.9])
    return contexts, (generator.random((steps, 2)) < expected).astype(float)


@every_policy
def test_its_regret_on_an_easy_stream_grows_ever_more_slowly(policy: Any) -> None:
    steps = 20_000
    contexts, rewards = easy_stream(steps, policy.traits.uses_context)
    right = (contexts[:, 0] <= 0.5).astype(int) if policy.traits.uses_context else np.zeros(steps, dtype=int)
    arguments = {"control_divisor": 50} if takes(policy, "control_divisor") else {}
    actions = {0: [0.0], 1: [1.0]} if policy.traits.takes_action_features else 2
    trace = releaf.replay(make(policy, actions, **arguments), contexts, rewards)
    regret = 0.8 * (trace.actions != right)
    first, last = regret[: steps // 8].mean(), regret[-steps // 4 :].mean()
    if policy.__name__ == "Random":
        assert last == pytest.approx(0.4, abs=0.02), "chance goes on losing as it began"
    else:
        assert last < 0.1
        assert last <= max(0.6 * first, 0.02)
