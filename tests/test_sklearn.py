"""The estimators: scikit-learn's own checks, tables, active learning, and policies learnt from logs."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import releaf
from releaf.sklearn import AdaptiveReleafClassifier, BanditPolicy, ReleafClassifier

CLASSIFIERS = [AdaptiveReleafClassifier, ReleafClassifier]
IRIS: Any = load_iris(return_X_y=True)


@parametrize_with_checks([AdaptiveReleafClassifier(), ReleafClassifier()])  # type: ignore[untyped-decorator]
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    "rule", [{"label_budget": 40}, {"observation_cost": 0.1}, {"delta": 0.1, "epsilon": 0.2}], ids=str
)
def test_scikit_learns_own_checks_of_a_classifier_that_asks(rule: dict[str, Any]) -> None:
    outcomes = check_estimator(AdaptiveReleafClassifier(**rule), on_skip=None)
    assert [each["check_name"] for each in outcomes if each["status"] != "passed"] in ([], ["check_array_api_input"])


# --- predictions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "adaptive", "paper"),
    [(load_iris, 0.93, 0.85), (load_wine, 0.95, 0.85), (load_breast_cancer, 0.95, 0.85)],
)
def test_predictions_are_good(load: Any, adaptive: float, paper: float) -> None:
    X, y = load(return_X_y=True)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    assert cross_val_score(AdaptiveReleafClassifier(random_state=0), X, y, cv=folds).mean() > adaptive
    assert cross_val_score(ReleafClassifier(random_state=0), X, y, cv=folds).mean() > paper


def test_ten_classes_are_told_apart() -> None:
    X, late, y, right = train_test_split(*load_digits(return_X_y=True), random_state=0)
    assert AdaptiveReleafClassifier(random_state=0).fit(X, y).score(late, right) > 0.94


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("names", [["a", "b", "c"], [10, 20, 30], [1.0, 2.0, 7.0]], ids=str)
def test_classes_of_all_kinds_come_back_as_they_are(kind: Any, names: list[Any]) -> None:
    X, y = IRIS
    model = kind(random_state=0).fit(X, np.array(names)[y])
    assert model.classes_.tolist() == names
    assert list(model.learner_.actions) == names
    assert set(model.predict(X)) == set(names)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_booleans_are_classes(kind: Any) -> None:
    X, y = IRIS
    model = kind(random_state=0).fit(X, y == 1)
    assert model.predict(X).dtype == bool
    assert model.score(X, y == 1) > 0.8


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_probabilities_are_estimates_as_shares_of_their_sum(kind: Any) -> None:
    X, y = IRIS
    model = kind(random_state=0).fit(X, y)
    shares = model.predict_proba(X)
    assert shares.sum(axis=1) == pytest.approx(1.0)
    assert (shares.argmax(axis=1) == model.predict(X)).mean() > 0.99
    estimates = model.learner_.estimate(model._contexts(X))
    assert shares == pytest.approx(estimates / estimates.sum(axis=1, keepdims=True))


def test_probabilities_are_equal_where_nothing_is_expected() -> None:
    model = ReleafClassifier(random_state=0).partial_fit([[0.0, 0.0]], ["a"], classes=["a", "b", "c"])
    model.learner_.estimate = lambda contexts: np.zeros((len(contexts), 3))
    assert model.predict_proba([[0.0, 1.0]]).tolist() == [[1 / 3] * 3]


def test_the_features_that_matter_are_found() -> None:
    X = np.random.default_rng(0).normal(size=(2000, 5))
    y = np.where(X[:, 3] > 0, "up", "down")
    for kind in CLASSIFIERS:
        model = kind(random_state=0).fit(X, y)
        assert model.feature_relevance_.shape == (2, 5)
        assert model.feature_relevance_.argmax(axis=1).tolist() == [3, 3], kind


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_the_same_seed_gives_the_same_classifier(kind: Any) -> None:
    X, y = IRIS
    first, second = (kind(random_state=3).fit(X, y).predict_proba(X) for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_pickled_classifier_goes_on_as_the_other(kind: Any) -> None:
    X, y = IRIS
    model = kind(random_state=0).fit(X[::2], y[::2])
    again = pickle.loads(pickle.dumps(model))
    for each in (model, again):
        each.partial_fit(X[1::2], y[1::2])
    assert np.array_equal(model.predict_proba(X), again.predict_proba(X))


def test_the_order_of_classes_in_the_rows_does_not_matter_unless_asked_for() -> None:
    """Rows sorted by class, more than are kept to fit tables to."""
    draw = np.random.default_rng(0)
    X = draw.normal(size=(9000, 3))
    y = np.argmax(X + draw.gumbel(scale=0.2, size=X.shape), axis=1)
    order = np.argsort(y)
    mixed = AdaptiveReleafClassifier(random_state=0).fit(X, y).score(X, y)
    assert AdaptiveReleafClassifier(random_state=0).fit(X[order], y[order]).score(X, y) > mixed - 0.01


# --- in company -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_in_pipelines_and_searches(kind: Any) -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), kind(random_state=0))
    grid = {f"{kind.__name__.lower()}__shuffle": [True, False]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    best = search.best_estimator_[-1]
    assert best.feature_names_in_.tolist() == X.columns.tolist()
    assert best.learner_.schema.names == tuple(X.columns)
    assert search.best_score_ > 0.8
    assert clone(best).get_params() == best.get_params()


def test_a_schema_is_kept_by_clones() -> None:
    schema = releaf.Schema({f"x{place}": releaf.Continuous(0, 10) for place in range(4)})
    X, y = IRIS
    model = clone(AdaptiveReleafClassifier(features=schema, random_state=0)).fit(X, y)
    assert model.learner_.schema == schema
    assert model.score(X, y) > 0.9
    with pytest.raises(ValueError, match=r"feature 'x1' of row 0 is 11.0: expected a number in \[0, 10\]"):
        model.predict([[1.0, 11.0, 1.0, 1.0]])


def test_the_columns_of_a_table_are_those_of_the_schema() -> None:
    schema = releaf.Schema(kind=releaf.Categorical("x", "y"), size=releaf.Continuous(0, 1))
    table = pd.DataFrame({"kind": ["x", "y"] * 50, "size": np.linspace(0, 1, 100)})
    y = (table["kind"] == "x").to_numpy()
    assert AdaptiveReleafClassifier(features=schema, random_state=0).fit(table, y).score(table, y) == 1.0
    with pytest.raises(ValueError, match=r"columns \['size', 'kind'\]: expected those of features, in this order"):
        AdaptiveReleafClassifier(features=schema).fit(table[["size", "kind"]], y)


def test_nothing_of_scikit_learn_is_imported_before_it_is_needed() -> None:
    code = "import sys, releaf; releaf.AdaptiveReleaf(2, 2); assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_scikit_learn_the_error_tells_what_to_install() -> None:
    code = "import sys; sys.modules['sklearn'] = None\nimport releaf.sklearn"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'ImportError: releaf.sklearn needs scikit-learn: pip install "releaf[sklearn]"' in done.stderr


# --- tables -----------------------------------------------------------------------------------------------


def mixed_table(rows: int, seed: int) -> tuple[pd.DataFrame, Any]:
    draw = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": draw.integers(18, 90, rows),
            "income": np.where(draw.random(rows) < 0.2, np.nan, draw.lognormal(10, 1, rows)),
            "plan": draw.choice(["free", "plus", "team"], rows),
            "member": draw.random(rows) < 0.5,
            "region": pd.Categorical(draw.choice([1, 2, 3], rows)),
        }
    )
    pays = (table["plan"] != "free") & table["member"] | table["income"].isna()
    return table, np.where(pays, "pays", "leaves")


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_columns_become_features_of_their_kind(kind: Any) -> None:
    table, y = mixed_table(600, seed=0)
    model = kind(random_state=0).fit(table, y)
    kinds = [feature.kind for feature in model.learner_.schema.features]
    assert kinds == ["continuous", "continuous", "categorical", "boolean", "categorical"]
    assert [feature.missing for feature in model.learner_.schema.features[:2]] == [False, True]
    assert model.learner_.schema.features[4].values == (1, 2, 3)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_pandas_and_polars_tables_give_the_same(kind: Any) -> None:
    table, y = mixed_table(600, seed=0)
    other = pl.DataFrame({name: table[name].tolist() for name in table}).with_columns(
        pl.col("income").fill_nan(None), pl.col("region").cast(pl.String).cast(pl.Categorical)
    )
    first, second = kind(random_state=0).fit(table, y), kind(random_state=0).fit(other, y)
    assert np.array_equal(first.predict_proba(table), second.predict_proba(other))
    assert second.feature_names_in_.tolist() == list(table)


def test_mixed_tables_are_learnt_well() -> None:
    table, y = mixed_table(2000, seed=0)
    late, right = mixed_table(500, seed=1)
    model = AdaptiveReleafClassifier(random_state=0).fit(table, y)
    assert model.score(late, right) > 0.98
    learner = model.learner_  # takes the same rows by itself
    assert learner.decide(late.iloc[:1]).action == model.predict(late.iloc[:1])[0]


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_values_that_never_came_are_no_error(kind: Any) -> None:
    """New categories count as missing, numbers that are missing as the median, those beyond the range as its end."""
    table, y = mixed_table(2000, seed=0)
    model = kind(random_state=0).fit(table, y)
    strange = table.iloc[:4].astype({"plan": object, "age": float})
    strange["plan"], strange["age"] = ["gold", None, "free", "free"], [np.nan, np.nan, 1e9, -1e9]
    middle = strange.copy()
    middle["plan"], middle["age"] = [None, None, "free", "free"], [*[table["age"].median()] * 2, 1e9, -1e9]
    ends = middle.copy()
    ends["age"] = ends["age"].clip(table["age"].min(), table["age"].max())
    shares = model.predict_proba(strange)
    assert np.isfinite(shares).all()
    assert shares == pytest.approx(model.predict_proba(middle), abs=1e-3)
    assert np.array_equal(model.predict_proba(middle), model.predict_proba(ends))


def test_a_column_of_dates_is_refused() -> None:
    table, y = mixed_table(20, seed=0)
    table["since"] = pd.Timestamp("2024-01-01")
    with pytest.raises(ValueError, match=r"column 'since' holds datetime64.*: expected numbers, text, categories"):
        AdaptiveReleafClassifier().fit(table, y)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_missing_numbers_tell_something(kind: Any) -> None:
    X = np.random.default_rng(0).random((1500, 3))
    y = X[:, 1] < 0.4
    X[y, 1] = np.nan
    model = kind(random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
    model.partial_fit(X[:10], y[:10])


def test_infinite_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="infinity"):
        AdaptiveReleafClassifier().fit([[1.0, np.inf], [0.0, 1.0]], [0, 1])


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_very_large_numbers_are_fine(kind: Any) -> None:
    X = np.array([[-1.7e308, 1.0], [1.7e308, 1.0], *[[0.0, 1.0], [1e300, 1.0]] * 10])
    y = np.array([0, 1] * 11)
    assert np.isfinite(kind(random_state=0).fit(X, y).predict_proba(X)).all()


# --- a bit at a time --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("batch", [1, 7, 50])
def test_small_batches_teach_as_much_as_all_at_once(kind: Any, batch: int) -> None:
    """A first batch of one row tells no range; it is found while more rows come."""
    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    model = kind(random_state=0)
    for start in range(0, 120, batch):
        part = slice(start, min(start + batch, 120))
        model.partial_fit(X[part], y[part], classes=[0, 1, 2])
    whole = kind(random_state=0).fit(X[:120], y[:120])
    assert model.score(X[120:], y[120:]) > whole.score(X[120:], y[120:]) - 0.1
    assert model.labels_used_ == 120


def test_columns_settle_after_a_thousand_rows() -> None:
    draw = np.random.default_rng(0)
    model = AdaptiveReleafClassifier(random_state=0)
    for width in (1, 2, 4, 8):
        X = draw.uniform(-width, width, size=(300, 2))
        model.partial_fit(X, X[:, 0] > 0, classes=[False, True])
    high = model.learner_.schema.features[0].high
    assert 7.5 < high < 8
    model.partial_fit([[99.0, 0.0]] * 3000, [True] * 3000)
    assert model.learner_.schema.features[0].high == high
    assert model.labels_used_ == 4200


def test_categories_that_come_early_are_learnt() -> None:
    model = AdaptiveReleafClassifier(random_state=0)
    table = pd.DataFrame({"kind": ["x", "y", "z"] * 60, "size": np.arange(180.0)})
    y = (table["kind"] == "z").to_numpy()
    model.partial_fit(table.iloc[[0, 1]], y[:2], classes=[False, True])
    assert model.learner_.schema.features[0].values == ("x", "y")
    model.partial_fit(table, y)
    assert model.learner_.schema.features[0].values == ("x", "y", "z")
    assert model.score(table, y) == 1.0


def test_a_later_fit_forgets() -> None:
    X, y = IRIS
    model = AdaptiveReleafClassifier(random_state=0).fit(X, y).fit(X[:, :2], y == 0)
    assert model.n_features_in_ == 2
    assert model.classes_.tolist() == [False, True]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda model, x, y: model.partial_fit(x, y), "classes must be passed on the first call"),
        (lambda model, x, y: model.partial_fit(x, y, classes=[0, 1]), r"y has 2 in row \d+: expected one of \[0, 1\]"),
        (lambda model, x, y: model.fit(x, y).partial_fit(x, y, classes=[0, 9]), r"classes is \[0, 9\]: expected"),
        (lambda model, x, y: model.fit(x, y).partial_fit(x, y + 1), r"y has 3 in row \d+"),
        (lambda model, x, y: model.fit(x, y + 0.5), "Unknown label type"),
        (lambda model, x, y: model.fit(pd.DataFrame({"a": ["x"]})[:0], y[:0]), "0 sample"),
    ],
)
def test_bad_calls_are_told(act: Any, message: str) -> None:
    for kind in CLASSIFIERS:
        with pytest.raises(ValueError, match=message):
            act(kind(), *IRIS)


def test_before_a_fit_nothing_is_known() -> None:
    for ask in ("predict", "predict_proba", "needs_label", "pass_by"):
        with pytest.raises(NotFittedError):
            getattr(AdaptiveReleafClassifier(), ask)(IRIS[0])
    assert not hasattr(AdaptiveReleafClassifier(), "feature_relevance_")


def test_one_feature_is_too_few_for_releaf() -> None:
    with pytest.raises(ValueError, match="n_features = 1: expected 2 at least"):
        ReleafClassifier().fit([[0.0], [1.0]], [0, 1])


# --- labels where they are worth it -----------------------------------------------------------------------


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


# --- logs -------------------------------------------------------------------------------------------------


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
    bandit = releaf.LinUCB(["treat", "wait"], {f"x{i}": releaf.Continuous(-300, 300) for i in range(3)}, alpha=0.1)
    X, action, reward = a_log()
    model = clone(BanditPolicy(bandit)).fit(X, action, reward)
    assert model.predict(LATE).tolist() == ["treat", "wait"]
    assert "0 decisions" in repr(bandit)
    assert model.learner_.alpha == 0.1


def test_logs_come_through_pipelines() -> None:
    X, action, reward = a_log()
    pipeline = make_pipeline(StandardScaler(), BanditPolicy(random_state=0))
    named = pipeline.fit(X, banditpolicy__action=action, banditpolicy__reward=reward).predict(LATE)
    placed = pipeline.fit(X, action, banditpolicy__reward=reward).predict(LATE)
    with sklearn.config_context(enable_metadata_routing=True):
        bandit = BanditPolicy(random_state=0).set_fit_request(action=True, reward=True)
        routed = make_pipeline(StandardScaler(), bandit).fit(X, action=action, reward=reward).predict(LATE)
    assert named.tolist() == placed.tolist() == routed.tolist() == ["treat", "wait"]


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
        ({"reward_range": (0, 1)}, r"reward of row 0 is .*: expected a number in \[0, 1\]; give reward_range"),
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
