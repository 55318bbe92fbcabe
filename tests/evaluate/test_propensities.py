"""Estimated propensities, overlap, and sensitivity to hidden confounders."""

from __future__ import annotations

import builtins
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from planted_logs import FEATURES, planted_log

from releaf import evaluate
from releaf.features import Categorical, Continuous
from releaf.schema import Schema
from releaf.streams import Log

pytest.importorskip("sklearn")


def without_propensities(log: Log) -> Log:
    return replace(log, probabilities=None)


@pytest.mark.parametrize("strength", [1.0, 2.0, 3.0])
def test_estimated_propensities_of_a_logistic_policy_cost_at_most_a_tenth_of_the_effective_rows(
    strength: float,
) -> None:
    shares = []
    for seed in range(5):
        planted = planted_log(3_000, seed, strength=strength)
        found = evaluate.estimate_propensities(without_propensities(planted.log), seed=seed)
        true_rows = evaluate.effective_rows(planted.log, planted.chosen)
        shares.append(evaluate.effective_rows(found.log, planted.chosen) / true_rows)
        assert abs(found.table - planted.propensities).mean() < 0.03
    assert min(shares) >= 0.9, shares


def test_a_strong_logistic_policy_costs_few_effective_rows_too() -> None:
    """Propensities from 0.002 on: a second logistic regression, for calibration, cost a sixth of the rows."""
    shares = []
    for seed in range(5):
        generator = np.random.default_rng(100 + seed)
        contexts = generator.random((8_000, 4))
        chances = np.exp(2.5 * contexts @ np.array([[2, 0, 0, 0], [0, 2, 0, 0], [0, 0, -2, 1.0]]).T)
        chances /= chances.sum(axis=1, keepdims=True)
        taken = (chances.cumsum(axis=1) < generator.random((8_000, 1))).sum(axis=1)
        chosen = (contexts[:, 1] * contexts[:, 2] > 0.3).astype(int)
        log = Log(contexts, taken, np.zeros(8_000), chances[np.arange(8_000), taken], 4, ("a", "b", "c"))
        found = evaluate.estimate_propensities(without_propensities(log), seed=seed)
        shares.append(evaluate.effective_rows(found.log, chosen) / evaluate.effective_rows(log, chosen))
    assert min(shares) >= 0.9, shares


def test_an_action_that_was_rarely_taken_has_its_share_as_propensity_and_is_a_problem() -> None:
    planted = planted_log(3_000, 0, strength=2.0)
    taken = planted.log.taken.copy()
    taken[[17, 1_700]] = 3
    log = replace(planted.log, taken=taken, probabilities=None, actions=(*planted.log.actions, "fax"))
    found = evaluate.estimate_propensities(log)
    assert found.rare == ("fax",)
    assert (found.table[:, 3] == 2 / 3_000).all()
    assert found.table.sum(axis=1) == pytest.approx(1.0)
    assert abs(found.table[:, :3] - planted.propensities).mean() < 0.03
    always = evaluate.overlap(found, np.full(3_000, 3))
    assert "the log rarely took 'fax': its propensity is its share of all rows" in always.problems[-1]
    assert not evaluate.overlap(found, planted.chosen).rare


def test_each_fold_has_its_share_of_a_rare_action() -> None:
    from releaf.evaluate.reward_models import random_folds

    taken = np.array([1] * 7 + [0] * 93)
    fold_of = random_folds(100, 5, 0, taken)
    assert np.bincount(fold_of).tolist() == [20] * 5
    assert sorted(np.bincount(fold_of[:7], minlength=5).tolist()) == [1, 1, 1, 2, 2]


@pytest.mark.parametrize("how", ["numbers", "categories"])
def test_columns_of_propensity_models_are_those_of_the_dense_matrix(how: str) -> None:
    from releaf.ensembles.experts import columns_of
    from releaf.evaluate.propensity_columns import sparse_columns, tree_columns

    generator = np.random.default_rng(0)
    number = Continuous(0.0, 1.0, missing=True)
    schema = Schema(x=number, y=Categorical(range(300)) if how == "categories" else number)
    rows = [[None if row % 9 == 0 else generator.random(), int(generator.integers(2))] for row in range(500)]
    units, masks = schema.encoder().encode_many(rows), generator.random((500, 2)) < 0.5
    dense = np.column_stack([columns_of(units, schema), masks])
    assert (sparse_columns(units, schema, masks).toarray() == dense).all()
    columns, coded = tree_columns(units, schema, masks)
    assert coded == ([1] if how == "categories" else [])
    assert columns.shape == (500, 4)
    assert columns[:, coded].max(initial=0) < 254


