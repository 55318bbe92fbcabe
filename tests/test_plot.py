"""The pictures of releaf.plot: the marks that are drawn, where they stand and how dark they are."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import numpy as np
import pytest
from chromium import open_page

import releaf
from releaf import plot
from releaf.charts import HEIGHT, WIDTH
from releaf.evaluate import run
from releaf.streams import Stream


def svg(chart: Any) -> Element:
    text = io.StringIO()
    chart.save(text, format="svg")
    return fromstring(text.getvalue())


def marks(drawn: Element, kind: str, role: str = "role-mark") -> list[Element]:
    """What was drawn of one kind, without axes and legends."""
    groups = [group for group in drawn.iter() if {f"mark-{kind}", role} <= set(group.get("class", "").split())]
    return [mark for group in groups for mark in group]


def told(mark: Element) -> dict[str, str]:
    return dict(part.split(": ", 1) for part in mark.get("aria-label", "").split("; "))


def texts(drawn: Element) -> list[str]:
    return [mark.text or "" for mark in drawn.iter() if mark.tag.endswith("text")]


def brightness(mark: Element) -> int:
    return sum(int(part) for part in re.findall(r"\d+", mark.get("fill", "")))


def points(line: Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+),(-?[\d.]+)", line.get("d", ""))]


def boxes(bars: list[Element]) -> list[tuple[float, float]]:
    """Where each bar begins and how wide it is."""
    found = [re.match(r"M(-?[\d.]+),-?[\d.]+h(-?[\d.]+)", bar.get("d", "")) for bar in bars]
    return [(float(match[1]), float(match[2])) for match in found if match]


def stream(steps: int = 1_000, features: int = 3, actions: int = 2, seed: int = 0) -> Stream:
    generator = np.random.default_rng(seed)
    contexts = generator.random((steps, features))
    right = np.floor(contexts[:, 1] * actions)
    rewards = (right[:, None] == np.arange(actions)).astype(np.float64)
    labels = tuple(f"action {place}" for place in range(actions))
    names = [f"feature {place}" for place in range(features)]
    return Stream(contexts=contexts, rewards=rewards, features=names, actions=labels)


@pytest.fixture(scope="module")
def learner() -> Any:
    cases = stream()
    bandit = releaf.AdaptiveReleaf(cases.actions, cases.features, seed=0)
    releaf.replay(bandit, cases.contexts, cases.rewards)
    return bandit


@pytest.fixture(scope="module")
def patients() -> Any:
    """A learner of features of all kinds, of which age decides and a missing dose is bad for "treat".

    It takes both actions at all ages now and then, since its relevance is that in the contexts of each action.
    """
    generator = np.random.default_rng(1)
    schema = releaf.Schema(
        age=releaf.Continuous(0, 100), colour=releaf.Categorical("red", "green"), dose=releaf.Quantile(missing=True)
    )
    bandit = releaf.AdaptiveReleaf(["wait", "treat"], schema, seed=0, reward_range=(0, 10), least_probability=0.1)
    for age in generator.uniform(20, 80, 1_000):
        dose = None if generator.random() < 0.2 else float(generator.exponential(30))
        choice = bandit.decide([age, "red" if generator.random() < 0.5 else "green", dose])
        good = (age > 50 and dose is not None) == (choice.action == "treat")
        bandit.learn(choice, 10.0 * good)
    return bandit


# --- relevance --------------------------------------------------------------------------------------------


def test_the_heat_map_has_a_tile_for_each_action_and_feature_and_the_most_relevant_is_the_darkest(learner: Any) -> None:
    drawn = svg(plot.relevance(learner))
    tiles = marks(drawn, "rect")
    assert len(tiles) == 6
    row, place = np.unravel_index(np.argmax(learner.relevance()), (2, 3))
    darkest = told(min(tiles, key=brightness))
    assert (darkest["x"], darkest["y"]) == (learner.actions[row], learner.schema.names[place])
    assert darkest["y"] == "feature 1"
    by_value = sorted(tiles, key=lambda tile: float(told(tile)["strength"]))
    assert [brightness(tile) for tile in by_value] == sorted((brightness(tile) for tile in tiles), reverse=True)
    assert told(tiles[0])["y"] == "feature 1"  # the most relevant one comes first
    assert f"{learner.relevance().max():.0%}" in [mark.text for mark in marks(drawn, "text")]


def test_a_feature_that_alone_explains_little_is_pale_and_the_total_is_written_below() -> None:
    draw = np.random.default_rng(0)
    x, taken = draw.random((8_000, 2)), draw.integers(0, 2, 8_000)
    chances = np.where(taken == 0, 0.1 + 0.8 * (x[:, 0] > 0.5), 0.35 + 0.2 * x[:, 1])
    bandit = releaf.AdaptiveReleaf(["strong", "weak"], ["x", "y"], seed=0)
    bandit.learn_log(x, np.array(bandit.actions)[taken], (draw.random(8_000) < chances).astype(float))
    found = bandit.relevance()
    assert found["strong", "x"] == found["weak", "y"] == 1.0
    drawn = svg(plot.relevance(bandit))
    dark = {(told(tile)["x"], told(tile)["y"]): brightness(tile) for tile in marks(drawn, "rect")}
    assert dark["strong", "x"] < 300
    assert dark["weak", "y"] > 600
    assert found.explained is not None
    written = [mark.text for mark in marks(drawn, "text")]
    assert written.count("100%") == 2
    assert set(written[:2]) == {f"{total:.1%}" for total in found.explained.sum(axis=1)}
    assert "of the reward's variance" in texts(drawn)


def test_values_are_written_into_few_tiles_only_and_the_most_relevant_of_many_features_are_shown() -> None:
    cases = stream(600, features=70, actions=4)
    bandit = releaf.AdaptiveReleaf(cases.actions, cases.features, seed=0)
    releaf.replay(bandit, cases.contexts, cases.rewards)
    drawn = svg(plot.relevance(bandit))
    assert len(marks(drawn, "rect")) == 60 * 4
    assert len(marks(drawn, "text")) == 4  # the totals of the actions only
    assert "the 60 most relevant of 70 features" in texts(drawn)
    names = [text for text in texts(drawn) if text.startswith("feature ")]
    assert len(names) == 60  # none is left out for lack of room
    assert len(marks(svg(plot.relevance(bandit, most=5)), "text")) > 0


def test_learners_and_ledgers_are_drawn_side_by_side_in_one_order(learner: Any) -> None:
    cases = stream()
    ledger = run(releaf.Releaf(cases.actions, cases.features, seed=0), cases)
    own = svg(plot.relevance(ledger, actions=cases.actions, features=cases.features))
    assert {told(tile)["y"] for tile in marks(own, "rect")} == set(cases.features)
    drawn = svg(plot.relevance({"one": learner, "other": releaf.Releaf(cases.actions, cases.features, seed=0)}))
    assert len(marks(drawn, "rect")) == 12
    assert {"one", "other"} <= set(texts(drawn))
    rows = [told(tile)["y"] for tile in marks(drawn, "rect")]
    assert rows[:6] == rows[6:]


def test_runs_of_one_name_are_averaged() -> None:
    cases = stream(600)
    ledgers = [run(releaf.Releaf(cases.actions, cases.features, seed=seed), cases) for seed in (0, 1)]
    mean = np.mean([np.array(ledger.relevance) for ledger in ledgers], axis=0)
    drawn = svg(plot.relevance({"RELEAF": ledgers}))
    assert sorted(float(told(tile)["value"]) for tile in marks(drawn, "rect")) == pytest.approx(sorted(mean.ravel()))


# --- regret and labels ------------------------------------------------------------------------------------


def test_a_line_of_regret_ends_as_high_as_the_regret() -> None:
    cases = stream(2_000)
    ledgers = {
        "RELEAF": run(releaf.Releaf(cases.actions, cases.features, seed=0), cases),
        "random": run(releaf.Random(cases.actions, cases.features, seed=0), cases),
    }
    drawn = svg(plot.regret(ledgers))
    lines = marks(drawn, "line")
    ends = [points(line)[-1] for line in lines]
    assert [round(x) for x, _ in ends] == [WIDTH, WIDTH]
    heights = [HEIGHT - y for _, y in ends]
    assert heights[0] / heights[1] == pytest.approx(ledgers["RELEAF"].regret / ledgers["random"].regret, rel=0.01)
    assert len({line.get("stroke") for line in lines}) == 2
    assert {"RELEAF", "random"} <= set(texts(drawn))


def test_long_traces_are_thinned_and_need_their_stream_for_regret() -> None:
    cases = stream(5_000, actions=3)
    cases.rewards[:] = 0.5 * cases.rewards  # so that the best falls short of 1 too
    trace = releaf.replay(releaf.LinUCB(cases.actions, cases.features), cases.contexts, cases.rewards)
    missed = svg(plot.regret(trace))
    (line,) = marks(missed, "line")
    assert 300 < len(points(line)) <= 500
    assert "cumulative 1 − reward" in texts(missed)
    last = plot.regret(trace).to_dict()["data"]["values"][-1]
    assert last == {"x": 5_000, "y": pytest.approx(5_000 - trace.rewards.sum()), "series": ""}
    told_with_stream = plot.regret(trace, stream=cases).to_dict()["data"]["values"][-1]
    assert told_with_stream["y"] == pytest.approx(2_500 - trace.rewards.sum())


def test_several_runs_become_their_mean_in_a_band() -> None:
    cases = stream(400)
    ledgers = [run(releaf.Random(cases.actions, cases.features, seed=seed), cases) for seed in range(3)]
    chart = plot.regret({"random": ledgers})
    regrets = [ledger.regret for ledger in ledgers]
    end = chart.to_dict()["data"]["values"][-1]
    assert (end["lowest"], end["y"], end["highest"]) == pytest.approx((min(regrets), np.mean(regrets), max(regrets)))
    drawn = svg(chart)
    assert len(marks(drawn, "area")) == len(marks(drawn, "line")) == 1


def test_logarithmic_axes_make_a_power_of_time_a_straight_line() -> None:
    steps = np.arange(1, 1_001)
    rewards = 1.0 - np.diff(np.sqrt(steps), prepend=0.0)
    empty = np.zeros(len(steps), dtype=bool)
    trace = releaf.Trace(np.zeros(len(steps), dtype=int), empty, empty, rewards)
    (line,) = marks(svg(plot.regret(trace, log=True)), "line")
    x, y = np.array(points(line)).T
    assert np.corrcoef(x, y)[0, 1] == pytest.approx(-1.0, abs=1e-6)


def test_more_policies_than_colours_are_told_apart_by_dashes() -> None:
    cases = stream(100)
    ledger = run(releaf.Random(cases.actions, cases.features, seed=0), cases)
    lines = marks(svg(plot.regret({f"policy {place}": ledger for place in range(14)})), "line")
    assert len({(line.get("stroke"), line.get("stroke-dasharray")) for line in lines}) == 14


def test_errors_against_labels_and_labels_over_time_next_to_a_budget() -> None:
    cases = stream(2_000)
    frugal = run(releaf.AdaptiveReleaf(cases.actions, cases.features, seed=0, label_budget=100), cases)
    results = {"frugal": frugal, "RELEAF": run(releaf.Releaf(cases.actions, cases.features, seed=0), cases)}
    drawn = svg(plot.labels(results, budget=100))
    dots = marks(drawn, "symbol")
    assert [float(told(dot)["labels"]) for dot in dots] == [ledger.labels for ledger in results.values()]
    assert float(told(dots[0])["errors, %"]) == pytest.approx(frugal.error)
    assert "budget 100" in texts(drawn)
    place = float(re.findall(r"[\d.]+", dots[0].get("transform", ""))[0])
    (rule,) = marks(drawn, "rule")
    assert place <= float(re.findall(r"[\d.]+", rule.get("transform", ""))[0])  # within the budget
    over_time = svg(plot.labels(results, over_time=True, budget=100))
    heights = {told(line)["series"]: HEIGHT - points(line)[-1][1] for line in marks(over_time, "line")}
    assert heights["frugal"] / heights["RELEAF"] == pytest.approx(frugal.labels / results["RELEAF"].labels, rel=0.02)
    assert len(marks(over_time, "rule")) == 1


# --- partitions and effects -------------------------------------------------------------------------------


def test_intervals_are_bars_as_long_as_they_are() -> None:
    cases = stream(3_000)
    bandit = releaf.Releaf(cases.actions, cases.features, seed=0)
    ledger = run(bandit, cases)
    parts = bandit.partition(0)
    assert len(parts) > 2
    for source in (bandit, ledger):
        bars = marks(svg(plot.partition(source, 0)), "rect")
        assert len(bars) == len(parts)
        for (start, width), part in zip(boxes(bars), parts, strict=True):
            assert (start, width) == pytest.approx((WIDTH * part.low, WIDTH * (part.high - part.low)), abs=0.01)
    everything = marks(svg(plot.partition(bandit)), "rect")
    assert len(everything) == sum(len(bandit.partition(feature)) for feature in range(3))


def test_the_interval_with_most_arrivals_is_the_darkest_and_categories_are_named() -> None:
    schema = releaf.Schema(letter=releaf.Categorical("a", "b"), weight=releaf.Continuous(10, 20, missing=True))
    bandit = releaf.Releaf(2, schema, seed=0)
    for step in range(300):
        choice = bandit.decide(["a" if step % 3 else "b", None if step % 5 == 0 else 12.0])
        if choice.wants_reward:
            bandit.learn(choice, 1.0)
    drawn = svg(plot.partition(bandit))
    assert {"a", "b", "missing"} <= {mark.text for mark in marks(drawn, "text")}
    named = {(told(bar)["y"], told(bar)["interval"]): brightness(bar) for bar in marks(drawn, "rect")}
    assert named["letter", "equal to 'a'"] < named["letter", "equal to 'b'"]
    assert ("weight", "missing") in named
    assert "20" in texts(svg(plot.partition(bandit, "weight")))  # in its own units


def test_effects_have_a_line_for_each_action_and_dots_for_categories(patients: Any) -> None:
    drawn = svg(plot.partition(patients))
    lines, dots = marks(drawn, "line"), marks(drawn, "symbol")
    assert len(lines) == 2 * 2  # age and dose, for each action
    assert len(dots) == 2 * 2 + 2  # two colours, and a missing dose
    assert next(text for text in texts(drawn) if text in patients.schema.names) == "age"  # the most relevant
    assert "missing" in texts(drawn)
    one = svg(plot.partition(patients, "age"))
    rises = {told(line)["series"]: points(line)[0][1] - points(line)[-1][1] for line in marks(one, "line")}
    assert rises["treat"] > 50 > -50 > rises["wait"]
    numbers = [float(text) for text in texts(one) if text.isdigit() and int(text) > 0]
    assert 20 <= min(numbers) < max(numbers) <= 80  # the ages that came


def test_of_many_features_the_most_relevant_effects_are_shown() -> None:
    cases = stream(500, features=20)
    bandit = releaf.AdaptiveReleaf(cases.actions, cases.features, seed=0)
    releaf.replay(bandit, cases.contexts, cases.rewards)
    assert len(marks(svg(plot.partition(bandit)), "line")) == 9 * 2
    shown = [text for text in texts(svg(plot.partition(bandit, most=2))) if text.startswith("feature ")]
    assert shown[0] == "feature 1"
    assert len(shown) == 2


def test_of_many_categories_those_with_the_largest_effects_are_shown() -> None:
    letters = [chr(ord("a") + place) for place in range(26)]
    bandit = releaf.AdaptiveReleaf(2, releaf.Schema(letter=releaf.Categorical(*letters)), seed=0)
    generator = np.random.default_rng(0)
    for place in generator.integers(26, size=800):
        choice = bandit.decide([letters[place]])
        bandit.learn(choice, float(choice.index == (place < 5)))
    drawn = svg(plot.partition(bandit))
    assert "letter (12 of 26 categories)" in texts(drawn)
    assert len(marks(drawn, "symbol")) == 12 * 2
    effect = bandit.effect("letter")
    strengths = {
        point.value: max(abs(point.amount), abs(other.amount)) for point, other in zip(*effect.values(), strict=True)
    }
    assert max(strengths, key=lambda letter: strengths[letter]) in texts(drawn)


def test_a_learner_that_knows_nothing_has_pictures_too() -> None:
    fresh = releaf.AdaptiveReleaf(2, 3, seed=0)
    assert len(marks(svg(plot.relevance(fresh)), "rect")) == 6
    lines = marks(svg(plot.partition(fresh)), "line")
    assert len(lines) == 6
    assert all(len({y for _, y in points(line)}) == 1 for line in lines)  # all of them flat
    assert len(marks(svg(plot.partition(releaf.Releaf(2, 3, seed=0))), "rect")) == 3


# --- files ------------------------------------------------------------------------------------------------


def test_a_png_is_sharp_and_not_blank(tmp_path: Path, learner: Any) -> None:
    for name, chart in {"relevance": plot.relevance(learner), "effects": plot.partition(learner)}.items():
        path = tmp_path / f"{name}.png"
        chart.save(path)
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG")
        assert int.from_bytes(content[16:20]) > 2 * 150
        data, place = b"", 8
        while place < len(content):
            length, kind = int.from_bytes(content[place : place + 4]), content[place + 4 : place + 8]
            data += content[place + 8 : place + 8 + length] if kind == b"IDAT" else b""
            place += 12 + length
        assert len(set(zlib.decompress(data))) > 50  # white only would be a few


def test_a_page_draws_itself_without_a_network(tmp_path: Path, learner: Any) -> None:
    path = tmp_path / "effects.html"
    plot.partition(learner).save(path)
    assert not re.search(r"<(script|link)[^>]+(src|href)=.?https?:", path.read_text(encoding="utf-8"))
    with open_page(path, 900) as (tab, errors):
        tab.wait_for_selector("#vis canvas, #vis svg")
        assert errors == []


def test_altair_is_imported_where_something_is_drawn_and_its_absence_is_explained() -> None:
    script = """
