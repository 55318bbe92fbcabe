"""State files of version 0.1 open, and the learners continue with the same decisions; but for AdaptiveReleaf."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import releaf
from releaf import ensembles

SAVED = Path(__file__).with_name("saved_by_0_1")
NEXT_ACTIONS: dict[str, list[str]] = json.loads((SAVED / "next_actions.json").read_text())


def contexts(count: int, seed: int) -> list[dict[str, Any]]:
    draw = np.random.default_rng(seed)
    return [
        {
            "income": None if draw.random() < 0.2 else float(round(draw.lognormal(3, 1), 2)),
            "age": float(round(draw.uniform(0, 100), 3)),
            "colour": str(draw.choice(["red", "green", "blue"])),
            "member": bool(draw.random() < 0.5),
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize("name", NEXT_ACTIONS)
def test_a_learner_saved_by_version_0_1_continues_as_it_would_have(name: str) -> None:
    bandit = releaf.from_bytes(gzip.decompress((SAVED / f"{name}.releaf.gz").read_bytes()))
    assert type(bandit).__name__ == name
    actions = []
    for context in contexts(40, seed=2):
        decision = bandit.decide(context)
        actions.append(decision.action)
        if decision.wants_reward:
            bandit.learn(decision, float((context["age"] > 50) == (decision.action == "treat")))
    assert actions == NEXT_ACTIONS[name]


@pytest.mark.parametrize("name", NEXT_ACTIONS)
def test_a_learner_of_version_0_1_saves_and_loads_again(name: str) -> None:
    bandit = releaf.from_bytes(gzip.decompress((SAVED / f"{name}.releaf.gz").read_bytes()))
    again = releaf.from_bytes(bandit.to_bytes())
    rows = contexts(20, seed=4)
    assert [bandit.decide(row).action for row in rows] == [again.decide(row).action for row in rows]


def test_an_adaptive_learner_of_version_0_1_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """Its model was another one, which no sample of rewards follows from."""
    path = tmp_path / "triage.releaf"
    path.write_bytes(gzip.decompress((SAVED / "AdaptiveReleaf.releaf.gz").read_bytes()))
    with pytest.raises(releaf.StateError) as caught:
        releaf.load(path)
    assert str(caught.value) == (
        f"{path} is not a learner that this version of releaf can load: "
        "it was saved by version 0.1, whose AdaptiveReleaf had another model: "
        "train a new learner on its log (releaf.fit_log, or learn_log), or keep using that version"
    )


NEXT_OF_ENSEMBLES: dict[str, list[str]] = json.loads((SAVED / "next_actions_of_ensembles.json").read_text())


@pytest.mark.parametrize("name", NEXT_OF_ENSEMBLES)
def test_an_ensemble_saved_by_version_0_1_continues_as_it_would_have(name: str) -> None:
    ensemble = ensembles.from_bytes(gzip.decompress((SAVED / f"{name}.releaf.gz").read_bytes()))
    assert type(ensemble).__name__ == name
    actions = []
    for context in np.random.default_rng(6).random((30, 3)):
        decision = ensemble.decide(context)
        actions.append(decision.action)
        if decision.wants_reward:
            ensemble.learn(decision, [float(context[0] > 0.5), float(context[0] <= 0.5)])
    assert actions == NEXT_OF_ENSEMBLES[name]
