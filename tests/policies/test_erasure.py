"""Erasure: after it, no byte of a learner is of the contexts of the decisions, and it goes on as if reloaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance import POLICIES
from learner_comparison import full_state

import releaf
from releaf.core.adaptive import engine
from releaf.core.adaptive.state import FORGET_TO, LEARNT, NONE, ROWS, STARTED
from releaf.core.quantile_sketch import QuantileSketch
from releaf.policies.base import OnlinePolicy

SECRET = (0.123456789012345, 0.876543210987654)
FEATURES = ["x", "y", "z"]


def contexts(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random((count, 3))


def run(bandit: Any, rows: Any, secret_at: set[int] = frozenset()) -> list[int]:  # type: ignore[assignment]
    """Decide and learn row by row; returns the decisions with the secret values."""
    secret = []
    for row, context in enumerate(rows):
        if row in secret_at:
            context[:2] = SECRET
        choice = bandit.decide(context)
        if row in secret_at:
            secret.append(choice.id)
        if choice.wants_reward:
            action = bandit.actions.index(choice.action)
            rewards = [0.25 + 0.5 * context[2], 0.5]
            bandit.learn(choice, rewards if bandit.wants_all else rewards[action])
    return secret


def holds_secret(bandit: Any) -> bool:
    """Whether a value of the secret context is in the bytes, as a float64 or as a float32."""
    content = bandit.to_bytes()
    forms = [kind(value) for value in SECRET for kind in (np.float64, np.float32)]
    forms += [np.float64(np.float32(value)) for value in SECRET]
    return any(form.tobytes() in content for form in forms)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.__name__)
def test_no_context_of_erased_decisions_is_in_the_bytes_of_any_policy(policy: type[OnlinePolicy]) -> None:
    if policy.__module__.startswith("releaf.ensembles"):
        pytest.skip("an ensemble holds predictors that its user trained, and no contexts")
    bandit: Any = policy(["a", "b"], FEATURES, seed=0)  # type: ignore[call-arg]
    secret = run(bandit, contexts(120), secret_at={3, 7, 60, 61, 119})
    pending = bandit.decide([*SECRET, 0.5]).id
    bandit.erase({*secret, pending})
    assert not holds_secret(bandit)
    again = releaf.from_bytes(bandit.to_bytes())
    later = contexts(60, seed=1)
    run(bandit, later.copy())
    run(again, later.copy())
    assert full_state(bandit) == full_state(again)


@pytest.mark.parametrize("secret_at", [{0}, {5, 6, 7}, set(range(40)), {299}, set(range(100, 300))])
@pytest.mark.parametrize("rule", [{}, {"label_budget": 200}, {"forget": 64}], ids=str)
def test_an_adaptive_learner_without_erased_rows_goes_on_bit_for_bit_as_its_copy(
    secret_at: set[int], rule: dict[str, Any]
) -> None:
    bandit = releaf.AdaptiveReleaf(["a", "b"], FEATURES, seed=0, **rule)
    before = run(bandit, contexts(300), secret_at)
    assert holds_secret(bandit) == bool(before)
    learnt = [int(sample.counts[LEARNT]) for sample in bandit._engine.samples]
    rows = sum(int(sample.counts[ROWS]) for sample in bandit._engine.samples)
    erased = bandit.erase(set(before))
    assert erased > 0
    assert not holds_secret(bandit)
    assert [int(sample.counts[LEARNT]) for sample in bandit._engine.samples] == learnt
    assert sum(int(sample.counts[ROWS]) for sample in bandit._engine.samples) <= rows
    again = releaf.from_bytes(bandit.to_bytes())
    later = contexts(200, seed=2)
    run(bandit, later.copy())
    run(again, later.copy())
    assert full_state(bandit) == full_state(again)
    bandit.erase(set(before))
    assert not holds_secret(bandit)


def test_an_erasure_while_a_model_is_fitted_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a fit that has started and not taken effect go too, and the fit is made of the others."""
    monkeypatch.setattr(engine, "AT_ONCE", 0)
    bandit = releaf.AdaptiveReleaf(["a"], FEATURES, seed=0)
    rows, tried = contexts(800), 0
    for row, context in enumerate(rows):
        context[:2] = SECRET if row % 10 == 0 else context[:2]
        bandit.learn(bandit.decide(context), 0.25 + 0.5 * context[2])
        if bandit._engine.samples[0].counts[STARTED] != NONE and row % 5 == 1 and tried < 8:
            tried += 1
            copy = releaf.from_bytes(bandit.to_bytes())
            copy.erase(set(range(1, row + 2, 10)))
            assert not holds_secret(copy)
            again = releaf.from_bytes(copy.to_bytes())
            run(copy, contexts(100, seed=3))
            run(again, contexts(100, seed=3))
            assert full_state(copy) == full_state(again)
    assert tried > 0


def test_rows_keep_their_decisions_when_a_sample_is_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SAMPLE_BYTES", 0)
    monkeypatch.setattr(engine, "LEAST_MOST_ROWS", 128)
    bandit = releaf.AdaptiveReleaf(["a"], FEATURES, seed=0)
    rows = contexts(2_500)
    run(bandit, rows)
    sample, state = bandit._engine.samples[0], bandit._state
    stored = int(sample.counts[ROWS])
    assert stored < 400
    assert np.array_equal(sample.contexts[:stored], rows[sample.steps[:stored] - 1].astype(np.float32))
    seen = int(state.seen_counts[0])
    assert np.array_equal(state.seen[:seen], rows[state.seen_steps[:seen] - 1].astype(np.float32))
    assert bandit.erase(set(sample.steps[:5].tolist())) >= 5


