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
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import releaf
from releaf.sklearn import AdaptiveReleafClassifier, ReleafClassifier

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
    model: Any = ReleafClassifier(random_state=0).partial_fit([[0.0, 0.0]], ["a"], classes=["a", "b", "c"])
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


def test_a_column_of_time_spans_is_refused() -> None:
    table, y = mixed_table(20, seed=0)
    table["since"] = pd.Timedelta("1 day")
    with pytest.raises(ValueError, match=r"column 'since' holds timedelta64.*: expected numbers, text, categories"):
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
    model: Any = AdaptiveReleafClassifier(random_state=0)
    for width in (1, 2, 4, 8):
        X = draw.uniform(-width, width, size=(300, 2))
        model.partial_fit(X, X[:, 0] > 0, classes=[False, True])
    high = model.learner_.schema.features[0].high
    assert 7.5 < high < 8
    model.partial_fit([[99.0, 0.0]] * 3000, [True] * 3000)
    assert model.learner_.schema.features[0].high == high
    assert model.labels_used_ == 4200


def test_categories_that_come_early_are_learnt() -> None:
    model: Any = AdaptiveReleafClassifier(random_state=0)
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


def test_text_among_numbers_is_refused_and_forgotten() -> None:
    table, y = mixed_table(30, seed=0)
    model = AdaptiveReleafClassifier(random_state=0).fit(table, y)
    wrong = table.astype({"age": object})
    wrong.loc[3, "age"] = "old"
    for act in (model.partial_fit, model.score):
        with pytest.raises(ValueError, match=r"column 'age': .*'old'; expected numbers, as in the first rows"):
            act(wrong, y)
    assert model.partial_fit(table, y).labels_used_ == 60
    assert model.learner_.schema.features[0].kind == "continuous"


def test_releaf_observes_in_one_of_four_ways() -> None:
    with pytest.raises(ValueError, match=r"observe must be one of 'labels', 'all-actions', .* got observe='all'"):
        ReleafClassifier(observe="all").fit(*IRIS)  # type: ignore[arg-type]
