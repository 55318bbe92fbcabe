"""DSJSON logs of Azure Personalizer and VowpalWabbit's decision service."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import releaf
import releaf.train
from releaf.cli import app
from releaf.streams import log, read_dsjson
from releaf.streams.data_files import UnusableRowError

COLUMNS: dict[str, Any] = {"action": "action", "reward": "reward", "probability": "probability", "eligible": "eligible"}


def line(label: int = 1, cost: float = -1.0, names: tuple[str, ...] = ("pasta", "salad"), **changes: Any) -> str:
    """A line as Personalizer writes it: the action at this place was taken."""
    order = [label + 1, *(place for place in range(1, len(names) + 1) if place != label + 1)]
    event = {
        "_label_cost": cost,
        "_label_probability": 0.8,
        "_label_Action": label + 1,
        "_labelIndex": label,
        "o": [{"EventId": "e1", "v": -cost}],
        "Timestamp": "2026-01-31T12:00:00.0000000Z",
        "Version": "1",
        "EventId": "e1",
        "a": order,
        "c": {
            "FromUrl": [{"timeofday": "night"}, {"User": {"age": 30, "premium": True}}],
            "_multi": [{"_tag": name, "i": {"constant": 1, "id": name}, "j": [{"spicy": 0.5}]} for name in names],
        },
        "p": [0.8, 0.2],
        "VWState": {"m": "m1"},
    }
    return json.dumps({key: value for key, value in {**event, **changes}.items() if value is not None})


def written(folder: Path, *lines: str) -> Path:
    path = folder / "log.dsjson"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_line_is_a_decision_with_its_context_and_its_actions(tmp_path: Path) -> None:
    table = read_dsjson(written(tmp_path, line(), line(0, cost=0.0, names=("soup", "pasta", "salad"))))
    assert table.to_pylist() == [
        {
            "action": action,
            "reward": reward,
            "probability": 0.8,
            "eligible": eligible,
            "FromUrl.timeofday": "night",
            "FromUrl.User.age": 30.0,
            "FromUrl.User.premium": True,
        }
        for action, reward, eligible in (("salad", 1.0, ["pasta", "salad"]), ("soup", 0.0, ["soup", "pasta", "salad"]))
    ]


def test_a_log_of_dsjson_is_learnt_and_evaluated(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    lines = []
    for _ in range(200):
        hour, label = float(generator.random()), int(generator.integers(2))
        context = {"hour": hour, "_multi": [{"_tag": "pasta"}, {"_tag": "salad"}]}
        lines.append(line(label, -float((hour > 0.5) == label), _label_probability=0.5, c=context))
    data = log(read_dsjson(written(tmp_path, *lines)), **COLUMNS)
    assert (data.actions, len(data), data.skipped) == (("pasta", "salad"), 200, 0)
    bandit = releaf.LinUCB(data.actions, data.features, seed=0)
    bandit.learn_log(data.contexts, [data.actions[place] for place in data.taken], data.rewards)
    assert [bandit.estimate([[hour]])[0].argmax() for hour in (0.1, 0.9)] == [0, 1]


def spicy_lines(count: int = 200) -> list[str]:
    """Decisions of people who like spicy dishes at night only."""
    generator, lines = np.random.default_rng(1), []
    for _ in range(count):
        hour, mild, hot = generator.random(3).tolist()
        spice, label = (mild / 2, 0.5 + hot / 2), int(generator.integers(2))
        dishes = [{"_tag": f"dish{int(10 * own)}", "Dish": {"spicy": own}} for own in spice]
        reward = float((hour > 0.5) == (spice[label] > 0.5))
        lines.append(line(label, -reward, _label_probability=0.5, c={"hour": hour, "_multi": dishes}))
    return lines


def test_log_reads_dsjson_by_its_name_or_by_its_beginning(tmp_path: Path) -> None:
    path = written(tmp_path, *spicy_lines(40))
    expected = log(read_dsjson(path), **COLUMNS)
    for name in ("other.dsjson", "export.json", "export.jsonl"):
        (tmp_path / name).write_bytes(path.read_bytes())
    (tmp_path / "small.json.gz").write_bytes(gzip.compress(path.read_bytes()))
    for name in ("other.dsjson", "export.json", "export.jsonl", "small.json.gz"):
        found = log(tmp_path / name, **COLUMNS)
        assert (found.actions, found.contexts) == (expected.actions, expected.contexts)
        assert found.rewards.tolist() == expected.rewards.tolist()
    (tmp_path / "settings.json").write_text('{"a": 1}\n')
    with pytest.raises(ValueError, match=r"settings.json looks like JSON: expected CSV .* or DSJSON in a file named"):
        log(tmp_path / "settings.json", **COLUMNS)


def test_a_log_with_a_bad_line_names_it_or_reports_it(tmp_path: Path) -> None:
    first, *others = spicy_lines(40)
    path = written(tmp_path, first, line(c={"_multi": [{}], "_slots": [{}]}), *others)
    with pytest.raises(UnusableRowError, match=r"log.dsjson, line 2: no DSJSON of a decision: it has several slots"):
        log(path, **COLUMNS)
    found = log(path, **COLUMNS, skip_bad=True)
    assert (len(found), [number for number, _ in found.problems]) == (40, [2])
    bandit = releaf.LinUCB(found.actions, found.features, seed=0)
    with pytest.raises(UnusableRowError, match=r"log.dsjson, line 2: .*several slots"):
        releaf.train.learn_file(bandit, path)
    report = releaf.train.learn_file(bandit, path, skip_bad=True)
    assert (report.learnt, report.left_out) == (40, 1)
    with pytest.raises(UnusableRowError, match=r"log.dsjson, line 3: 'reward' is -1.0"):
        log(written(tmp_path, *others[:1], "", line(0, 1.0), *others), **COLUMNS)


def test_releaf_train_learns_a_log_of_dsjson(tmp_path: Path) -> None:
    path, output = written(tmp_path, *spicy_lines()), tmp_path / "learner.releaf"
    arguments = ["train", str(path), "-o", str(output), "--policy", "LinUCB"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    learner: Any = releaf.load(output)
    assert learner.schema.names == ("hour",)
    assert "200" in done.output


def test_features_of_the_action_teach_a_policy_that_knows_features_of_actions(tmp_path: Path) -> None:
    table = read_dsjson(written(tmp_path, *spicy_lines(400)), action_features=True)
    assert table.column_names == ["action", "reward", "probability", "eligible", "hour", "action.Dish.spicy"]
    bandit = releaf.JointReleaf({}, ["hour"], action_features=["spicy"], seed=0)
    for row in table.to_pylist():
        own = [row["action.Dish.spicy"]]
        bandit.observe({"hour": row["hour"]}, row["action"], row["reward"], features=own)
    dishes = {"mild": [0.1], "hot": [0.9]}
    taken: list[Any] = [bandit.preview({"hour": hour}, actions=dishes).estimates for hour in (0.1, 0.9)]
    assert [int(np.argmax(estimates)) for estimates in taken] == [0, 1]


def test_a_feature_of_the_action_that_is_named_as_one_of_the_context_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, line(c={"action": {"x": 1}, "_multi": [{"x": 1}, {"x": 2}]}))
    assert "action.x" in read_dsjson(path).column_names
    with pytest.raises(ValueError, match=r"has a feature named 'action\.x', as another column is"):
        read_dsjson(path, action_features=True)


def test_lines_without_a_label_are_left_out(tmp_path: Path) -> None:
    reward_alone = json.dumps({"RewardValue": 1.0, "EventId": "e9"})
    path = written(tmp_path, reward_alone, line(_skipLearn=True), line(_label_cost=None), "", line())
    assert read_dsjson(path).num_rows == 1
    with pytest.raises(ValueError, match="has no decision with a label: expected lines with _label_cost and c"):
        read_dsjson(written(tmp_path, reward_alone))


def test_names_are_tags_ids_or_places(tmp_path: Path) -> None:
    actions: list[Any] = [{"_tag": "a"}, {"i": {"id": "b"}}, {"id": "c"}, {"x": 1}]
    (row,) = read_dsjson(written(tmp_path, line(c={"_multi": actions}))).to_pylist()
    assert (row["action"], row["eligible"]) == ("b", ["a", "b", "c", "4"])


def test_what_is_not_written_follows_from_the_ranking(tmp_path: Path) -> None:
    path = written(tmp_path, line(_labelIndex=None, _label_Action=None, _label_probability=None, p=[0.7, 0.3]))
    (row,) = read_dsjson(path).to_pylist()
    assert (row["action"], row["probability"]) == ("salad", 0.7)


def test_values_of_several_kinds_become_text_and_gzip_is_read(tmp_path: Path) -> None:
    contexts = [{"x": 1, "_multi": [{}, {}]}, {"x": "high", "y": [1, 2], "_multi": [{}, {}]}]
    path = tmp_path / "log.dsjson.gz"
    path.write_bytes(gzip.compress("\n".join(line(c=context) for context in contexts).encode()))
    table = read_dsjson(path)
    assert table["x"].to_pylist() == ["1", "high"]
    assert table["y.1"].to_pylist() == [None, 2.0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting property name"),
        ("[]", "expected an object, got list"),
        (line(c={"x": 1}), "lacks '_multi'"),
        (line(c={"_multi": [{}], "_slots": [{}]}), "several slots"),
        (json.dumps({"_outcomes": [{"_label_cost": -1.0}], "c": {"_multi": [{}], "_slots": [{}]}}), "several slots"),
        (line(_labelIndex=0), "_labelIndex is 0, but _label_Action is 2"),
        (line(_labelIndex=5, _label_Action=6), "_labelIndex is 5, but _multi has 2 actions"),
        (line(names=("pasta", "pasta")), "actions of the same name"),
    ],
)
def test_a_bad_line_is_named_or_left_out(tmp_path: Path, text: str, why: str) -> None:
    path = written(tmp_path, line(), text)
    with pytest.raises(UnusableRowError, match=rf"log.dsjson, line 2: no DSJSON of a decision: .*{why}"):
        read_dsjson(path)
    assert read_dsjson(path, skip_bad=True).num_rows == 1


def test_a_feature_with_the_name_of_a_column_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, line(c={"reward": 1, "_multi": [{}, {}]}))
    with pytest.raises(ValueError, match="has a feature named 'reward'"):
        read_dsjson(path)
