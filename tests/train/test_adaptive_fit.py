"""AdaptiveReleaf fitted to a log in parts: the same bytes for any division, what was planted, and what comes after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_logs import NAMES, SCHEMA, Table, log, mixed_log, shuffled, write

import releaf
from releaf.core.adaptive.state import ADDITIVE, FITTED, LINES, RATE, ROWS, SHARP_TREES, SMOOTH_TREES, STEADY_TREES
from releaf.executors import Local
from releaf.train import Report, adaptive_fit, fit_log

HERE = Local(1)
GRID = np.random.default_rng(9).random((400, 3))


def expected(contexts: Any) -> Any:
    """Expected rewards of the two actions of ``log``."""
    return 0.2 + 0.6 * np.asarray(contexts)[:, :2]


def rms(fitted: Any, truth: Any, contexts: Any = GRID) -> float:
    return float(np.sqrt(((fitted.estimate(contexts) - truth) ** 2).mean()))


@pytest.fixture
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of 500 rows at most, so that logs of thousands are thinned."""
    monkeypatch.setattr(adaptive_fit, "most_rows", lambda features, actions: 500)


# --- the same bytes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("probability", [None, "p"])
@pytest.mark.parametrize("sizes", ["all rows", "some rows"])
def test_files_row_groups_and_order_make_no_difference(
    tmp_path: Path, request: pytest.FixtureRequest, probability: str | None, sizes: str
) -> None:
    if sizes == "some rows":
        request.getfixturevalue("small_samples")
    table = log(6000)
    one = write(tmp_path / "one", table, 1, group=6000)
    many = write(tmp_path / "many", shuffled(table, 1), 7, group=100)
    straight = fit_log(one, NAMES, probability=probability, executor=HERE)
    assert any(sample.counts[RATE] for sample in straight._engine.samples) == (sizes == "some rows")
    for paths in (many, many[::-1], f"{tmp_path}/many/*.parquet"):
        assert fit_log(paths, NAMES, probability=probability, executor=HERE).to_bytes() == straight.to_bytes()


def test_workers_make_no_difference_neither_for_samples_nor_for_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, told = write(tmp_path, log(6000), 5, group=400), set()
    one = fit_log(paths, NAMES, executor=HERE)
    monkeypatch.setattr(adaptive_fit, "FITTED_HERE", 1000)
    for workers in (2, 5):
        with Local(workers) as executor:
            other = fit_log(paths, NAMES, executor=executor, progress=lambda what, *_: told.add(what))
        assert other.to_bytes() == one.to_bytes()
        assert np.array_equal(other.estimate(GRID), one.estimate(GRID))
    assert told == {"counting", "sampling", "fitting"}


def test_quantiles_categories_and_missing_values(tmp_path: Path) -> None:
    table = mixed_log(4000)
    likes = np.array([value is None for value in table["income"].to_pylist()]) | (table["plan"] == "b")
    table["reward"] = np.where(likes, 0.9, 0.1)
    fitted = fit_log(write(tmp_path / "a", table, 1), SCHEMA, executor=HERE)
    again = fit_log(write(tmp_path / "b", shuffled(table, 3), 6, group=90), SCHEMA, executor=HERE)
    assert again.to_bytes() == fitted.to_bytes()
    assert fitted.actions == ("call", "wait")
    contexts = [
        {"income": income, "age": 40, "plan": plan, "member": True}
        for income, plan in ((None, "a"), (20_000.0, "a"), (20_000.0, "b"), (1e6, "c"))
    ]
    assert fitted.estimate(contexts) == pytest.approx(np.array([[0.9, 0.1, 0.9, 0.1]] * 2).T, abs=0.05)
    rank = fitted._encoder.sketches[0].rank(float(np.nanmedian(np.asarray(table["income"], dtype=float))))
    assert rank == pytest.approx(0.5, abs=0.01)


def test_the_seed_is_that_of_the_learner_and_not_of_the_sample(tmp_path: Path) -> None:
    paths = write(tmp_path, log(500), 1)
    zero, also_zero = fit_log(paths, NAMES, executor=HERE), fit_log(paths, NAMES, executor=HERE, seed=0)
    one = fit_log(paths, NAMES, executor=HERE, seed=1)
    assert zero.to_bytes() == also_zero.to_bytes() != one.to_bytes()
    assert np.array_equal(zero.estimate(GRID), one.estimate(GRID))