def test_a_learner_that_saw_other_decisions_only_loses_none_of_its_rows() -> None:
    bandit = releaf.AdaptiveReleaf(["a", "b"], FEATURES, seed=0)
    run(bandit, contexts(100))
    before = bandit.estimate(contexts(5, seed=4))
    assert bandit.erase({1_000}) == 0
    assert np.allclose(bandit.estimate(contexts(5, seed=4)), before, atol=0.2)
    assert bandit.observations == 100


def test_a_file_of_an_earlier_version_has_no_decisions_of_its_rows_and_loads() -> None:
    bandit = releaf.AdaptiveReleaf(["a", "b"], FEATURES, seed=0)
    run(bandit, contexts(50))
    arrays = {name: array for name, array in bandit._engine.learnt_arrays().items() if "steps" not in name}
    loaded = engine.MixtureEngine.from_arrays(bandit._engine.settings, 2, arrays)
    assert not any(sample.steps.any() for sample in loaded.samples)
    assert not loaded.state.seen_steps.any()


@pytest.mark.parametrize("rule", [{}, {"label_budget": 400}, {"forget": 64}, {"forget": "auto"}], ids=str)
def test_a_learner_decides_on_while_its_models_are_fitted_to_what_is_left(rule: dict[str, Any]) -> None:
    """With its earlier models; once they are replaced, nothing of the erased contexts is left."""
    bandit = releaf.AdaptiveReleaf(["a", "b"], FEATURES, seed=0, **rule)
    secret = run(bandit, contexts(400), set(range(0, 400, 7)))
    copy = releaf.from_bytes(bandit.to_bytes())
    for one in (bandit, copy):
        models = list(one._engine.models)
        assert one.begin_erasure(set(secret)) > 0
        assert all(model is before for model, before in zip(one._engine.models, models, strict=True))
        assert not holds_secret(one)
        between = contexts(150, seed=5)
        between[75:, 2] = 1.0 - between[75:, 2]  # perhaps a drift, which fits at once
        run(one, between)
        one.add_action("c")
        one.remove_action("b")
        one.wait_for_erasure()
        one.finish_erasure()
        assert not any(model in models for model in one._engine.models)
        assert not holds_secret(one)
    assert full_state(bandit) == full_state(copy)
    again = releaf.from_bytes(bandit.to_bytes())
    for one in (bandit, again):
        run(one, contexts(100, seed=6))
    assert full_state(bandit) == full_state(again)


def test_an_erasure_in_which_a_drift_is_found_leaves_no_model_of_before() -> None:
    bandit = releaf.AdaptiveReleaf(["a", "b"], FEATURES, seed=0, forget="auto")
    secret = run(bandit, contexts(300), set(range(0, 300, 7)))
    models = list(bandit._engine.models)
    bandit.begin_erasure(set(secret))
    for sample in bandit._engine.samples:  # what a drift of one action leaves of the other
        sample.counts[[STARTED, FORGET_TO]] = NONE, sample.counts[LEARNT] - 20
    bandit.finish_erasure()
    assert not any(model in models for model in bandit._engine.models)
    assert all(sample.counts[ROWS] <= 20 for sample in bandit._engine.samples)
    assert full_state(releaf.from_bytes(bandit.to_bytes())) == full_state(bandit)


# --- quantiles ----------------------------------------------------------------------------------------------


def test_a_quantile_feature_keeps_no_single_value() -> None:
    schema = {"income": releaf.Quantile(), "age": releaf.Quantile(size=16)}
    bandit = releaf.AdaptiveReleaf(["a", "b"], schema, seed=0)
    incomes = np.random.default_rng(0).lognormal(10, 1, 101)
    choices = [bandit.decide([income, 40.0 + row]) for row, income in enumerate(incomes)]
    ranks = [bandit._encoder.sketches[0].rank(income) for income in incomes]
    bandit.erase({choices[50].id})
    content = bandit.to_bytes()
    assert not any(np.float64(income).tobytes() in content for income in incomes)
    moved = [bandit._encoder.sketches[0].rank(income) for income in incomes]
    assert np.abs(np.subtract(ranks, moved)).max() < 0.03


@pytest.mark.parametrize("scale", [1e-300, 1.0, -3.0, 1e300])
@pytest.mark.parametrize("count", [0, 1, 7, 64])
def test_a_rounded_sketch_is_sound_and_in_order(count: int, scale: float) -> None:
    sketch = QuantileSketch(32)
    values = np.random.default_rng(count).lognormal(size=count) * scale
    for value in values:
        sketch.add(value)
    ranks = [sketch.rank(value) for value in values]
    sketch.round_values()
    state = sketch.state()
    assert not np.isin(values, state).any()
    again = QuantileSketch(32)
    again.restore(state)
    assert np.array_equal(again.state(), state)
    if count > 1:  # the only value is the median, and after the rounding the lowest or the highest
        assert np.allclose([again.rank(value) for value in values], ranks, atol=0.15)
    again.round_values()
    assert np.array_equal(again.state(), state)