import sys
import releaf
assert "altair" not in sys.modules and "releaf.plot" not in sys.modules
releaf.plot
assert "altair" not in sys.modules
sys.modules["altair"] = None
try:
    releaf.plot.relevance(releaf.Releaf(2, 3))
except ModuleNotFoundError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == 'releaf.plot needs altair: pip install "releaf[plots]", or ".[plots]" in a clone'


# --- errors -----------------------------------------------------------------------------------------------


def test_what_can_not_be_drawn_is_refused() -> None:
    cases = stream(50)
    trace = releaf.replay(releaf.Random(cases.actions, cases.features, seed=0), cases.contexts, cases.rewards)
    ledger = run(releaf.Random(cases.actions, cases.features, seed=0), cases)
    euros = releaf.Trace(trace.actions, trace.explored, trace.observed, 100 * trace.rewards)
    refused: list[tuple[Any, str]] = [
        (lambda: plot.relevance(releaf.LinUCB(2, 3)), "LinUCB has no relevance"),
        (lambda: plot.relevance(ledger), "that has no relevance"),
        (lambda: plot.relevance(trace), "Trace has no relevance"),
        (lambda: plot.relevance(releaf.Releaf(2, 3), features=["a"]), "features must be 3 different names"),
        (lambda: plot.relevance({}), "results must not be empty"),
        (lambda: plot.regret({"a": []}), "results must not be empty"),
        (lambda: plot.regret(releaf.Releaf(2, 3)), "results must be ledgers of releaf.evaluate.run or traces"),
        (lambda: plot.regret([trace, ledger]), "both ledgers and traces"),
        (lambda: plot.regret(euros), r"rewards outside of \[0, 1\]"),
        (lambda: plot.regret(trace, stream=stream(60)), "stream has 60 steps, a trace has 50"),
        (lambda: plot.labels(trace, budget=-1), "budget must be a number above 0, got budget=-1"),
        (lambda: plot.partition(releaf.LinUCB(2, 3)), "has neither partitions nor effects"),
        (lambda: plot.partition(releaf.Releaf(2, 3), "age"), "unknown feature 'age'"),
        (lambda: plot.partition(releaf.Releaf(2, 3), most=0), "most must be a whole number of at least 1"),
    ]
    for draw, message in refused:
        with pytest.raises((ValueError, TypeError), match=message):
            draw()


def test_lines_of_a_list_are_labelled_by_their_policies() -> None:
    cases = stream(300)
    bandits = [releaf.LinUCB(cases.actions, cases.features), releaf.Random(cases.actions, cases.features, seed=0)]
    ledgers = [run(bandit, cases) for bandit in bandits]
    assert [ledger.policy for ledger in ledgers] == ["LinUCB", "Random"]
    traces = [releaf.replay(bandit, cases.contexts, cases.rewards) for bandit in bandits]
    for results in (ledgers, traces):
        shown = texts(svg(plot.regret(results)))
        assert "LinUCB" in shown
        assert "Random" in shown
        assert "run 1" not in shown
    assert {"LinUCB", "LinUCB 2"} <= set(texts(svg(plot.regret([ledgers[0], ledgers[0]]))))