def test_intervals_with_estimated_propensities_hold_the_truth() -> None:
    held = dict.fromkeys(("ips", "snips", "dm", "dr", "sndr", "switch-dr"), 0)
    logs = 40
    for seed in range(logs):
        planted = planted_log(1_000, seed, strength=2.0)
        log = evaluate.estimate_propensities(without_propensities(planted.log), seed=seed).log
        for name, found in evaluate.estimate_all(log, planted.chosen, reward_range=(0, 1)).items():
            held[name] += found.low <= planted.truth <= found.high
    assert all(count / logs >= 0.87 for count in held.values()), held  # 95 % less 2.5 standard errors


def confounded(rows: int, seed: int) -> tuple[Log, float]:
    """A log in which something that nobody recorded makes both action "a" and a reward more likely; true value of a."""
    generator = np.random.default_rng(seed)
    contexts, hidden = generator.random((rows, 3)), generator.random(rows) < 0.5
    first = np.where(hidden, 0.75, 0.25)
    taken = (generator.random(rows) > first).astype(int)
    expected = np.where(hidden, 0.8, 0.2)  # whatever the action
    rewards = (generator.random(rows) < expected).astype(float)
    return Log(contexts, taken, rewards, None, FEATURES, ("a", "b")), 0.5


def test_hidden_confounders_deceive_the_estimate_and_the_sensitivity_bounds_hold_the_truth() -> None:
    """The hidden odds are 3 and 1/3 where the features say 1: Λ = 3 covers that, Λ = 1 does not."""
    log, truth = confounded(20_000, 0)
    known, chosen = evaluate.estimate_propensities(log).log, np.zeros(20_000, dtype=int)
    none, strong = evaluate.sensitivity(known, chosen, [1.0, 3.0])
    assert none.low95 > truth + 0.1
    assert strong.low95 < truth < strong.high95
    assert evaluate.snips(known, chosen).value == pytest.approx(none.low, rel=1e-9)
    limit = evaluate.breakdown(known, chosen, truth)
    assert 1.7 < limit < 0.65 / 0.35  # with propensities ½ and a rate of 0.65, rewards reach ½ at Λ = 0.65 / 0.35
    assert evaluate.breakdown(known, chosen, 0.9) == 0.0


def test_sensitivity_bounds_are_the_extremes_over_all_weights() -> None:
    planted = planted_log(14, 3, strength=2.0)
    rewards = np.random.default_rng(0).random(14)
    log = replace(planted.log, rewards=rewards)
    matched = np.flatnonzero(log.taken == planted.chosen)
    assert 3 < len(matched) < 12
    odds = 1.0 / log.probabilities[matched] - 1.0  # type: ignore[index]
    values = []
    for corner in itertools.product((0.5, 2.0), repeat=len(matched)):
        weights = 1.0 + odds * np.array(corner)
        values.append(weights @ rewards[matched] / weights.sum())
    (bound,) = evaluate.sensitivity(log, planted.chosen, [2.0])
    assert (bound.low, bound.high) == pytest.approx((min(values), max(values)), rel=1e-12)


def test_propensities_are_calibrated_where_the_policy_is_not_logistic() -> None:
    generator = np.random.default_rng(0)
    contexts = generator.random((12_000, 3))
    first = np.where((contexts[:, 0] > 0.5) ^ (contexts[:, 1] > 0.5), 0.85, 0.15)
    taken = (generator.random(12_000) > first).astype(int)
    log = Log(contexts, taken, np.zeros(12_000), None, FEATURES, ("a", "b"))
    found = evaluate.estimate_propensities(log)
    assert found.classifier == "HistGradientBoostingClassifier"
    assert abs(found.table[:, 0] - first).mean() < 0.05
    for part in found.calibration():
        assert part.observed == pytest.approx(part.predicted, abs=0.07)
    assert found.log_loss < 0.75 * found.base_loss


