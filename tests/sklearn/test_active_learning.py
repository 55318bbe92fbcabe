"""Classifiers that ask for labels where they are worth it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import train_test_split

from releaf.sklearn import AdaptiveReleafClassifier, ReleafClassifier

IRIS: Any = load_iris(return_X_y=True)


def cases() -> Any:
    X, y = load_breast_cancer(return_X_y=True)
    return train_test_split(X, y, random_state=0, test_size=0.4)


RULES = [{"label_budget": 60}, {"observation_cost": 0.5}, {"delta": 0.05, "epsilon": 0.1}]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_fit_looks_only_at_labels_it_asks_for(rule: dict[str, Any]) -> None:
    X, late, y, right = cases()
    model = AdaptiveReleafClassifier(random_state=0, **rule).fit(X, y)
    assert model.labels_used_ < len(X) / 2
    assert model.labels_used_ <= rule.get("label_budget", len(X))
    assert model.learner_.explorations == model.labels_used_
    assert model.learner_.pending == 0
    assert model.score(late, right) > 0.92


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_asking_changes_nothing(rule: dict[str, Any]) -> None:
    X, _, y, _ = cases()
    model = AdaptiveReleafClassifier(random_state=0, **rule).fit(X[:40], y[:40])
    before = pickle.dumps(model.learner_)
    wanted = model.needs_label(X[40:80])
    assert pickle.dumps(model.learner_) == before
    assert wanted.dtype == bool
    assert np.array_equal(wanted, model.needs_label(X[40:80]))


def test_a_pool_is_labelled_until_nothing_is_worth_it() -> None:
    X, late, y, right = cases()
    model = AdaptiveReleafClassifier(label_budget=60, random_state=0).partial_fit(X[:10], y[:10], classes=[0, 1])
    left = np.arange(10, len(X))
    while (wanted := left[model.needs_label(X[left])]).size:
        some = wanted[: min(5, 60 - model.labels_used_)]
        model.partial_fit(X[some], y[some])
        left = np.setdiff1d(left, some)
    assert model.labels_used_ <= 60
    assert model.labels_used_ == model.learner_.explorations
    chance = AdaptiveReleafClassifier(random_state=0).fit(X[: model.labels_used_], y[: model.labels_used_])
    assert model.score(late, right) > max(0.95, chance.score(late, right))


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_stream_is_labelled_where_it_is_worth_it(rule: dict[str, Any]) -> None:
    X, late, y, right = cases()
    model = AdaptiveReleafClassifier(random_state=0, **rule).partial_fit(X[:2], y[:2], classes=[0, 1])
    for place in range(2, len(X)):
        row = X[place : place + 1]
        if model.needs_label(row)[0]:
            model.partial_fit(row, y[place : place + 1])
        else:
            model.pass_by(row)
    assert model.labels_used_ < len(X) / 2
    assert model.score(late, right) > 0.92
    assert f"{len(X)} decisions" in repr(model.learner_)


def test_labels_beyond_the_budget_are_learnt_but_not_asked_for() -> None:
    X, late, y, right = cases()
    model = AdaptiveReleafClassifier(label_budget=20, random_state=0).partial_fit(X, y, classes=[0, 1])
    assert model.labels_used_ == len(X)
    assert not model.needs_label(late).any()
    assert model.score(late, right) > 0.95


def test_every_label_is_wanted_where_nothing_limits_them() -> None:
    X, y = IRIS
    assert AdaptiveReleafClassifier(random_state=0).fit(X, y).needs_label(X).all()


def test_releaf_wants_labels_where_it_would_explore() -> None:
    X = np.random.default_rng(0).random((3000, 3))
    y = X[:, 0] > 0.5
    model = ReleafClassifier(random_state=0).partial_fit(X[:2], y[:2], classes=[False, True])
    assert model.needs_label(X[:20]).any()
    model.partial_fit(X, y)
    before = pickle.dumps(model.learner_)
    assert model.needs_label(X[:50]).mean() < 0.5
    assert pickle.dumps(model.learner_) == before
    assert model.labels_used_ == 3002


@pytest.mark.parametrize("observe", ["all-actions", "explored", "always"])
def test_releaf_as_in_the_paper(observe: Any) -> None:
    X, late, y, right = cases()
    model = ReleafClassifier(observe=observe, random_state=0).fit(X, y)
    assert model.learner_.observations == model.labels_used_
    assert (model.labels_used_ == len(X)) == (observe == "always")
    assert model.score(late, right) > 0.6
    assert model.partial_fit(late, right).score(X, y) > 0.6
