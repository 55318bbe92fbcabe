"""ReleafPolicy in River: its protocol, its evaluations, its own checks, and what it earns next to River's policies."""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from river import bandit, datasets, linear_model, preprocessing, stats
from river.checks import common

import releaf
from releaf.river import MAX_PENDING_PULLS, ReleafPolicy

ARMS = ["news", "games", "sports"]


def best_arm(context: dict[str, Any]) -> str:
    return "games" if context["weekend"] else "news" if context["hour"] < 12 else "sports"


def log(steps: int, seed: int = 0) -> list[tuple[list[str], dict[str, Any], str, bool]]:
    """A log of arms pulled by chance, where weekend and hour decide which is the best."""
    rng = random.Random(seed)
    rows = []
    for _ in range(steps):
        context = {"hour": rng.uniform(0, 24), "weekend": rng.random() < 0.3, "idle": rng.gauss(0, 50)}
        arm = rng.choice(ARMS)
        rows.append((ARMS, context, arm, best_arm(context) == arm))
    return rows


def share(policy: Any, history: Any) -> float:
    total, pulls = bandit.evaluate_offline(policy, history)
    return float(total.get() / pulls)


class Levers:
    """A Gym environment in all that River asks of it: levers that pay with fixed probabilities."""

    class Space:
        n = 4

        def seed(self, seed: int) -> None:
            pass

    def __init__(self, steps: int) -> None:
        self.steps, self.action_space = steps, self.Space()

    def reset(self, seed: int) -> None:
        self.rng, self.taken = random.Random(seed), 0

    def step(self, arm: int) -> tuple[None, float, bool, bool, dict[str, Any]]:
        self.taken += 1
        return None, float(self.rng.random() < 0.2 * (arm + 1)), False, self.taken >= self.steps, {}


# --- River's evaluations ----------------------------------------------------------------------------------


def test_it_is_evaluated_offline_and_finds_the_features_that_matter() -> None:
    policy = ReleafPolicy(seed=0)
    total, pulls = bandit.evaluate_offline(policy, log(6_000))
    assert pulls == policy._n == sum(policy._counts.values())
    assert total.get() / pulls > 0.9
    assert policy.learner.actions == tuple(ARMS)
    assert policy.learner.schema.features == (
        releaf.Quantile(missing=True),
        releaf.Boolean(missing=True),
        releaf.Quantile(missing=True),
    )
    assert policy.learner.relevance()[:, 2].max() < 0.1  # idle
    assert policy.learner.observations == pulls


def test_it_is_evaluated_on_an_environment_without_contexts() -> None:
    policies = [ReleafPolicy(seed=1, optimism=1.0), bandit.EpsilonGreedy(epsilon=0.5, seed=1)]
    rows = list(bandit.evaluate(policies, Levers(300), n_episodes=10, seed=2))
    assert len(rows) == 10 * 300 * 2
    assert {row["arm"] for row in rows} == {0, 1, 2, 3}
    late = [row["arm"] for row in rows if row["policy_idx"] == 0 and row["step"] >= 150]
    assert late.count(3) / len(late) > 0.85
    final = {(row["episode"], row["policy_idx"]): row["reward_stat"] for row in rows}
    assert sum(final[episode, 0] for episode in range(10)) > sum(final[episode, 1] for episode in range(10))


@pytest.mark.parametrize(("dataset", "steps"), [(datasets.Phishing(), 2_500), (datasets.Bananas(), 3_000)])
def test_it_earns_more_than_rivers_own(dataset: Any, steps: int) -> None:
    """LinUCB gets contexts that are scaled and a constant, which it needs; ours are as they come."""
    rng = random.Random(0)
    cases = list(dataset)
    rng.shuffle(cases)
    history, scaled, scaler = [], [], preprocessing.StandardScaler()
    for step in range(steps):
        context, label = cases[step % len(cases)]
        scaler.learn_one(context)
        arm = rng.random() < 0.5
        history.append(([False, True], context, arm, label == arm))
        scaled.append(([False, True], scaler.transform_one(context) | {"constant": 1.0}, arm, label == arm))
    ours = share(ReleafPolicy(seed=0), history)
    assert ours > share(bandit.LinUCBDisjoint(seed=0), scaled) + 0.01
    assert ours > share(bandit.EpsilonGreedy(epsilon=0.1, seed=0), history) + 0.2


@pytest.mark.parametrize("policy", [releaf.LinUCB, releaf.LinTS, releaf.EpsilonGreedy, releaf.Random, releaf.UCB1])
def test_any_policy_of_releaf_can_be_wrapped(policy: Any) -> None:
    earned = share(ReleafPolicy(policy, seed=0), log(2_000))
    assert 0.25 < earned <= 1
    if policy is releaf.LinUCB:
        assert earned > 0.6


