"""The Grafana dashboard: its queries name only metrics and labels that a running service exports."""

from __future__ import annotations

import json
import re
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Any

import httpx
import pytest
from polling import wait_until
from prometheus_client.parser import text_string_to_metric_families
from running_service import run_service

DASHBOARD: dict[str, Any] = json.loads((resources.files("releaf.service.dashboard") / "grafana.json").read_text())
POLICY = {"name": "AdaptiveReleaf", "parameters": {"label_budget": 200, "least_probability": 0.5, "seed": 0}}
DECISIONS = 150


def queries() -> list[str]:
    """All queries, of panels and of variables."""
    variables = [one["query"]["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]
    return [*variables, *(target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The samples that a service exports after some decisions and rewards, with the names of their labels."""
    folder: Path = tmp_path_factory.mktemp("service")
    with run_service(folder) as url, httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
        body = {"name": "x", "actions": ["a", "b"], "features": 2, "policy": POLICY}
        client.post("/v1/experiments", json=body).raise_for_status()
        contexts = {"contexts": [[0.2, 0.4]] * DECISIONS}
        made = client.post("/v1/experiments/x/decide", json=contexts).raise_for_status().json()["decisions"]
        rewards = [{"decision": one["decision"], "reward": 1} for one in made if one["wants_reward"]]
        client.post("/v1/experiments/x/reward", json={"rewards": rewards}).raise_for_status()
        wait_until(lambda: "releaf_lift{" in client.get("/metrics").raise_for_status().text)  # read every few seconds
        text = client.get("/metrics").raise_for_status().text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {sample.name: set(sample.labels) for sample in samples}


def test_a_running_service_exports_every_metric_that_the_dashboard_names(exported: dict[str, set[str]]) -> None:
    named = {name for query in queries() for name in re.findall(r"\breleaf_\w+", query)}
    assert len(named) >= 15
    assert named <= set(exported)


def test_legends_name_labels_that_the_metrics_have(exported: dict[str, set[str]]) -> None:
    for target in (target for panel in DASHBOARD["panels"] for target in panel["targets"]):
        labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        for name in re.findall(r"\breleaf_\w+", target["expr"]):
            assert labels <= exported[name], target


def test_panels_say_what_to_look_for_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] and panel["description"] for panel in panels)
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert is_beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
