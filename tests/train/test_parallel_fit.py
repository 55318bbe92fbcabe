"""Releaf fitted to a log in parts: the same learner however the work is divided, and the one that the rule asks for."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plain_releaf import GRAIN
from training_logs import NAMES, SCHEMA, Table, log, mixed_log, shuffled, write

import releaf
from releaf import theory, train
from releaf.core.releaf import merging, summing
from releaf.core.releaf.state import EXPLOITED, HASHED
from releaf.executors import Local
from releaf.streams import batches
from releaf.train import Report, partition_fit

fit_log = partial(train.fit_log, policy=releaf.Releaf)


def in_plain_python(table: Table, rho: float) -> dict[tuple[Any, ...], list[float]]:
    """Rewards in each cell of the partition that the counts of all values lead to, for each pair and action."""

    def leaf(values: np.ndarray[Any, Any], value: float) -> tuple[int, int]:
        level, rank = 0, 0
        while True:
            low, high = rank / 2**level, (rank + 1) / 2**level
            inside = (values > low) & (values <= high) | ((values == 0) & (low == 0))
            if inside.sum() < 2 ** (rho * level):
                return level, rank
            level, rank = level + 1, 2 * rank + int(value > (low + high) / 2)

    cells: dict[tuple[Any, ...], list[float]] = {}
    columns = [np.asarray(table[name]) for name in NAMES]
    for row in range(len(table["reward"])):
        leaves = [leaf(column, column[row]) for column in columns]
        for i, j in itertools.combinations(range(3), 2):
            key = (i, j, leaves[i], leaves[j], int(table["action"][row]))
            cells.setdefault(key, []).append(float(table["reward"][row]))
    return cells


def cells_of(learner: releaf.Releaf) -> dict[tuple[Any, ...], tuple[int, float]]:
    known = merging.extract_statistics(learner._engine, learner.seed)
    top = 2**52
    leaves = [
        [(int(math.log2(top // int(w))), int(s) // int(w)) for s, w in zip(own.starts, own.widths, strict=True)]
        for own in known.leaves
    ]
    pairs = list(itertools.combinations(range(3), 2))
    found = {}
    for which, places, counts, sums in zip(*known.rows, strict=True):
        i, j = pairs[which]
        for action in range(len(counts)):
            if counts[action]:
                key = (i, j, leaves[i][places[0]], leaves[j][places[1]], action)
                found[key] = (int(counts[action]), float(sums[action]))
    return found


@pytest.fixture(params=["dense", "sparse"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for all cells of a tuple, or for those that were observed, added up often."""
    if request.param == "sparse":
        monkeypatch.setattr(summing, "DENSE_BELOW", 0)
        monkeypatch.setattr(summing, "ALWAYS_DENSE", 0)
        monkeypatch.setattr(summing, "LEAST_ADDED", 10)


@pytest.mark.usefixtures("way")
def test_cells_hold_all_rewards_on_the_partition_that_all_arrivals_lead_to(tmp_path: Path) -> None:
    table = log(700)
    fitted = fit_log(write(tmp_path, table, 2), NAMES, rho=2.0)
    expected = in_plain_python(table, 2.0)
    found = cells_of(fitted)
    assert found.keys() == expected.keys()
    for key, rewards in expected.items():
        assert found[key] == (len(rewards), math.fsum(rewards))
    assert fitted.steps == fitted.observations == 700
    assert [interval.arrivals for interval in fitted.partition("x")] == _arrivals(fitted, table["x"])


def _arrivals(fitted: Any, values: np.ndarray[Any, Any]) -> list[int]:
    return [
        int(((values > part.low) & (values <= part.high) | ((values == 0) & (part.low == 0))).sum())
        for part in fitted.partition("x")
    ]