# --- what was planted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", ["all rows", "some rows"])
def test_estimates_are_near_what_was_planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: str) -> None:
    if sizes == "some rows":
        monkeypatch.setattr(adaptive_fit, "most_rows", lambda features, actions: 3000)
    fitted = fit_log(write(tmp_path, log(20_000), 4, group=5000), NAMES, executor=HERE)
    assert fitted.steps == fitted.observations == 20_000
    assert rms(fitted, expected(GRID)) < (0.02 if sizes == "all rows" else 0.04)
    assert [row.argmax() for row in fitted.relevance()] == [0, 1]


def test_a_fit_is_as_good_as_learning_row_by_row(tmp_path: Path) -> None:
    table = log(5000)
    fitted = fit_log(write(tmp_path, table, 2), NAMES, executor=HERE)
    learner = releaf.AdaptiveReleaf([0, 1], NAMES, seed=0)
    learner.learn_log(np.column_stack([table[name] for name in NAMES]), table["action"], table["reward"])
    assert rms(fitted, expected(GRID)) < rms(learner, expected(GRID)) + 0.01


def test_the_experts_that_predict_the_last_rows_best_count_most(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    contexts, taken = draw.random((12_000, 3)), np.zeros(12_000, dtype=int)
    columns = dict(zip(NAMES, contexts.T, strict=True))
    mixed = (contexts > 0.5).sum(axis=1) % 2 == 1  # of all three features: neither lines nor tables of pairs help
    losses = []
    for number, chance in enumerate((0.2 + 0.6 * contexts[:, 0], 0.1 + 0.8 * mixed)):
        reward = (draw.random(12_000) < chance).astype(float)
        paths = write(tmp_path / str(number), {**columns, "action": taken, "reward": reward}, 1)
        losses.append(fit_log(paths, NAMES, executor=HERE)._engine.state.losses[0])
    straight, parity = losses
    assert straight[LINES] < 1 < min(straight[[SHARP_TREES, SMOOTH_TREES]]) - 5
    assert min(parity[[SHARP_TREES, SMOOTH_TREES, STEADY_TREES]]) == 0 < min(parity[[LINES, ADDITIVE]]) - 5


def test_rewards_of_another_range(tmp_path: Path) -> None:
    table = log(4000)
    unit = fit_log(write(tmp_path / "a", table, 1), NAMES, executor=HERE)
    wide = {**table, "reward": -5.0 + 15.0 * table["reward"]}
    fitted = fit_log(write(tmp_path / "b", wide, 3), NAMES, reward_range=(-5, 10), executor=HERE)
    assert fitted.reward_range == (-5.0, 10.0)
    assert fitted.estimate(GRID) == pytest.approx(-5 + 15 * unit.estimate(GRID))
    with pytest.raises(ValueError, match=r"00\.parquet, row \d+: 'reward' is -5.0: expected a number from 0 to 1"):
        fit_log(write(tmp_path / "b", wide, 3), NAMES, executor=HERE)


def discrete(count: int, seed: int = 0) -> Table:
    """Two features of three values each, and rewards of 0 and 1: thirty-six different rows."""
    draw = np.random.default_rng(seed)
    x, y = draw.integers(0, 3, (2, count)) / 2
    taken = draw.integers(0, 2, count)
    chance = np.where(taken == 1, 0.1 + 0.8 * x * y, 0.5)
    return {"x": x, "y": y, "action": taken, "reward": (draw.random(count) < chance).astype(float)}


@pytest.mark.usefixtures("small_samples")
def test_a_log_of_few_different_rows_is_counted(tmp_path: Path) -> None:
    table = discrete(50_000)
    fitted = fit_log(write(tmp_path / "a", table, 3, group=2000), ["x", "y"], executor=HERE)
    mixed = write(tmp_path / "b", shuffled(table, 1), 2)
    assert fit_log(mixed, ["x", "y"], executor=HERE).to_bytes() == fitted.to_bytes()
    contexts = np.array([[x, y] for x in (0, 0.5, 1) for y in (0, 0.5, 1)])
    means = [
        [table["reward"][(table["x"] == x) & (table["y"] == y) & (table["action"] == a)].mean() for a in (0, 1)]
        for x, y in contexts
    ]
    assert fitted.estimate(contexts) == pytest.approx(np.array(means), abs=0.08)


def test_contexts_of_any_frequency_are_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frequencies fall as 1 / rank, so that some contexts occur once, many some times and a few thousands of times."""
    monkeypatch.setattr(adaptive_fit, "most_rows", lambda features, actions: 4000)
    draw = np.random.default_rng(0)
    kinds, ranks = draw.random((20_000, 2)), np.floor(np.exp(draw.random(150_000) * np.log(20_000))).astype(int) - 1
    contexts, taken = kinds[ranks], np.zeros(150_000, dtype=int)
    rewards = (draw.random(150_000) < 0.2 + 0.6 * contexts[:, 0]).astype(float)
    table = {"x": contexts[:, 0], "y": contexts[:, 1], "action": taken, "reward": rewards}
    fitted = fit_log(write(tmp_path, table, 2, group=20_000), ["x", "y"], executor=HERE)
    for some in (kinds[:100], kinds[100:1000], kinds[1000:]):
        assert rms(fitted, 0.2 + 0.6 * some[:, :1], some) < 0.05


def test_a_row_that_is_nearly_all_of_a_log(tmp_path: Path) -> None:
    table = discrete(5000)
    for name in ("x", "y"):
        table[name][100:] = 0.5
    table["reward"][100:] = 1.0
    fitted = fit_log(write(tmp_path, table, 2), ["x", "y"], executor=HERE)
    assert fitted.steps == 5000
    assert fitted.estimate([[0.5, 0.5]]) == pytest.approx(np.ones((1, 2)), abs=0.02)


# --- weights ------------------------------------------------------------------------------------------------------


def biased(count: int, seed: int = 3) -> Table:
    """An action was taken mostly where w was high, which is no feature: its rewards look better than they are."""
    draw = np.random.default_rng(seed)
    w, y, z = draw.random((3, count))
    chance = np.where(w > 0.5, 0.9, 0.1)
    taken = (draw.random(count) < chance).astype(int)
    p = np.where(taken == 1, chance, 1 - chance)
    return {"y": y, "z": z, "action": taken, "reward": w, "p": p}


@pytest.mark.parametrize("sizes", ["all rows", "some rows"])
def test_weights_undo_what_the_log_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: str) -> None:
    if sizes == "some rows":
        monkeypatch.setattr(adaptive_fit, "most_rows", lambda features, actions: 3000)
    paths = write(tmp_path, biased(40_000), 2, group=5000)
    plain, weighted = (fit_log(paths, ["y", "z"], probability=p, executor=HERE) for p in (None, "p"))
    assert plain.estimate(GRID[:, :2]).mean(axis=0) == pytest.approx([0.3, 0.7], abs=0.02)
    assert weighted.estimate(GRID[:, :2]).mean(axis=0) == pytest.approx([0.5, 0.5], abs=0.03)
    assert weighted.observations == 40_000
    rates = [int(sample.counts[RATE]) for sample in weighted._engine.samples]
    assert rates == ([0, 0] if sizes == "all rows" else [1, 1])  # weights leave 4,000 of 20,000 rows


def test_weights_are_cut_and_counted(tmp_path: Path) -> None:
    table, report = log(400), Report()
    table["p"][:30] = 0.0005
    fitted = fit_log(write(tmp_path, table, 2, group=10), NAMES, probability="p", report=report, executor=HERE)
    assert (report.learnt, report.cut) == (400, 30)
    assert fitted.observations == 400
    assert releaf.from_bytes(fitted.to_bytes()).to_bytes() == fitted.to_bytes()  # no more rows than rewards


# --- few rows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 7, 8, 10, 11, 40])
def test_a_few_rows_are_enough(tmp_path: Path, count: int) -> None:
    fitted = fit_log(write(tmp_path, log(count), 1), NAMES, actions=[0, 1], executor=HERE)
    assert fitted.steps == fitted.observations == count
    assert all(sample.counts[FITTED] >= 8 for sample in fitted._engine.samples if sample.counts[ROWS] >= 8)
    again = releaf.from_bytes(fitted.to_bytes())
    assert np.array_equal(again.estimate(GRID), fitted.estimate(GRID))
    for context in GRID[:30]:
        fitted.learn(fitted.decide(context), 1.0)
    assert fitted.observations == count + 30


def test_an_action_that_is_rare_or_never_taken(tmp_path: Path) -> None:
    table = log(3000)
    table["action"][:], table["reward"] = 0, 0.2 + 0.6 * table["x"]
    table["action"][:5], table["reward"][:5] = 1, 1.0
    fitted = fit_log(write(tmp_path, table, 2), NAMES, actions=[0, 1, 2], executor=HERE)
    assert [int(sample.counts[ROWS]) for sample in fitted._engine.samples] == [2995, 5, 0]
    often, rare, never = fitted.estimate(GRID).mean(axis=0)
    assert often == pytest.approx(0.2 + 0.6 * GRID[:, 0].mean(), abs=0.05)
    assert rare > 0.6
    assert never == pytest.approx(0.5, abs=1e-12)
    assert {fitted.decide(context).action for context in GRID} <= {0, 1, 2}


def test_many_actions(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    table = {**log(6000), "action": draw.integers(0, 300, 6000)}
    paths = write(tmp_path, table, 2)
    fitted = fit_log(paths, NAMES, executor=HERE)
    assert len(fitted.actions) == 300
    assert fit_log(paths[::-1], NAMES, executor=HERE).to_bytes() == fitted.to_bytes()


# --- what comes after ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", ["all rows", "some rows"])
def test_a_fitted_learner_goes_on_as_its_saved_copy_does(
    tmp_path: Path, request: pytest.FixtureRequest, sizes: str
) -> None:
    if sizes == "some rows":
        request.getfixturevalue("small_samples")
    fitted = fit_log(write(tmp_path / "log", log(3000), 2), NAMES, executor=HERE)
    fitted.save(tmp_path / "saved")
    copy, draw = releaf.load(tmp_path / "saved"), np.random.default_rng(1)
    assert copy.to_bytes() == fitted.to_bytes()
    for context in draw.random((1500, 3)):
        choice, other = fitted.decide(context), copy.decide(context)
        assert (choice.action, choice.probability, choice.estimates) == (
            other.action,
            other.probability,
            other.estimates,
        )
        for learner, made in ((fitted, choice), (copy, other)):
            learner.learn(made, float(context[choice.index]))
    assert fitted.steps == fitted.observations == 4500
    assert fitted.to_bytes() == copy.to_bytes()


def test_a_fitted_learner_notices_a_change(tmp_path: Path) -> None:
    table = log(4000)
    table["reward"] = ((table["x"] > 0.5) == table["action"]).astype(float)
    fitted = fit_log(write(tmp_path, table, 2), NAMES, executor=HERE, forget="auto")
    contexts, taken = np.random.default_rng(2).random((1000, 3)), np.arange(1000) % 2
    fitted.learn_log(contexts, taken, ((contexts[:, 0] > 0.5) != taken).astype(float))
    assert max(int(sample.counts[ROWS]) for sample in fitted._engine.samples) < 600
    assert rms(fitted, np.column_stack([GRID[:, 0] > 0.5, GRID[:, 0] < 0.5])) < 0.2


def test_forgetting_keeps_as_many_rows_as_it_asks_for_and_then_the_latest(tmp_path: Path) -> None:
    fitted = fit_log(write(tmp_path, log(6000), 2), NAMES, executor=HERE, forget=500)
    assert [int(sample.counts[ROWS]) for sample in fitted._engine.samples] == [500, 500]
    assert [int(sample.counts[RATE]) for sample in fitted._engine.samples] == [0, 0]
    assert rms(fitted, expected(GRID)) < 0.12
    contexts = np.random.default_rng(2).random((3000, 3))
    fitted.learn_log(contexts, np.arange(3000) % 2, np.ones(3000))
    assert fitted.estimate(GRID).mean() > 0.95


def test_labels_that_a_learner_requests_are_counted_from_the_log_on(tmp_path: Path) -> None:
    fitted = fit_log(write(tmp_path, log(3000), 2), NAMES, executor=HERE, label_budget=20)
    assert fitted.labels_spent == 0
    for context in np.random.default_rng(2).random((2000, 3)):
        choice = fitted.decide(context)
        if choice.wants_reward:
            fitted.learn(choice, float(context[choice.index]))
    assert 0 < fitted.labels_spent <= 20


# --- merging ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", ["all rows", "some rows"])
def test_a_log_that_is_fitted_twice_merges_to_itself(
    tmp_path: Path, request: pytest.FixtureRequest, sizes: str
) -> None:
    if sizes == "some rows":
        request.getfixturevalue("small_samples")
    table = log(4000)
    one = fit_log(write(tmp_path / "a", table, 1), NAMES, executor=HERE)
    other = fit_log(write(tmp_path / "b", shuffled(table, 1), 3), NAMES, executor=HERE)
    assert one.merge(other).to_bytes() == one.to_bytes()


def test_what_two_halves_learnt_adds_up_to_the_whole(tmp_path: Path) -> None:
    table = log(16_000)
    halves = [{name: column[half] for name, column in table.items()} for half in (slice(8000), slice(8000, None))]
    one, other = (fit_log(write(tmp_path / str(n), half, 2), NAMES, executor=HERE) for n, half in enumerate(halves))
    whole, both = fit_log(write(tmp_path / "all", table, 2), NAMES, executor=HERE), one.merge(other)
    assert (both.steps, both.observations) == (16_000, 16_000)
    assert both.to_bytes() == other.merge(one).to_bytes()
    assert rms(both, whole.estimate(GRID)) < 0.02
    assert rms(both, expected(GRID)) < 0.03


def test_equal_rows_of_different_logs_count_twice(tmp_path: Path) -> None:
    table = discrete(500)
    more = {name: np.append(column, column[:1]) for name, column in table.items()}
    one = fit_log(write(tmp_path / "a", table, 1), ["x", "y"], executor=HERE)
    other = fit_log(write(tmp_path / "b", more, 1), ["x", "y"], executor=HERE)
    assert one.merge(other).observations == 1001


def test_learners_that_went_on_from_one_fit_share_its_rows(tmp_path: Path) -> None:
    fitted = fit_log(write(tmp_path, log(2000), 2), NAMES, executor=HERE)
    parts = [releaf.from_bytes(fitted.to_bytes()) for _ in range(2)]
    for seed, part in enumerate(parts):
        contexts = np.random.default_rng(seed).random((300, 3))
        part.learn_log(contexts, np.arange(300) % 2, contexts[:, 0])
    both = parts[0].merge(parts[1])
    assert (both.steps, both.observations) == (2600, 2600)
    assert fitted.merge(parts[0]).observations == 2300


# --- what is wrong ------------------------------------------------------------------------------------------------


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    table = log(100)
    table["y"][7], table["reward"][60] = 3.0, -1.0
    paths = write(tmp_path, table, 2, group=10)
    with pytest.raises(ValueError, match=r"00\.parquet, row 7: feature 'y' is 3.0"):
        fit_log(paths, NAMES, executor=HERE)
    report = Report()
    assert fit_log(paths, NAMES, skip_bad=True, report=report, executor=HERE).steps == 98
    assert (report.learnt, report.left_out, [line for line, _ in report.problems]) == (98, 2, [7, 10])
    with pytest.raises(ValueError, match=r"policy must be AdaptiveReleaf or Releaf, which can be .*LinUCB"):
        fit_log(paths, NAMES, policy=releaf.LinUCB)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="rho"):
        fit_log("nowhere", NAMES, rho=2.0)
    with pytest.raises(ValueError, match="reward_range must be"):
        fit_log("nowhere", NAMES, reward_range=(1, 0))


def test_rows_after_the_fit_are_few(tmp_path: Path) -> None:
    """Models are fitted to most rows, and learn the others one by one, as online."""
    fitted = fit_log(write(tmp_path, log(40_000), 2, group=10_000), NAMES, executor=HERE)
    for sample in fitted._engine.samples:
        assert sample.counts[ROWS] - sample.counts[FITTED] == 4096