def test_a_classifier_that_is_not_calibrated_is_calibrated() -> None:
    """Naive Bayes on features that repeat each other is far too sure."""
    from sklearn.naive_bayes import GaussianNB

    planted = planted_log(6_000, 0, strength=3.0)
    columns = np.repeat(planted.log.contexts, 4, axis=1)
    log = replace(planted.log, contexts=columns, features=tuple(f"x{i}" for i in range(12)), probabilities=None)
    found = evaluate.estimate_propensities(log, classifier=GaussianNB())
    worst = max(abs(part.observed - part.predicted) for part in found.calibration())
    assert worst < 0.05
    assert found.classifier == "GaussianNB"


def test_categories_missing_values_and_actions_that_were_never_taken() -> None:
    generator = np.random.default_rng(1)
    plans = generator.choice(["a", "b", "c"], 2_000)
    ages = [
        None if missing else age
        for missing, age in zip(generator.random(2_000) < 0.2, generator.random(2_000), strict=True)
    ]
    schema = Schema({"plan": Categorical(["a", "b", "c"]), "age": Continuous(0.0, 1.0, missing=True)})
    first = np.where(plans == "a", 0.8, 0.3)
    taken = (generator.random(2_000) > first).astype(int)
    contexts = [[plan, age] for plan, age in zip(plans.tolist(), ages, strict=True)]
    log = Log(contexts, taken, np.zeros(2_000), None, schema, ("x", "y", "never"))
    found = evaluate.estimate_propensities(log)
    assert found.table[plans == "a", 0].mean() == pytest.approx(0.8, abs=0.05)
    assert (found.table[:, 2] == 0.0).all()


def test_what_can_not_be_estimated_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    log = replace(planted_log(4, 0).log, taken=np.array([1, 1, 0, 0]))
    with pytest.raises(ValueError, match="no action was taken in 5 rows or more, one per fold: the log has 4 rows"):
        evaluate.estimate_propensities(log)
    log = planted_log(100, 0).log
    with pytest.raises(ValueError, match="lambdas must be finite numbers of at least 1"):
        evaluate.sensitivity(log, np.zeros(100, dtype=int), [0.5])
    real = builtins.__import__

    def without_sklearn(name: str, *rest: Any, **further: Any) -> Any:
        if name.startswith("sklearn"):
            raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn")
        return real(name, *rest, **further)

    monkeypatch.setattr(builtins, "__import__", without_sklearn)
    with pytest.raises(ModuleNotFoundError, match=r'needs scikit-learn: pip install "releaf\[sklearn\]"'):
        evaluate.estimate_propensities(planted_log(100, 0).log)


# --- overlap ----------------------------------------------------------------------------------------------------


def test_the_overlap_of_four_rows_worked_out_by_hand() -> None:
    """Weights 2, 4, 4, 0: the effective sample size is 10² / 36."""
    log = Log(
        np.zeros((4, 1)), np.array([0, 1, 1, 0]), np.ones(4), np.array([0.5, 0.25, 0.25, 0.8]), ("x",), ("a", "b")
    )
    found = evaluate.overlap(log, np.array([0, 1, 1, 1]))
    assert (found.rows, found.matched, found.mean_weight, found.largest_weight) == (4, 3, 2.5, 4.0)
    assert found.effective_rows == pytest.approx(100 / 36)
    assert found.variance_rows == pytest.approx(36**2 / (16 + 256 + 256))
    assert found.top_share == pytest.approx(0.4)
    assert (found.least_propensity, found.tiny_share, found.unsupported_share) == (0.25, 0.0, None)


def test_problems_of_overlap_are_told() -> None:
    good = planted_log(4_000, 0, strength=1.0)
    assert evaluate.overlap(good.log, good.chosen).problems == []
    halved = replace(good.log, probabilities=0.5 * np.asarray(good.log.probabilities))
    assert any("expected 1: the propensities are wrong" in p for p in evaluate.overlap(halved, good.chosen).problems)
    poor = planted_log(1_000, 0, strength=10.0)
    assert any("carry the variance" in problem for problem in evaluate.overlap(poor.log, poor.chosen).problems)
    estimated = evaluate.estimate_propensities(without_propensities(poor.log))
    found = evaluate.overlap(estimated, poor.chosen)
    assert found.unsupported_share is not None
    assert found.unsupported_share > 0.05
    assert any("nothing in the log tells" in problem for problem in found.problems)