def test_workers_files_and_row_groups_make_no_difference(tmp_path: Path) -> None:
    table = log(6000)
    one = fit_log(write(tmp_path / "one", table, 1, group=6000), NAMES, executor=Local(1)).to_bytes()
    many = write(tmp_path / "many", table, 7, group=100)
    assert fit_log(many, NAMES, executor=Local(2)).to_bytes() == one
    assert fit_log(many[::-1], NAMES, executor=Local(3)).to_bytes() == one
    assert fit_log(str(tmp_path / "many"), NAMES, executor=Local(1)).to_bytes() == one
    assert fit_log(f"{tmp_path}/many/*.parquet", NAMES).to_bytes() == one


def test_rows_in_another_order_make_no_difference(tmp_path: Path) -> None:
    table = log(3000)
    order = np.random.default_rng(1).permutation(3000)
    mixed = {name: np.asarray(column)[order] for name, column in table.items()}
    straight = fit_log(write(tmp_path / "a", table, 3), NAMES, probability="p")
    assert fit_log(write(tmp_path / "b", mixed, 5), NAMES, probability="p").to_bytes() == straight.to_bytes()


def test_many_cells_are_summed_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write(tmp_path, log(4000), 2)
    at_once = fit_log(paths, NAMES, rho=2.0, executor=Local(1)).to_bytes()
    monkeypatch.setattr(partition_fit, "MAX_CELLS", 100)
    assert fit_log(paths, NAMES, rho=2.0, executor=Local(1)).to_bytes() == at_once


def test_it_makes_no_difference_whether_cells_have_a_place_each_or_only_those_that_were_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = log(4000)
    one, many = write(tmp_path / "one", table, 1, group=4000), write(tmp_path / "many", table, 5, group=130)
    expected = fit_log(one, NAMES, rho=2.0, probability="p", executor=Local(1)).to_bytes()
    monkeypatch.setattr(summing, "LEAST_ADDED", 500)
    for below in (0, 1, 3):  # none, some, and more tuples of features have a place for each cell
        monkeypatch.setattr(summing, "DENSE_BELOW", below)
        monkeypatch.setattr(summing, "ALWAYS_DENSE", 0)
        for paths in (one, many, many[::-1]):
            assert fit_log(paths, NAMES, rho=2.0, probability="p", executor=Local(1)).to_bytes() == expected


