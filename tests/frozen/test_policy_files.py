"""Files of frozen policies: their format, what a damaged one says, and which policies can be exported."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from frozen_policies import EvaluatorProcess, frozen_text
from frozen_streams import NUMBERS, POLICIES, SCHEMA, learn_stream

import releaf
from releaf.frozen import JAVASCRIPT, JSON_SCHEMA, PolicyFileError, load_policy, read_policy

VALIDATOR = jsonschema.Draft202012Validator(json.loads(JSON_SCHEMA.read_text(encoding="utf-8")))


def example() -> releaf.LinearEpsilonGreedy:
    return releaf.LinearEpsilonGreedy(["wait", "treat"], ["age", "dose"], epsilon=0.1, seed=0)


@pytest.mark.parametrize("schema", [SCHEMA, NUMBERS], ids=["all kinds of features", "numbers"])
@pytest.mark.parametrize("name", POLICIES)
def test_every_export_follows_the_json_schema(name: str, schema: releaf.Schema) -> None:
    make, parameters = POLICIES[name]
    for steps in (0, 120):
        policy = learn_stream(
            make(["wait", "treat", 3], schema, seed=1, **parameters), schema, steps, np.random.default_rng(1)
        )
        VALIDATOR.validate(json.loads(frozen_text(policy)))


def test_the_json_schema_rejects_what_is_no_policy() -> None:
    VALIDATOR.check_schema(VALIDATOR.schema)
    document = json.loads(frozen_text(example()))
    changes: tuple[dict[str, Any], ...] = (
        {"version": 2},
        {"actions": []},
        {"rule": {"kind": "random", "more": 1}},
        {"extra": 1},
    )
    for change in changes:
        assert not VALIDATOR.is_valid(document | change)


def test_a_file_is_written_and_loaded(tmp_path: Path) -> None:
    path, policy = tmp_path / "policy.json", example()
    policy.decide([0.1, 0.2])
    policy.export(path)
    frozen = releaf.load_policy(path)
    assert repr(frozen) == "FrozenPolicy(LinearEpsilonGreedy, 2 actions, 2 features, after 1 decisions)"
    assert frozen.decide({"age": 0.5, "dose": 1.0}, seed=3).action in ("wait", "treat")
    assert path.read_bytes() == frozen_text(policy)
    assert [file.name for file in tmp_path.iterdir()] == ["policy.json"]


def test_white_space_and_order_of_keys_do_not_matter(node: EvaluatorProcess, plain_python: EvaluatorProcess) -> None:
    text = json.dumps(json.loads(frozen_text(example())), indent=2, sort_keys=True)
    case = {"context": [0.1, 0.2], "seed": "1"}
    assert plain_python.decide(text, [case]) == node.decide(text, [case])
    assert read_policy(json.loads(text)).actions == ("wait", "treat")


DAMAGED = "the policy is damaged: its checksum does not match; export it again"
OTHER = "the policy is no frozen policy: expected a file that releaf's export wrote"
NEWER = "the policy has version 2 of the format: this evaluator reads version 1; update the evaluator"
DAMAGES: dict[str, tuple[Any, str]] = {
    "cut": (lambda text: text[: len(text) // 2], "the policy is not JSON, or not complete: "),
    "a changed number": (lambda text: text.replace('"exploration":0.1', '"exploration":0.2'), DAMAGED),
    "a changed name": (lambda text: text.replace('"treat"', '"trial"'), DAMAGED),
    "no checksum": (lambda text: text[: text.index(',"checksum"')] + "}", DAMAGED),
    "a newer version": (lambda text: text.replace('"version":1', '"version":2'), NEWER),
    "another file": (lambda text: '{"name": "package"}', OTHER),
    "a list": (lambda text: "[1, 2]", OTHER),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_newer_file_is_rejected_in_the_same_words(
    damage: str, node: EvaluatorProcess, plain_python: EvaluatorProcess
) -> None:
    change, message = DAMAGES[damage]
    text = frozen_text(example()).decode()
    damaged = change(text)
    assert damaged != text
    with pytest.raises(PolicyFileError, match="the policy") as caught:
        read_policy(damaged)
    found = [caught.value.args[0], *(each.decide(damaged, [])["error"] for each in (node, plain_python))]
    assert all(one.startswith(message) if message.endswith(": ") else one == message for one in found), found


def test_an_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(PolicyFileError, match=f"{path} is not JSON, or not complete"):
        load_policy(path)


def test_every_other_policy_says_which_ones_can_be_exported() -> None:
    for make in (releaf.LinTS, releaf.GreedyReleaf, releaf.CMABRL, releaf.ContextualZooming):
        with pytest.raises(TypeError) as caught:
            make(2, 2, seed=0).export("never.json")
        assert caught.value.args[0] == (
            f"{make.__name__} can't be exported: AdaptiveReleaf, Releaf, LinUCB, LinearEpsilonGreedy, EpsilonGreedy, "
            "UCB1 and Random can"
        )
        assert not make.traits.exportable
    for make, _ in POLICIES.values():
        assert make.traits.exportable


def test_a_value_that_json_has_not_is_refused(tmp_path: Path) -> None:
    policy = releaf.Random(2, {"x": releaf.Categorical("a", float("inf"))}, seed=0)
    with pytest.raises(ValueError, match="can't be exported as JSON"):
        policy.export(tmp_path / "policy.json")
    assert not list(tmp_path.iterdir())


def test_npm_packs_the_folder_without_other_packages(tmp_path: Path) -> None:
    manifest = json.loads((JAVASCRIPT / "package.json").read_text(encoding="utf-8"))
    assert not {"dependencies", "devDependencies", "scripts"} & set(manifest)
    used = {
        line.split('"')[1]
        for file in JAVASCRIPT.glob("*.js")
        for line in file.read_text().splitlines()
        if line.startswith("import ")
    }
    assert all(name.startswith("./") and (JAVASCRIPT / name).exists() for name in used)
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm")
    packed = subprocess.run(
        [npm, "pack", "--dry-run", "--json", str(JAVASCRIPT)], capture_output=True, cwd=tmp_path, check=True
    )
    names = {file["path"] for file in json.loads(packed.stdout)[0]["files"]}
    assert names == {file.name for file in JAVASCRIPT.iterdir()}


def test_a_policy_with_a_control_group_is_not_exported_without_it(tmp_path: Path) -> None:
    bandit = releaf.LinUCB(2, 1, seed=0, control_share=0.2)
    with pytest.raises(ValueError, match=r"control group can't be exported: .* expected control_share=0, got 0\.2"):
        bandit.export(tmp_path / "policy.json")
    assert not (tmp_path / "policy.json").exists()
