"""Policies learnt from logs, as estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import releaf
from releaf.sklearn import BanditPolicy


def a_log(rows: int = 2000) -> tuple[Any, Any, Any]:
    draw = np.random.default_rng(0)
    X, action = draw.normal(size=(rows, 3)) * [1, 50, 1], draw.choice(["wait", "treat"], rows)
    return X, action, np.where((action == "treat") == (X[:, 1] > 0), 250.0, -150.0)


LATE = np.array([[0.0, 60.0, 0.0], [0.0, -60.0, 0.0]])


@pytest.mark.parametrize("policy", ["AdaptiveReleaf", "Releaf", "LinUCB", "LinTS", "GreedyReleaf", "CMABRL"])
def test_policies_learn_from_logs(policy: str) -> None:
    X, action, reward = a_log()
    model = BanditPolicy(policy, random_state=0).fit(X, action, reward)
    assert model.predict(LATE).tolist() == ["treat", "wait"]
    assert model.actions_.tolist() == ["treat", "wait"]
    assert model.reward_range_ == (-150.0, 250.0)
    expected = model.decision_function(X)
    assert expected.shape == (2000, 2)
    known = ~np.isnan(expected).any(axis=1)
    assert (expected[known].argmax(axis=1) == (X[known, 1] < 0)).mean() > 0.9


def test_estimates_are_in_units_of_the_reward() -> None:
    X, action, reward = a_log()
    expected = BanditPolicy(random_state=0).fit(X, action, reward).decision_function(LATE)
    assert expected == pytest.approx(np.array([[250.0, -150.0], [-150.0, 250.0]]), abs=40)


def test_a_log_in_parts_with_a_new_action() -> None:
    X, action, reward = a_log()
    model = BanditPolicy(reward_range=(-200, 300), random_state=0)
    model.partial_fit(X[:500], action[:500], reward[:500]).partial_fit(
        X[500:], action=action[500:], reward=reward[500:]
    )
    assert model.predict(LATE).tolist() == ["treat", "wait"]
    model.partial_fit(X, np.full(2000, "refer"), np.full(2000, 300.0))
    assert model.actions_.tolist() == ["treat", "wait", "refer"]
    assert model.predict(LATE).tolist() == ["refer", "refer"]


def test_a_log_of_small_parts() -> None:
    """The first row tells neither a range of the columns nor one of the rewards, nor all actions."""
    X, action, reward = a_log(600)
    model = BanditPolicy(random_state=0)
    for start in range(0, 600, 20):
        model.partial_fit(X[start : start + 20], action[start : start + 20], reward[start : start + 20])
    late, _, _ = a_log(1000)
    assert ((model.predict(late) == "treat") == (late[:, 1] > 0)).mean() > 0.9
    single = BanditPolicy(random_state=0).partial_fit(X[:1], action[:1], reward[:1])
    assert np.isfinite(single.partial_fit(X, action, reward).decision_function(X)).all()
    assert single.reward_range_ == (-150.0, 250.0)


def test_a_learner_made_beforehand_is_copied() -> None:
    features = {f"x{i}": releaf.Continuous(-300, 300) for i in range(3)}
    bandit = releaf.LinUCB(["treat", "wait"], features, alpha=0.1, reward_range=(-150, 250))
    X, action, reward = a_log()
    model = clone(BanditPolicy(bandit)).fit(X, action, reward)
    assert model.predict(LATE).tolist() == ["treat", "wait"]
    assert "0 decisions" in repr(bandit)
    assert model.learner_.alpha == 0.1
    assert model.reward_range_ == (-150.0, 250.0)
    with pytest.raises(ValueError, match=r"expected a number in \[0, 1\]; set reward_range for other rewards"):
        BanditPolicy(releaf.LinUCB(["treat", "wait"], features)).fit(X, action, reward)


def test_logs_come_through_pipelines() -> None:
    X, action, reward = a_log()
    pipeline = make_pipeline(StandardScaler(), BanditPolicy(random_state=0))
    named = pipeline.fit(X, banditpolicy__action=action, banditpolicy__reward=reward).predict(LATE)
    placed = pipeline.fit(X, action, banditpolicy__reward=reward).predict(LATE)
    with sklearn.config_context(enable_metadata_routing=True):
        bandit = BanditPolicy(random_state=0).set_fit_request(action=True, reward=True)
        routed = make_pipeline(StandardScaler(), bandit).fit(X, action=action, reward=reward).predict(LATE)
    assert named.tolist() == placed.tolist() == routed.tolist() == ["treat", "wait"]


def test_rewards_beyond_the_first_ones() -> None:
    """While rows are few the range is found anew; later, and where it was given, they are refused."""
    X, action, reward = a_log(3000)
    early = BanditPolicy(random_state=0).partial_fit(X[:100], action[:100], reward[:100])
    early.partial_fit(X[:1], action[:1], [400.0])
    assert early.reward_range_ == (-150.0, 400.0)
    late = BanditPolicy(random_state=0).fit(X, action, reward)
    given = BanditPolicy(reward_range=(-150, 250), random_state=0).fit(X[:100], action[:100], reward[:100])
    for model in (late, given):
        before = model.decision_function(LATE)
        with pytest.raises(ValueError, match=r"reward of row 0 is 400.0: expected a number in \[-150, 250\]"):
            model.partial_fit(X[:1], action[:1], [400.0])
        assert np.array_equal(model.decision_function(LATE), before)
        model.partial_fit(X[:200], action[:200], reward[:200])


def test_options_go_to_the_policy() -> None:
    X, action, reward = a_log()
    model = BanditPolicy("LinUCB", options={"alpha": 0.25}, random_state=0).fit(X, action, reward)
    assert model.learner_.alpha == 0.25
    assert clone(model).get_params()["options"] == {"alpha": 0.25}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"policy": "Nobody"}, "policy is 'Nobody': expected a learner, or the name of one"),
        ({"policy": "Schema"}, "policy is 'Schema'"),
        ({"policy": "ContextualZooming"}, "ContextualZooming can't learn from a log"),
        ({"reward_range": (0, 1)}, r"reward of row 0 is .*: expected a number in \[0, 1\]; set reward_range"),
    ],
)
def test_bad_logs_are_told(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BanditPolicy(**given).fit(*a_log(50))


def test_a_log_needs_actions_and_rewards() -> None:
    X, action, reward = a_log(50)
    with pytest.raises(ValueError, match="needs the actions"):
        BanditPolicy().fit(X, reward=reward)
    with pytest.raises(ValueError, match="needs the rewards"):
        BanditPolicy().fit(X, action)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        BanditPolicy().fit(X, action, reward[:40])
    with pytest.raises(NotFittedError):
        BanditPolicy().predict(X)