def test_memory_follows_what_was_observed_not_the_product_of_all_intervals(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    count = 5000
    table = {
        **{name: draw.integers(0, 2000, count) for name in "ab"},
        "action": draw.integers(0, 4, count),
        "reward": draw.random(count),
    }
    paths = write(tmp_path, table, 2, group=1000)
    schema = releaf.Schema(a=releaf.Categorical(*range(2000)), b=releaf.Categorical(*range(2000)))
    fit_log(paths, schema, executor=Local(1))
    tracemalloc.start()
    try:
        fitted = fit_log(paths, schema, executor=Local(1))
        assert tracemalloc.get_traced_memory()[1] < 50 << 20  # a place for each would take 256 MB
    finally:
        tracemalloc.stop()
    cells = {(a, b, action) for a, b, action in zip(table["a"], table["b"], table["action"], strict=True)}
    assert np.count_nonzero(fitted._engine.state.counts) == len(cells)
    assert fitted._engine.clock(HASHED) == 1


def test_the_log_is_read_as_often_as_what_is_observed_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of five tuples of four features has far more cells than the log has rows."""
    draw = np.random.default_rng(0)
    names = list("vwxyz")
    table = {**{name: draw.random(600) for name in names}, "action": draw.integers(0, 2, 600), "reward": np.ones(600)}
    monkeypatch.setattr(partition_fit, "MAX_CELLS", 5 * 600)
    readings = set()
    paths = write(tmp_path, table, 1, group=600)
    fit_log(paths, names, gamma_rel=2, rho=1.5, executor=Local(1), progress=lambda what, *_: readings.add(what))
    assert readings == {"counting", "summing"}


def test_combinations_that_no_number_can_tell_apart_are_refused(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    names = list("uvwxyz")
    table = {**{name: draw.random(4000) for name in names}, "action": np.zeros(4000), "reward": np.ones(4000)}
    with pytest.raises(ValueError, match=r"features \[0, 1, 2, 3, 4, 5\] have .* intervals.*: a larger rho"):
        fit_log(write(tmp_path, table, 1), names, actions=[0.0, 1.0], gamma_rel=3, rho=0.1, executor=Local(1))


def test_a_log_with_more_rows_than_can_be_summed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write(tmp_path, log(300), 2)
    monkeypatch.setattr(summing, "MOST_WEIGHTED_ROWS", 299)
    with pytest.raises(ValueError, match=r"300 rows, and up to 299 can be summed with prob.*: fit parts"):
        fit_log(paths, NAMES, probability="p")
    assert fit_log(paths, NAMES).steps == 300
    monkeypatch.setattr(summing, "MOST_ROWS", 299)
    with pytest.raises(ValueError, match=r"300 rows, and up to 299 can be summed: fit parts"):
        fit_log(paths, NAMES)


def test_a_large_row_group_is_divided_and_never_read_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = log(3000)
    table["y"][1234] = 3.0
    (path,) = write(tmp_path, table, 1, group=2000)
    whole = fit_log(path, NAMES, skip_bad=True, probability="p", executor=Local(1)).to_bytes()
    monkeypatch.setattr(batches, "ROWS_PER_PART", 300)
    monkeypatch.setattr(batches, "_READ_ROWS", 70)
    parts = batches.parts_of(path)
    assert [(part.group, part.start, part.rows) for part in parts][:2] == [(0, 0, 285), (0, 285, 286)]
    assert len(parts) == 7 + 4
    read = list(batches.read_parts(parts, releaf.Schema.of(NAMES), action="action", reward="reward", probability="p"))
    assert max(len(batch.rewards) for _, batch, _ in read) <= 70
    assert (
        np.concatenate([batch.contexts.columns["x"] for _, batch, _ in read]).tolist()
        == np.delete(table["x"], 1234).tolist()
    )
    assert [line for _, batch, _ in read for line, _ in batch.problems] == [1234]
    with pytest.raises(ValueError, match="row 1234"):
        fit_log(path, NAMES, executor=Local(1))
    assert fit_log(path, NAMES, skip_bad=True, probability="p", executor=Local(1)).to_bytes() == whole


def test_even_the_largest_row_group_has_few_parts_since_each_is_read_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "ROWS_PER_PART", 10)
    parts = batches.parts_of(*write(tmp_path, log(1000), 1, group=1000))
    assert len(parts) == batches.MAX_PARTS
    assert sum(part.rows for part in parts) == 1000


def test_quantiles_categories_and_missing_values(tmp_path: Path) -> None:
    table = mixed_log(4000)
    fitted = fit_log(write(tmp_path / "a", table, 1), SCHEMA, executor=Local(1))
    assert fit_log(write(tmp_path / "b", table, 6, group=90), SCHEMA, executor=Local(2)).to_bytes() == fitted.to_bytes()
    assert fitted.actions == ("call", "wait")
    sketch = fitted._encoder.sketches[0]
    given = np.array([value for value in table["income"].to_pylist() if value is not None])
    for share in (0.1, 0.5, 0.9):
        assert sketch.rank(float(np.quantile(given, share))) == pytest.approx(share, abs=0.03)
    missing = [interval for interval in fitted.partition("income") if interval.low != interval.low]
    assert missing[0].arrivals == table["income"].null_count
    choice = fitted.decide({"income": None, "age": 40, "plan": "b", "member": True})
    assert choice.action in fitted.actions


def test_it_finds_what_is_relevant_and_goes_on_learning(tmp_path: Path) -> None:
    fitted = fit_log(write(tmp_path, log(60_000), 4, group=5000), NAMES, seed=1)
    relevance = fitted.relevance()
    assert relevance[0].argmax() == 0
    assert relevance[1].argmax() == 1
    before = fitted.observations
    for context in np.random.default_rng(2).random((300, 3)):
        choice = fitted.decide(context)
        if choice.wants_reward:
            fitted.learn(choice, 1.0)
    assert fitted.observations >= before
    again = releaf.from_bytes(fitted.to_bytes())
    assert again.steps == 60_300


def test_parts_of_a_log_fitted_by_themselves_can_be_merged(tmp_path: Path) -> None:
    first, second = (fit_log(write(tmp_path / str(n), log(800, n), 1), NAMES, rho=3.0) for n in (1, 2))
    both = first.merge(second)
    assert both.steps == 1600
    assert both.merge(first).to_bytes() == first.merge(both).to_bytes()


def test_weights_undo_what_the_log_preferred(tmp_path: Path) -> None:
    """An action was taken mostly where x was high, which is no feature: its rewards look better than they are."""
    draw = np.random.default_rng(3)
    count = 40_000
    x, y, z = draw.random((3, count))
    chance = np.where(x > 0.5, 0.9, 0.1)
    taken = (draw.random(count) < chance).astype(int)
    p = np.where(taken == 1, chance, 1 - chance)
    paths = write(tmp_path, {"y": y, "z": z, "action": taken, "reward": x, "p": p}, 2, group=5000)
    plain, weighted = fit_log(paths, ["y", "z"]), fit_log(paths, ["y", "z"], probability="p")
    assert _mean(plain, 1) == pytest.approx(0.7, abs=0.02)
    assert _mean(weighted, 1) == pytest.approx(0.5, abs=0.02)


def _mean(learner: Any, action: int) -> float:
    rows = merging.extract_statistics(learner._engine, learner.seed).rows
    return float(rows.sums[:, action].sum() / rows.counts[:, action].sum())


def test_a_broken_row_is_named_or_left_out_and_told(tmp_path: Path) -> None:
    table = log(100)
    table["y"][7], table["reward"][60] = 3.0, -1.0
    paths = write(tmp_path, table, 2, group=10)
    with pytest.raises(ValueError, match=r"00\.parquet, row 7: feature 'y' is 3.0"):
        fit_log(paths, NAMES)
    report = Report()
    fitted = fit_log(paths, NAMES, skip_bad=True, report=report)
    assert (report.learnt, report.left_out) == (98, 2)
    assert [line for line, _ in report.problems] == [7, 10]
    assert "01.parquet" in report.problems[1][1]
    assert fitted.steps == 98


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    paths = write(tmp_path / "log", log(50), 1)
    with pytest.raises(FileNotFoundError, match="no Parquet file at nowhere"):
        fit_log("nowhere", NAMES)
    with pytest.raises(ValueError, match="has no column 'w'"):
        fit_log(paths, ["x", "w"])
    with pytest.raises(ValueError, match=r"row 0: 'action' is 1: expected one of \(0,\)"):
        fit_log(paths, NAMES, actions=[0])
    with pytest.raises(
        ValueError, match=r"least_probability names actions, which are known after .* give actions= too"
    ):
        train.fit_log(paths, NAMES, least_probability={0: 0.1})
    with pytest.raises(ValueError, match="has no rows"):
        fit_log(write(tmp_path / "none", {name: np.zeros(0) for name in log(1)}, 1), NAMES)


def test_rewards_count_to_a_fine_grain(tmp_path: Path) -> None:
    table = log(300)
    table["reward"] = np.random.default_rng(0).random(300)
    fitted = fit_log(write(tmp_path, table, 1), NAMES, rho=theory.balanced_rho(1))
    sums = fitted._engine.state.sums
    assert np.array_equal(sums / GRAIN, np.round(sums / GRAIN))
    per_pair = np.floor(table["reward"] / GRAIN + 0.5).sum() * GRAIN
    assert sums.sum() == pytest.approx(3 * per_pair, rel=1e-15)


# --- quantiles ----------------------------------------------------------------------------------------------


def test_negative_zeros_make_no_difference(tmp_path: Path) -> None:
    table = log(3000)
    table["x"] = np.round(np.random.default_rng(0).normal(0, 1, 3000))  # -0.3 becomes -0.0
    assert (np.signbit(table["x"]) & (table["x"] == 0)).any()
    schema = releaf.Schema(x=releaf.Quantile(), y=releaf.Continuous(), z=releaf.Continuous())
    paths = write(tmp_path / "a", table, 3)
    straight = fit_log(paths, schema, executor=Local(1)).to_bytes()
    for seed in range(4):
        mixed = write(tmp_path / str(seed), shuffled(table, seed), 2)
        assert fit_log(mixed[::-1], schema, executor=Local(1)).to_bytes() == straight
    renamed = [path.rename(path.with_name(f"{9 - place}.parquet")) for place, path in enumerate(paths)]
    assert fit_log(renamed, schema, executor=Local(1)).to_bytes() == straight


def columns_of_all_kinds(count: int) -> Table:
    draw = np.random.default_rng(5)
    spread = 10.0 ** draw.uniform(-300, 300, count) * draw.choice([-1, 1], count)
    cluster = 1e6 + draw.normal(0, 1e-3, count)
    half = draw.random(count) < 0.5
    return {
        "uniform": draw.random(count),
        "normal": draw.normal(size=count),
        "half zero": np.where(half, 0.0, draw.random(count) * 5),
        "half inside": np.where(half, 1.2345, draw.random(count) * 5),
        "half at the end": np.where(half, 5.0, draw.random(count) * 5),
        "integers": draw.integers(-50, 2000, count),
        "skewed integers": np.minimum(draw.zipf(1.2, count), 1e15),
        "heavy tails": draw.standard_cauchy(count),
        "cluster": cluster,
        "huge range": spread,
        "cluster in a huge range": np.where(half, spread, cluster),
        "tiny": draw.random(count) * 5e-320,
        "constant": np.full(count, 3.3),
        "two values": np.where(half, 0.1, 0.2),
    }


def test_ranks_of_a_log_are_right_however_its_values_lie(tmp_path: Path) -> None:
    count = 60_000
    columns = columns_of_all_kinds(count)
    draw = np.random.default_rng(6)
    table = {**columns, "action": draw.integers(0, 2, count), "reward": draw.integers(0, 2, count)}
    schema = releaf.Schema({name: releaf.Quantile() for name in columns})
    fitted = fit_log(write(tmp_path / "a", table, 3, group=7000), schema, executor=Local(1), rho=20.0)
    for place, (name, column) in enumerate(columns.items()):
        sketch, ordered = fitted._encoder.sketches[place], np.sort(column)
        for value in ordered[[0, *range(50, count, 997), -1]].tolist():
            exact = (np.searchsorted(ordered, value) + np.searchsorted(ordered, value, "right")) / (2 * count)
            assert sketch.rank(value) == pytest.approx(exact, abs=0.003), name
    again = fit_log(write(tmp_path / "b", shuffled(table, 1), 2, group=11_000), schema, executor=Local(2), rho=20.0)
    assert again.to_bytes() == fitted.to_bytes()


@pytest.mark.parametrize("often", range(6))
def test_a_value_that_is_often_there_leaves_the_ranks_of_others(tmp_path: Path, often: int) -> None:
    draw = np.random.default_rng(often)
    x = np.where(draw.random(100_000) < 0.5, float(often), 10 + draw.random(100_000))
    table = {"x": x, "y": draw.random(100_000), "action": draw.integers(0, 2, 100_000)}
    table["reward"] = draw.integers(0, 2, 100_000)
    schema = releaf.Schema(x=releaf.Quantile(), y=releaf.Continuous())
    fitted = fit_log(write(tmp_path, table, 1, group=50_000), schema, executor=Local(1))
    assert fitted._encoder.sketches[0].rank(float(np.median(x[x > 9]))) == pytest.approx(0.75, abs=0.005)
    assert fitted._encoder.sketches[0].rank(often) == pytest.approx(0.25, abs=0.005)


def test_a_log_smaller_than_the_sample_is_ranked_by_all_its_values(tmp_path: Path) -> None:
    table = log(100)
    fitted = fit_log(write(tmp_path, table, 2), {name: releaf.Quantile() for name in NAMES}, executor=Local(1))
    for place, name in enumerate(NAMES):
        assert fitted._encoder.sketches[place].state()[4:104].tolist() == sorted(table[name])


# --- relevance ----------------------------------------------------------------------------------------------


def test_relevance_counts_every_case_of_a_log_with_many_duplicates(tmp_path: Path) -> None:
    table = with_a_frequent_row(50_000, others=500)
    fitted = fit_log(write(tmp_path, table, 2, group=9000), list("abc"), executor=Local(1), rho=6.0)
    assert fitted.relevance() == pytest.approx(over_all_rows(fitted, table), abs=0.002)


@pytest.mark.parametrize("share", [0.99, 0.5, 0.1])
def test_relevance_counts_a_row_that_is_often_there_among_many_others(tmp_path: Path, share: float) -> None:
    table = with_a_frequent_row(60_000, others=round(60_000 * (1 - share)))
    paths = write(tmp_path / "a", table, 2, group=9000)
    fitted = fit_log(paths, list("abc"), executor=Local(1), rho=6.0)
    assert fitted.relevance() == pytest.approx(over_all_rows(fitted, table), abs=0.03)
    mixed = write(tmp_path / "b", shuffled(table, 2), 3)
    assert fit_log(mixed, list("abc"), executor=Local(1), rho=6.0).to_bytes() == fitted.to_bytes()


def with_a_frequent_row(count: int, others: int) -> Table:
    """Mostly one context, in which rewards follow b; they follow c in the others."""
    draw = np.random.default_rng(7)
    contexts = np.full((count, 3), 0.3)
    contexts[:others] = draw.random((others, 3)) * 0.5 + 0.5
    contexts[others : others + 200, 1] = 0.1
    follows = np.where(contexts[:, 0] > 0.5, contexts[:, 2] > 0.75, contexts[:, 1] > 0.2)
    table = {**dict(zip("abc", contexts.T, strict=True)), "action": draw.integers(0, 2, count)}
    return {**table, "reward": np.where(table["action"] == 1, follows, draw.random(count) < 0.5).astype(float)}


def over_all_rows(fitted: releaf.Releaf, table: Table) -> Any:
    other = releaf.from_bytes(fitted.to_bytes())
    other._engine.state.relevance[:] = 0
    other._engine.state.clock[EXPLOITED] = 0
    other._engine.tally_relevance(np.column_stack([table[name] for name in "abc"]))
    return other.relevance()


# --- actions, files and columns -----------------------------------------------------------------------------


def fitted_actions(tmp_path: Path, *columns: Any) -> Any:
    """The actions of a log whose files have these columns of actions."""
    tmp_path.mkdir(exist_ok=True)
    for number, column in enumerate(columns):
        write(tmp_path / str(number), {**log(len(column)), "action": column}, 1)
    return fit_log(tmp_path, NAMES, executor=Local(1)).actions


def test_actions_of_the_log_are_in_their_order(tmp_path: Path) -> None:
    assert fitted_actions(tmp_path / "a", [True, False]) == (False, True)
    assert fitted_actions(tmp_path / "b", [3, 1], [0.5, 2.0]) == (0.5, 1, 2, 3)


@pytest.mark.parametrize("columns", [([True, False], [0, 1]), ([0, 1], [True, False]), (["a"], [0])])
def test_actions_of_several_kinds_are_refused(tmp_path: Path, columns: Any) -> None:
    with pytest.raises(ValueError, match=r"column 'action' are of several kinds, the number 0 in .*parquet and the t"):
        fitted_actions(tmp_path, *columns)


def test_too_many_actions_are_taken_for_another_column(tmp_path: Path) -> None:
    table = {**log(2000), "action": np.arange(2000)}
    paths = write(tmp_path, table, 2)
    with pytest.raises(ValueError, match="'action' has more than 1,000 different values: is it the action"):
        fit_log(paths, NAMES, executor=Local(1))
    with pytest.raises(ValueError, match="more than 1,000 different values"):
        fit_log(write(tmp_path / "few", table, 20, group=50), NAMES, executor=Local(1))
    assert len(fit_log(paths, NAMES, actions=range(2000), executor=Local(1)).actions) == 2000


def test_a_file_counts_once_however_its_path_is_spelt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "log", log(50), 1)
    (tmp_path / "link").symlink_to(tmp_path / "log")
    monkeypatch.chdir(tmp_path)
    spelt: list[str | Path] = [
        "log",
        "log/00.parquet",
        "./log/../log/00.parquet",
        tmp_path / "log" / "00.parquet",
        "link/*.parquet",
    ]
    assert fit_log(spelt, NAMES, executor=Local(1)).steps == 50


def test_folders_that_name_columns_are_told_of(tmp_path: Path) -> None:
    table = log(50)
    del table["action"]
    for action in range(2):
        (tmp_path / f"action={action}").mkdir()
        write(tmp_path / f"action={action}", table, 1)
    expected = r"action=0.*has no column 'action'.*folders such as 'action=0' are not read: write the column into the"
    with pytest.raises(ValueError, match=expected):
        fit_log(tmp_path, NAMES, executor=Local(1))


@pytest.mark.parametrize("content", [b"x,y\n1,2\n", b"", b"PAR1 and then nothing", "cut"])
def test_a_file_that_can_not_be_read_is_named(tmp_path: Path, content: bytes | str) -> None:
    good = write(tmp_path, log(50), 1)[0]
    bad = tmp_path / "zz.parquet"
    bad.write_bytes(good.read_bytes()[:-100] if isinstance(content, str) else content)
    with pytest.raises(ValueError, match=r"zz\.parquet (can't be read|is no Parquet file)"):
        fit_log(tmp_path, NAMES, skip_bad=True, executor=Local(1))


def test_a_file_that_is_broken_inside_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, log(5000), 1)[0]
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)  # pages of the first columns
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"00\.parquet can't be read"):
        fit_log(tmp_path, NAMES, executor=Local(1))


def test_columns_that_are_not_apart_are_told_of(tmp_path: Path) -> None:
    table = log(50)
    twice = pa.table([*(pa.array(column) for column in table.values()), pa.array(table["x"])], names=[*table, "x"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(ValueError, match=r"twice\.parquet has more than one column 'x'"):
        fit_log(tmp_path, NAMES, executor=Local(1))
    paths = write(tmp_path / "log", table, 1)
    with pytest.raises(ValueError, match="reward='x' is a feature too: expected different columns"):
        fit_log(paths, NAMES, reward="x")
    with pytest.raises(ValueError, match="action='reward' is the reward too"):
        fit_log(paths, NAMES, action="reward")
    with pytest.raises(ValueError, match="probability='reward' is the reward too"):
        fit_log(paths, NAMES, probability="reward")


def test_rows_whose_weights_are_cut_are_counted(tmp_path: Path) -> None:
    table = log(100)
    table["p"][:30] = 0.0005
    table["p"][30:60] = 1 / 1024
    report = Report()
    fit_log(write(tmp_path, table, 2, group=10), NAMES, probability="p", report=report, executor=Local(1))
    assert report.cut == 30