def test_options_reach_the_policy_and_its_labels_are_spared() -> None:
    frugal = ReleafPolicy(seed=0, label_budget=100)
    assert share(frugal, log(6_000)) > 0.8
    assert frugal.learner.label_budget == 100
    assert frugal.learner.observations <= 100 < frugal._n
    always = ReleafPolicy(releaf.Releaf, seed=0, observe="always")
    share(always, log(2_000))
    assert always.learner.observations == always._n


def test_the_same_seed_gives_the_same_pulls() -> None:
    history = log(500)
    twins = [ReleafPolicy(seed=3), ReleafPolicy(seed=3)]
    for arms, context, _, _ in history:
        pulled = [twin.pull(arms, context=context) for twin in twins]
        assert pulled[0] == pulled[1]
        for twin in twins:
            twin.update(pulled[0], context, best_arm(context) == pulled[0])


# --- River's own checks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("params", list(ReleafPolicy._unit_test_params()))
@pytest.mark.parametrize(
    "check",
    [
        common.check_repr,
        common.check_str,
        common.check_doc,
        common.check_clone_same_class,
        common.check_clone_is_idempotent,
        common.check_clone_changes_memory_addresses,
        common.check_clone_with_new_params_applies,
        common.check_repr_roundtrips_clone,
        common.check_get_params_matches_signature,
        common.check_mutate_can_be_idempotent,
        common.check_mutable_attributes_exist,
        common.check_init_has_default_params_for_tests,
        common.check_init_default_params_are_not_mutable,
        common.check_pickling_supports_roundtrip,
    ],
    ids=lambda check: check.__name__,
)
def test_rivers_checks_of_all_that_is_its(check: Any, params: dict[str, Any]) -> None:
    check(ReleafPolicy(**params))


def test_a_clone_has_learnt_nothing_and_a_copy_goes_on_alike() -> None:
    history = log(400)
    schema = {"hour": releaf.Continuous(0, 24)}
    policy = ReleafPolicy(releaf.LinTS, schema=schema, seed=5, burn_in=3, spread=0.7)
    bandit.evaluate_offline(policy, history)
    fresh = policy.clone()
    assert (fresh._n, fresh.learner, fresh.burn_in, fresh.options) == (0, None, 3, {"spread": 0.7})
    assert fresh.schema == schema
    for twin in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        again = copy.deepcopy(policy)
        for arms, context, _, _ in log(100, seed=1):
            arm = twin.pull(arms, context=context)
            assert arm == again.pull(arms, context=context)
            twin.update(arm, context, 1.0)
            again.update(arm, context, 1.0)
    with pytest.raises(ValueError, match="not a mutable attribute"):
        policy.mutate({"seed": 7})


# --- arms -------------------------------------------------------------------------------------------------


def test_burn_in_pulls_each_arm_first_and_learns_from_it() -> None:
    policy = ReleafPolicy(seed=0, burn_in=2)
    pulled = []
    for arms, context, _, _ in log(6):
        pulled.append(policy.pull(arms, context=context))
        policy.update(pulled[-1], context, best_arm(context) == pulled[-1])
    assert pulled == ["news", "news", "games", "games", "sports", "sports"]
    assert policy.learner.observations == 6
    assert policy.learner.pending == 0


