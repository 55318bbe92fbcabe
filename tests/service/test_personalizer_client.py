"""Personalizer's own client for Python against a running service, with nothing changed but its base address."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.cognitiveservices.personalizer import PersonalizerClient
from azure.cognitiveservices.personalizer.models import ErrorResponseException, RankableAction, RankRequest
from msrest.authentication import CognitiveServicesCredentials
from msrest.exceptions import HttpOperationError
from service_api import Api, running_api

DISHES = {
    "pasta": [{"taste": "salty", "spice": "medium"}, {"nutrition": {"level": 5, "cuisine": "italian"}}],
    "ice cream": [{"taste": "sweet", "spice": "none"}, {"nutrition": {"level": 2}}],
    "juice": [{"taste": "sweet", "spice": "none"}, {"nutrition": {"level": 5}}, {"drink": True}],
    "salad": [{"taste": "salty", "spice": "low"}, {"nutrition": {"level": 8}}],
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("service"), "--personalizer", "dishes", "--write-timeout", "60") as api:
        yield api


def client_of(endpoint: str, key: str = "the key of a loop in the cloud") -> Any:
    client = PersonalizerClient(endpoint, CognitiveServicesCredentials(key))
    client.config.proxies.use_env_settings = False
    client.config.retry_policy.policy.total = 0
    return client


def request(context: dict[str, Any], **further: Any) -> Any:
    actions = [RankableAction(id=name, features=features) for name, features in DISHES.items()]
    return RankRequest(actions=actions, context_features=[context], **further)


@pytest.mark.parametrize("path", ["", "/v1/experiments/dishes"])
def test_rank_reward_and_activate_need_a_base_address_only(api: Api, path: str) -> None:
    client, before = client_of(api.url + path), api.get("/v1/experiments/dishes")["counts"]
    answer = client.rank(request({"time": "morning", "user": {"age": 31}}, excluded_actions=["juice"]))
    assert {one.id: one.probability for one in answer.ranking}["juice"] == 0
    assert answer.reward_action_id in set(DISHES) - {"juice"}
    client.events.reward(answer.event_id, value=0.7)
    later = client.rank(request({"time": "noon"}, event_id=f"page 7/{path}", defer_activation=True))
    assert later.event_id == f"page 7/{path}"
    client.events.reward(later.event_id, 1.0)
    assert api.get("/v1/experiments/dishes")["counts"]["rewards"] == before["rewards"] + 1
    client.events.activate(later.event_id)
    assert api.get("/v1/experiments/dishes")["counts"]["rewards"] == before["rewards"] + 2


def test_errors_are_those_that_the_client_knows(api: Api) -> None:
    client = client_of(api.url)
    with pytest.raises(ErrorResponseException) as caught:
        client.rank(request({}, excluded_actions=list(DISHES)))
    assert caught.value.response.status_code == 400
    assert caught.value.error.error.code == "BadRequest"
    assert "excludedActions has all actions" in caught.value.error.error.message
    with pytest.raises(HttpOperationError) as failed:
        client.events.reward("never ranked", 1.0)
    assert failed.value.response.status_code == 404
    assert failed.value.response.json()["error"]["code"] == "ResourceNotFound"


def test_the_loop_learns_who_likes_what(api: Api) -> None:
    """The demo of Personalizer's documentation: a taste for each time of the day."""
    client, draw = client_of(api.url), random.Random(0)
    likes, earned = {"morning": "juice", "noon": "salad", "evening": "pasta", "night": "ice cream"}, []
    for _ in range(400):
        time = draw.choice(list(likes))
        answer = client.rank(request({"time": time, "user": {"age": draw.randint(18, 80)}}))
        earned.append(float(answer.reward_action_id == likes[time]))
        client.events.reward(answer.event_id, earned[-1])
    assert sum(earned[-100:]) >= 80  # a uniform choice earns 25


def test_the_experiment_stays_that_of_the_first_start(tmp_path: Path) -> None:
    options = ("--personalizer", "menu", "--write-timeout", "60")
    with running_api(tmp_path, *options) as api:
        info = api.get("/v1/experiments/menu")
        assert (info["rewards"]["within_seconds"], info["rewards"]["default"]) == (600, 0)
        event = client_of(api.url).rank(request({})).event_id
    with running_api(tmp_path, *options) as api:
        client_of(api.url).events.reward(event, -1.0)
        assert api.get("/v1/experiments/menu")["counts"]["rewards"] == 1


def test_a_service_that_needs_keys_takes_them_from_the_client(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "releaf", "keys", "add", "shop", "--json", "--store", str(tmp_path / "releaf.db")]
    scopes = ("--scope", "menu:decide", "--scope", "menu:reward")
    key = json.loads(subprocess.run([*command, *scopes], capture_output=True, check=True).stdout)["key"]
    with running_api(tmp_path, "--personalizer", "menu", "--require-keys", "--write-timeout", "60") as api:
        client = client_of(api.url, key)
        client.events.reward(client.rank(request({})).event_id, 1.0)
        with pytest.raises(ErrorResponseException) as caught:
            client_of(api.url).rank(request({}))
        assert (caught.value.response.status_code, caught.value.error.error.code) == (401, "401")
