"""`releaf.mlflow`: learners as MLflow models, in a file store on this machine."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import releaf
import releaf.mlflow

SCHEMA = releaf.Schema(age=releaf.Continuous(0, 100), plan=releaf.Categorical("free", "paid"))
FRAME = pd.DataFrame({"age": [10.0, 50.0, 90.0], "plan": ["free", "paid", "free"]}, index=[7, 8, 9])

ignore_warnings_of_mlflow = pytest.mark.filterwarnings("ignore")  # it warns while it is imported


def trained() -> Any:
    bandit, draw = releaf.EpsilonGreedy(["wait", "treat"], SCHEMA, seed=0), np.random.default_rng(0)
    for _ in range(60):
        age = float(draw.uniform(0, 100))
        choice = bandit.decide({"age": age, "plan": "free"})
        bandit.learn(choice, float((age > 50) == (choice.action == "treat")))
    return bandit


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    mlflow = pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    mlflow.set_registry_uri((tmp_path / "store").as_uri())
    return mlflow


def test_predictions_are_previews_and_leave_the_learner_unchanged() -> None:
    bandit = trained()
    before = bandit.to_bytes()
    predicted = releaf.mlflow.PyfuncPolicy(bandit).predict(FRAME)
    assert list(predicted) == ["action", "probability", "estimate: wait", "estimate: treat"]
    assert list(predicted.index) == [7, 8, 9]
    assert set(predicted["action"]) <= {"wait", "treat"}
    assert predicted["probability"].between(0, 1).all()
    assert bandit.to_bytes() == before


def test_a_row_does_not_depend_on_the_others_before_it_and_the_seed_repeats_draws() -> None:
    random = releaf.mlflow.PyfuncPolicy(releaf.Random(2, features=2, seed=0))
    contexts = np.full((200, 2), 0.5)
    one, same, other = (random.predict(contexts, {"seed": seed})["action"].tolist() for seed in (1, 1, 2))
    assert one == same != other
    assert 60 < sum(one) < 140
    assert random.predict(contexts[:50], {"seed": 1})["action"].tolist() == one[:50]


def test_an_empty_frame_has_the_same_columns() -> None:
    predicted = releaf.mlflow.PyfuncPolicy(trained()).predict(FRAME.iloc[:0])
    assert list(predicted) == ["action", "probability", "estimate: wait", "estimate: treat"]
    assert len(predicted) == 0


def test_without_mlflow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "mlflow.models", None)
    with pytest.raises(ModuleNotFoundError, match=r"releaf\.mlflow needs .*: pip install mlflow-skinny pandas"):
        releaf.mlflow.save_model(trained(), tmp_path / "model")
    assert importlib.import_module("releaf.mlflow") is releaf.mlflow


def test_only_a_learner_can_be_saved(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"policy must be a learner, such as releaf\.AdaptiveReleaf\(…\), got 3"):
        releaf.mlflow.save_model(3, tmp_path / "model")  # type: ignore[arg-type]


@ignore_warnings_of_mlflow
def test_a_saved_model_loads_as_learner_and_as_pyfunc(store: Any, tmp_path: Path) -> None:
    bandit = trained()
    releaf.mlflow.save_model(bandit, tmp_path / "model", metadata={"team": "triage"})
    loaded = releaf.mlflow.load_model(str(tmp_path / "model"))
    assert loaded.to_bytes() == bandit.to_bytes()
    pyfunc = store.pyfunc.load_model(str(tmp_path / "model"))
    assert pyfunc.metadata.metadata == {"team": "triage"}
    pd.testing.assert_frame_equal(pyfunc.predict(FRAME), releaf.mlflow.PyfuncPolicy(bandit).predict(FRAME))
    with pytest.raises(FileExistsError, match="is not empty: expected a new or an empty folder"):
        releaf.mlflow.save_model(bandit, tmp_path / "model")


@ignore_warnings_of_mlflow
def test_a_logged_model_loads_from_its_run(store: Any) -> None:
    bandit = trained()
    with store.start_run():
        info = releaf.mlflow.log_model(bandit, name="triage")
    assert releaf.mlflow.load_model(info.model_uri).to_bytes() == bandit.to_bytes()
    predicted = store.pyfunc.load_model(info.model_uri).predict(FRAME)
    assert predicted["action"].tolist() == releaf.mlflow.PyfuncPolicy(bandit).predict(FRAME)["action"].tolist()