def test_new_arms_are_added_and_only_arms_that_can_be_pulled_are() -> None:
    policy = ReleafPolicy(seed=0)
    for arms, context, _, _ in log(1_500):
        arm = policy.pull(arms[:2], context=context)
        policy.update(arm, context, best_arm(context) == arm)
    assert policy.learner.actions == ("news", "games")
    right = []
    for place, (arms, context, _, _) in enumerate(log(3_000, seed=1)):
        available = arms if place % 2 else ["sports", arms[place % 4 // 2]]
        arm = policy.pull(available, context=context)
        assert arm in available
        policy.update(arm, context, best_arm(context) == arm)
        if place > 1_500 and best_arm(context) in available:
            right.append(best_arm(context) == arm)
    assert policy.learner.actions == ("news", "games", "sports")
    assert sum(right) / len(right) > 0.9
    assert policy.ranking[0] in ARMS


def test_rewards_may_come_late_of_other_arms_and_before_any_pull() -> None:
    policy = ReleafPolicy(seed=0)
    history = log(1_200)
    for _, context, arm, reward in history:  # taught by a log, without a pull
        policy.update(arm, context, reward)
    assert policy.learner.observations == 1_200
    assert policy.learner.pending == 0
    contexts = [context for _, context, _, _ in log(200, seed=4)]
    pulled = [policy.pull(ARMS, context=context) for context in contexts]
    assert sum(map(str.__eq__, pulled, map(best_arm, contexts))) > 180
    for arm, context in reversed(list(zip(pulled, contexts, strict=True))):
        policy.update(arm, dict(context), best_arm(context) == arm)  # an equal context is as good
    assert policy.learner.observations == 1_400
    assert policy.learner.pending == len(policy._pulled) == 0


def test_pulls_that_are_never_updated_are_forgotten_in_the_end() -> None:
    policy = ReleafPolicy(releaf.UCB1, seed=0)
    for step in range(MAX_PENDING_PULLS + 50):
        policy.pull(["a", "b"], context={"x": float(step)})
    assert policy.learner.pending == len(policy._pulled) == MAX_PENDING_PULLS
    for _ in range(50):
        policy.pull(["a", "b"])  # always the same context
    assert policy.learner.pending == len(policy._pulled) == MAX_PENDING_PULLS


# --- contexts and rewards ---------------------------------------------------------------------------------


def test_features_may_disappear_and_appear_and_have_names_that_are_numbers() -> None:
    policy = ReleafPolicy(seed=0)
    rng = random.Random(0)
    for step in range(200):
        context = {0: rng.random(), 1: rng.random()}
        if step and rng.random() < 0.3:
            del context[1]
        if step and rng.random() < 0.3:
            context[2] = rng.random()
        arm = policy.pull([1, 2], context=context)
        policy.update(arm, context, float(arm == 1 + (context[0] > 0.5)))
    assert policy.learner.schema.names == ("0", "1")
    assert policy.learner.observations == 200
    policy.pull([1, 2])  # all of them missing
    assert ReleafPolicy(seed=0).pull(["a"], context={}) == "a"


def test_text_needs_a_schema() -> None:
    context = {"country": "DE", "age": 30}
    with pytest.raises(ValueError, match=r"feature 'country' is 'DE': text needs a schema, such as schema=\{'country'"):
        ReleafPolicy(seed=0).pull(["a", "b"], context=context)
    countries = {"country": releaf.Categorical("DE", "TR")}
    for schema in (countries, releaf.Schema(countries)):
        policy = ReleafPolicy(schema=schema, seed=0)
        policy.pull(["a", "b"], context=context)
        assert policy.learner.schema.names == ("country", "age")
        with pytest.raises(ValueError, match="feature 'country' is 'FR': expected one of 'DE', 'TR'"):
            policy.pull(["a", "b"], context={"country": "FR", "age": 30})


def test_rewards_are_scaled_first_or_have_a_range() -> None:
    scaled = ReleafPolicy(seed=0, reward_scaler=preprocessing.TargetMinMaxScaler(linear_model.LinearRegression()))
    euros = ReleafPolicy(seed=0, reward_range=(-50, 50), reward_obj=stats.Sum())
    for _, context, arm, reward in log(300):
        scaled.update(arm, context, 80.0 * reward - 20.0)
        euros.update(arm, context, 80.0 * reward - 30.0)
    assert scaled.learner.observations == euros.learner.observations == 300
    assert 0 < scaled._rewards["news"].get() < 1
    assert euros._rewards["news"].get() != 0


def test_a_reward_that_can_not_be_right_changes_nothing() -> None:
    policy = ReleafPolicy(seed=0)
    context = {"x": 0.5}
    arm = policy.pull(["a", "b"], context=context)
    with pytest.raises(ValueError, match=r"reward is 3.0: expected a number in \[0, 1\]"):
        policy.update(arm, context, 3)
    with pytest.raises(ValueError, match="the reward must be one number"):
        policy.update(arm, context, 1.0, 0.0)
    assert (policy._n, policy.learner.observations) == (0, 0)
    policy.update(arm, context, 1)
    assert (policy._n, policy.learner.observations) == (1, 1)
    with pytest.raises(ValueError, match="arm_ids is empty"):
        policy.pull([], context=context)


def test_policies_that_river_can_not_serve_are_refused() -> None:
    with pytest.raises(ValueError, match="needs the rewards of all actions"):
        ReleafPolicy(releaf.Releaf, observe="all-actions").pull(["a", "b"], context={"x": 1, "y": 2})
    with pytest.raises(TypeError, match="policy must be a policy class of releaf"):
        ReleafPolicy("LinUCB")  # type: ignore[arg-type]


def test_river_is_not_imported_with_releaf() -> None:
    script = "import sys, releaf; releaf.AdaptiveReleaf; assert 'river' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_budget_holds_whichever_arms_are_offered() -> None:
    policy = ReleafPolicy(label_budget=20, seed=0)
    draw = np.random.default_rng(0)
    for _ in range(600):
        context = {"x": float(draw.random())}
        arm = policy.pull([str(place) for place in draw.permutation(3)[:2]], context)
        policy.update(arm, context, float(draw.random() < 0.5))
    assert policy.learner.observations <= 20


def test_a_date_is_taken_apart() -> None:
    policy = ReleafPolicy(seed=0)
    for day in range(1, 29):
        arm = policy.pull(["a", "b"], context={"when": datetime(2024, 1, day), "x": 0.5})
        policy.update(arm, {"when": datetime(2024, 1, day), "x": 0.5}, 1.0)
    assert policy.pull(["a", "b"], context={"when": datetime(2041, 1, 1), "x": 0.5}) in ("a", "b")
    assert policy.learner.schema.names[:2] == ("when: weekday", "when: hour")
