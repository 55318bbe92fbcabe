"""Uploaded models are validated before they are loaded; an experiment does not affect the others."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from service_api import running_api

import releaf
from releaf.core.runtime import state_file
from releaf.executors import Local
from releaf.service.errors import ApiError
from releaf.service.experiments import learner_factory
from releaf.service.experiments.registry import ExperimentRegistry
from releaf.service.experiments.served_experiment import MAX_BATCH_SECONDS
from releaf.service.messages import NewExperiment, NewShadow, PolicySpec
from releaf.service.settings import ServiceSettings
from releaf.service.store import open_store

MODEST = 50 << 20  # bytes, far less than a model that is too large would take


def altered(learner: Any, arrays: dict[str, Any] | None = None, **header: Any) -> bytes:
    """The bytes of a learner whose header says something else, under a checksum that is right."""
    own, kept = state_file.from_bytes(learner.to_bytes(), "content")
    own.pop("format")
    return state_file.to_bytes(own | header, kept | (arrays or {}))


def uploaded(content: bytes, actions: Any = ("a", "b"), features: Any = 2) -> NewExperiment:
    model = base64.b64encode(content).decode()
    return NewExperiment(name="x", actions=list(actions), features=features, model=model)


def registry_in(folder: Path) -> ExperimentRegistry:
    path = str(folder / "store.db")
    return ExperimentRegistry(open_store(path), ServiceSettings(store=path))


LINEAR = PolicySpec(name="LinUCB")
LEARNER = releaf.LinUCB(["a", "b"], 2, seed=3)
PARAMETERS = state_file.from_bytes(LEARNER.to_bytes(), "content")[0]["parameters"]
BAD_HEADERS: dict[str, dict[str, Any]] = {
    "a huge sample": {"schema": [{"name": "x0", "kind": "quantile", "size": 10**9, "missing": False}]},
    "many features": {"schema": releaf.Schema.of(30_000).to_dict()},
    "many actions": {"actions": list(range(100_000))},
    "actions by count": {"actions": 2},
    "no actions": {"actions": None},
    "a class that is no policy": {"class": "OnlinePolicy"},
    "a class that is a list": {"class": ["LinUCB"]},
    "a parameter that is unknown": {"parameters": PARAMETERS | {"speed": 2}},
    "parameters that are a list": {"parameters": [1]},
    "much that may wait": {"parameters": PARAMETERS | {"max_pending": 10**12}},
    "negative steps": {"steps": -5},
    "steps and a half": {"steps": 1.5},
    "steps that are true": {"steps": True},
    "steps beyond what numbers hold": {"steps": 2**63 - 3},
    "a token that is text": {"token": "t"},
}


@pytest.mark.parametrize("header", BAD_HEADERS.values(), ids=BAD_HEADERS.keys())
def test_a_model_with_an_invalid_header_is_rejected_before_it_is_loaded(header: dict[str, Any]) -> None:
    learner_factory.make_learner(uploaded(LEARNER.to_bytes()))  # as it is, it is taken
    spec = uploaded(altered(LEARNER, **header))
    tracemalloc.start()
    try:
        with pytest.raises(ApiError) as refusal:
            learner_factory.make_learner(spec)
        assert tracemalloc.get_traced_memory()[1] < MODEST
    finally:
        tracemalloc.stop()
    assert refusal.value.status == 422


@pytest.mark.parametrize(("own", "asked_for"), [([True, False], [1, 0]), ([1.0, 2.0], [1, 2])])
def test_actions_of_another_type_are_not_the_same(own: list[Any], asked_for: list[int]) -> None:
    with pytest.raises(ApiError, match="the model has actions"):
        learner_factory.make_learner(uploaded(releaf.LinUCB(own, 2, seed=3).to_bytes(), asked_for))


def test_an_uploaded_model_has_the_size_limits_of_a_new_one() -> None:
    small = releaf.LinUCB(1000, 3, seed=3)
    wide = releaf.Schema.of(300)
    content = altered(small, schema=wide.to_dict())
    with pytest.raises(ApiError, match=r"would take .* MB"):
        learner_factory.make_learner(uploaded(content, range(1000), 300))


@pytest.mark.parametrize("steps", [-5, 1.5, True, 2**63 - 3, 2**53 + 1, "1", None])
def test_a_model_with_an_invalid_step_count_is_not_loaded(tmp_path: Path, steps: Any) -> None:
    file = tmp_path / "learner.releaf"
    file.write_bytes(altered(releaf.UCB1(2, 2, seed=0), steps=steps))
    with pytest.raises(releaf.StateError, match="steps must be a whole number"):
        releaf.load(file)


def test_a_model_with_overlapping_arrays_is_rejected() -> None:
    place = {"dtype": "<f8", "shape": [1000], "offset": 0, "bytes": 8000}
    header = json.dumps({"format": state_file.FORMAT, "arrays": {f"a{number}": place for number in range(50)}}).encode()
    rest = len(header).to_bytes(8, "little") + header + bytes(8000)
    with pytest.raises(releaf.StateError, match="overlap"):
        state_file.from_bytes(state_file.MAGIC + hashlib.sha256(rest).digest() + rest, "content")


def test_an_experiment_that_could_not_be_restored_is_not_created(tmp_path: Path) -> None:
    async def test() -> None:
        registry = registry_in(tmp_path)
        await registry.start()
        try:
            home = releaf.LinUCB(["a", "b"], 2, seed=2**70)  # beyond what the log can keep
            with pytest.raises(ApiError, match="could not be restored") as refusal:
                await registry.create(uploaded(home.to_bytes()))
            assert refusal.value.status == 422
            assert await registry.store.experiments() == []
        finally:
            await registry.stop()

    asyncio.run(test())


def test_a_failed_snapshot_at_shutdown_does_not_affect_other_experiments(tmp_path: Path) -> None:
    async def test() -> None:
        registry = registry_in(tmp_path)
        await registry.start()
        made = [
            await registry.create(NewExperiment(name=name, actions=["a", "b"], features=2, policy=LINEAR))
            for name in ("bad", "good")
        ]
        for experiment in made:
            await experiment.decide([[0.5, 0.5]], [None])
        bad = made[0].live()
        bad.counters.decisions = 2**70  # which no snapshot can hold
        await registry.stop()
        assert [experiment.snapshots.last for experiment in made] == [0, 1]
        assert "OverflowError" in made[0].messages[-1]
        again = registry_in(tmp_path)  # the store was given up, and the log has it all
        await again.start()
        assert [again.find(name).decisions() for name in ("bad", "good")] == [1, 1]
        await again.stop()

    asyncio.run(test())


@pytest.mark.parametrize("policy", [releaf.AdaptiveReleaf, releaf.Releaf])
def test_a_learner_trained_on_a_log_continues_in_the_service(tmp_path: Path, policy: Any) -> None:
    draw = np.random.default_rng(0)
    count = 20_000
    contexts, taken = draw.random((count, 2)), draw.integers(0, 2, count)
    earned = (draw.random(count) < 0.1 + 0.8 * contexts[np.arange(count), taken]).astype(float)
    columns = {"x0": contexts[:, 0], "x1": contexts[:, 1], "action": np.array(["a", "b"])[taken], "reward": earned}
    parquet.write_table(pyarrow.table(columns), tmp_path / "log.parquet")
    fitted = releaf.fit_log(tmp_path / "log.parquet", 2, policy=policy, observe="always", executor=Local(1))
    model = base64.b64encode(fitted.to_bytes()).decode()
    with running_api(tmp_path) as api:
        path = api.new(policy=policy.__name__, model=model)
        assert api.model(path) == fitted.to_bytes()
        for context in ([0.95, 0.05], [0.05, 0.95]):
            expected = fitted.decide(context)
            answer = api.post(f"{path}/decide", {"context": context})
            assert expected.estimates is not None  # enough is known to decide by it
            assert answer["action"] == expected.action
            assert tuple(answer["estimates"].values()) == expected.estimates
            told = api.get(f"{path}/explain/{answer['decision']}")["explanation"]
            assert told.startswith(f"Decision {answer['decision']} chose")
            api.post(f"{path}/reward", {"decision": answer["decision"], "reward": 1.0})
            fitted.learn(expected, 1.0)
        assert api.model(path) == fitted.to_bytes()
    assert fitted.observations == count + 2


def test_a_policy_other_than_that_of_the_model_is_rejected(tmp_path: Path) -> None:
    model = base64.b64encode(LEARNER.to_bytes()).decode()
    body = {"name": "x", "actions": ["a", "b"], "features": 2, "model": model}
    with running_api(tmp_path) as api:
        for policy in ({"name": "UCB1"}, {"name": "LinUCB", "parameters": {"alpha": 123.0}}):
            message = api.refused(422, "invalid", "POST", "/v1/experiments", {**body, "policy": policy})
            assert "the model is a LinUCB" in message
        same = {"name": "LinUCB", "parameters": {"seed": 3}}
        assert api.http.post("/v1/experiments", json={**body, "policy": same}).status_code == 201


# --- batches that would take long ---------------------------------------------------------------------------


def test_the_size_of_a_batch_is_limited_by_its_duration(tmp_path: Path) -> None:
    async def test() -> None:
        registry = registry_in(tmp_path)
        await registry.start()
        try:
            experiment = await registry.create(NewExperiment(name="x", actions=["a", "b"], features=2, policy=LINEAR))
            await experiment.add_shadow(NewShadow(name="s", policy=PolicySpec(name="LinTS")))
            slots = [experiment.live().slot, *experiment.live().shadows]
            assert all(slot.decision_seconds > 0 for slot in slots)
            slots[0].decision_seconds, slots[1].decision_seconds = MAX_BATCH_SECONDS / 50, MAX_BATCH_SECONDS / 50
            experiment.limit_batch(25)
            with pytest.raises(ApiError, match="at most 25") as refusal:
                experiment.limit_batch(26)
            assert (refusal.value.status, refusal.value.code) == (413, "too_many")
            slots[1].decision_seconds = 10 * MAX_BATCH_SECONDS
            experiment.limit_batch(1)
            with pytest.raises(ApiError, match=r"at most 1$"):
                experiment.limit_batch(2)
            await experiment.promote("s", force=True)
            assert experiment.live().shadows[0].decision_seconds == MAX_BATCH_SECONDS / 50
        finally:
            await registry.stop()

    asyncio.run(test())


def test_the_error_for_a_long_batch_has_the_allowed_size(tmp_path: Path) -> None:
    context = [0.5] * 100
    with running_api(tmp_path) as api:
        path = api.new(policy="LinUCB", actions=range(1000), features=100)
        message = api.refused(413, "too_many", "POST", f"{path}/decide", {"contexts": [context] * 3000})
        fit = int(message.rsplit(" ", 1)[1].replace(",", ""))
        assert 1 <= fit < 3000
        lines = "\n".join([json.dumps({"context": context})] * 3000)
        further = {"content": lines, "headers": {"Content-Type": "application/x-ndjson"}}
        assert message.split(":")[0] == "3,000 contexts in one request"
        assert "expected at most" in api.refused(413, "too_many", "POST", f"{path}/decide", **further)
        assert api.get(path)["counts"]["decisions"] == 0
        assert len(api.post(f"{path}/decide", {"contexts": [context] * min(fit, 5)})["decisions"]) == min(fit, 5)


WARMED = """
import releaf
from releaf.core.adaptive.model import set_relevance
from releaf.service.experiments.learner_factory import precompile

learner = releaf.AdaptiveReleaf(["a", "b"], 3, seed=0)
def kernels():
    entry_points = learner._entry_points
    methods = [getattr(entry_points, name) for name in ("decide", "decide_all", "learn")]
    return [len(kernel.signatures) for kernel in (*methods, set_relevance)]
precompile(learner)
before = kernels()
made = [*learner.decide_many([[0.1, 0.2, 0.3]] * 5), learner.decide([0.1, 0.2, 0.3])]
learner.learn(made[0], 1.0)
print(before, kernels())
"""


def test_precompile_compiles_all_kernels_of_requests() -> None:
    """In a process of its own, since other tests would have compiled them."""
    told = subprocess.run([sys.executable, "-c", WARMED], capture_output=True, text=True, check=True, timeout=600)
    assert told.stdout.strip() == "[1, 1, 1, 1] [1, 1, 1, 1]"
