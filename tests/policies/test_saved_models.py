"""Fitted models in a file: a cache that changes no decision, and that is ignored wherever it is not sound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adaptive_twin import MIXED, stream
from learner_comparison import full_state, run_steps

import releaf
from releaf.core.adaptive import engine, saved_models
from releaf.core.adaptive.fitting import fit
from releaf.core.adaptive.state import COLUMNS, FITTED, VARIANCE
from releaf.core.adaptive.trees import COUNT, FEATURE, LEFT
from releaf.core.runtime import state_file

STEPS = 700


@pytest.fixture(scope="module")
def bandit() -> Any:
    learner = releaf.AdaptiveReleaf(2, MIXED, seed=0)
    learner.replay(*stream("mixed", STEPS))
    learner.relevance()
    return learner


@pytest.fixture
def saved(bandit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(saved_models, "FEWEST_ROWS", 100)
    bandit.save(tmp_path / "with.releaf")
    return tmp_path / "with.releaf"


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of rows of the fits that loading a learner does, but for those of the empty one that it begins with."""
    done: list[int] = []

    def counted(settings: Any, given: Any) -> Any:
        if len(given.rewards):
            done.append(len(given.rewards))
        return fit(settings, given)

    monkeypatch.setattr(engine, "fit", counted)
    return done


def arrays_of(models: list[Any]) -> list[dict[str, bytes]]:
    later = {"typical", "strengths", "certainties"}
    return [{name: array.tobytes() for name, array in model.items() if name not in later} for model in models]


def test_saved_models_equal_those_that_would_be_fitted(bandit: Any, saved: Path, fits: list[int]) -> None:
    cached = releaf.load(saved)
    assert fits == []
    fitted = releaf.from_bytes(bandit.to_bytes())
    assert len(fits) == 2
    assert min(int(sample.counts[FITTED]) for sample in bandit._engine.samples) >= 100
    assert arrays_of(cached._engine.models) == arrays_of(fitted._engine.models) == arrays_of(bandit._engine.models)
    assert np.array_equal(cached.relevance(), fitted.relevance())


def test_a_learner_loaded_with_its_models_goes_on_bit_for_bit(bandit: Any, saved: Path) -> None:
    contexts, rewards = stream("mixed", 300, seed=4)
    fitted, cached = releaf.from_bytes(bandit.to_bytes()), releaf.load(saved)
    assert run_steps(cached, contexts, rewards) == run_steps(fitted, contexts, rewards)
    assert full_state(cached) == full_state(fitted)
    assert cached.to_bytes() == fitted.to_bytes()


def test_bytes_and_models_of_few_rewards_have_no_cache(bandit: Any, tmp_path: Path) -> None:
    bandit.save(tmp_path / "few.releaf")
    assert (tmp_path / "few.releaf").read_bytes() == bandit.to_bytes()


Change = Callable[[Any], Any]


def put(*places: Any, value: Any) -> Change:
    def change(array: Any) -> Any:
        array[places] = value
        return array

    return change


def inner(field: int, value: float) -> Change:
    """Change an inner node of the trees."""

    def change(nodes: Any) -> Any:
        nodes[np.flatnonzero(nodes[:, FEATURE] >= 0)[3], field] = value
        return nodes

    return change


UNSOUND: dict[str, tuple[str, Change]] = {
    "another sample": ("digest", put(0, value=7)),
    "a tree that goes back": ("nodes", inner(LEFT, 0)),
    "a tree that leaves its nodes": ("nodes", inner(LEFT, 1e7)),
    "a node of no feature": ("nodes", inner(FEATURE, 99)),
    "a negative count": ("nodes", lambda nodes: put(np.flatnonzero(nodes[:, FEATURE] < 0)[5], COUNT, value=-3)(nodes)),
    "roots out of order": ("roots", lambda roots: roots[::-1].copy()),
    "a root after the end": ("roots", put(-1, value=10**9)),
    "no root": ("roots", lambda roots: roots[:-4]),
    "more columns": ("counts", put(COLUMNS, value=128)),
    "a table of no feature": ("tables", put(0, 0, value=50)),
    "a table elsewhere": ("tables", put(1, 3, value=100)),
    "a table of another width": ("tables", put(1, 4, value=7)),
    "a wide feature in a table": ("tables", put(0, 0, value=3)),
    "fewer weights": ("weights", lambda weights: weights[:-1]),
    "weights of another type": ("weights", lambda weights: weights.astype(np.float32)),
    "an infinite weight": ("weights", put(0, value=np.inf)),
    "another shape": ("covariance", lambda array: array[:, :-1].copy()),
    "no variance": ("numbers", put(VARIANCE, value=0.0)),
    "too few effects": ("effect_means", lambda means: means[:-1]),
    "a negative variance": ("effect_variances", put(0, value=-1.0)),
    "too few ranks": ("ranks", lambda ranks: ranks[:-1]),
}


@pytest.mark.parametrize("case", UNSOUND)
def test_an_unsound_model_is_fitted_anew(bandit: Any, saved: Path, fits: list[int], case: str) -> None:
    header, arrays = state_file.read(saved)
    header.pop("format")
    name, change = UNSOUND[case]
    arrays[f"policy.model_0_{name}"] = change(arrays[f"policy.model_0_{name}"].copy())
    state_file.write(saved, header, arrays)
    again = releaf.load(saved)
    assert len(fits) == 1
    assert arrays_of(again._engine.models) == arrays_of(bandit._engine.models)


def test_a_model_that_lacks_an_array_or_is_of_another_version_is_fitted_anew(
    saved: Path, fits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    header, arrays = state_file.read(saved)
    header.pop("format")
    del arrays["policy.model_1_roots"]
    state_file.write(saved, header, arrays)
    releaf.load(saved)
    assert len(fits) == 1
    monkeypatch.setattr(saved_models, "__version__", "0.0.1")
    releaf.load(saved)
    assert len(fits) == 3
