"""Signed rewards: a reward needs the receipt of its decision, so that counting numbers rewards nothing."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import postgres_server
import pytest
from event_stores import open_event_store
from running_service import run_service
from service_api import Api, running_api
from typer.testing import CliRunner

from releaf.cli import app
from releaf.client import AsyncClient, Client, ServiceError
from releaf.service.experiments.receipts import Receipts
from releaf.service.messages import RewardOf

CONTEXT = [0.25, 0.75]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("service")) as api:
        yield api


@pytest.fixture
def path(api: Api) -> str:
    return api.new("LinUCB", rewards={"signed": True})


def decide(api: Api, path: str, count: int) -> list[Any]:
    answers: list[Any] = api.post(f"{path}/decide", {"contexts": [CONTEXT] * count})["decisions"]
    return answers


def rewarding(answer: Any, reward: float = 0.5) -> dict[str, Any]:
    return {"decision": answer["decision"], "reward": reward, "receipt": answer["receipt"]}


def test_a_reward_with_the_receipt_of_its_decision_is_learnt(api: Api, path: str) -> None:
    first, second, third, fourth = decide(api, path, 4)
    assert len({answer["receipt"] for answer in (first, second, third, fourth)}) == 4
    assert api.post(f"{path}/reward", rewarding(first))["status"] == "learnt"
    assert api.post(f"{path}/reward", rewarding(first))["status"] == "repeated"
    many = api.post(f"{path}/reward", {"rewards": [rewarding(third), rewarding(second)]})
    assert [one["status"] for one in many["rewards"]] == ["learnt", "learnt"]
    assert [one["status"] for one in api.lines(f"{path}/reward", rewarding(fourth))] == ["learnt"]


def test_a_reward_without_a_receipt_is_rejected_and_changes_nothing(api: Api, path: str) -> None:
    decide(api, path, 3)
    before = api.model(path), api.get(path)["counts"]
    for number in range(1, 10):  # by counting, also beyond the decisions that were made
        message = api.refused(403, "receipt_missing", "POST", f"{path}/reward", {"decision": number, "reward": 1.0})
        assert f"the reward of decision {number} has no receipt: this experiment has signed rewards" in message
    assert (api.model(path), api.get(path)["counts"]) == before


def test_a_wrong_receipt_is_rejected_and_changes_nothing(api: Api, path: str) -> None:
    first, second, _ = decide(api, path, 3)
    other = decide(api, api.new("LinUCB", rewards={"signed": True}), 1)[0]
    before = api.model(path), api.get(path)["counts"]
    for receipt in (second["receipt"], other["receipt"], "", "é", first["receipt"][:-1], first["receipt"].swapcase()):
        body = rewarding(first) | {"receipt": receipt}
        assert "not that of decision 1" in api.refused(403, "receipt_wrong", "POST", f"{path}/reward", body)
    batch = {"rewards": [rewarding(first), rewarding(second) | {"receipt": first["receipt"]}]}
    api.refused(403, "receipt_wrong", "POST", f"{path}/reward", batch)
    assert (api.model(path), api.get(path)["counts"]) == before


def test_a_line_with_a_wrong_receipt_does_not_affect_the_others(api: Api, path: str) -> None:
    first, second = decide(api, path, 2)
    told = api.lines(f"{path}/reward", rewarding(first), rewarding(second) | {"receipt": first["receipt"]})
    assert told[0]["status"] == "learnt"
    assert (told[1]["error"]["status"], told[1]["error"]["code"]) == (403, "receipt_wrong")


def test_one_receipt_for_many_rewards_is_invalid(api: Api, path: str) -> None:
    (first,) = decide(api, path, 1)
    body = {"rewards": [rewarding(first)], "receipt": first["receipt"]}
    assert "receipt goes with decision" in api.refused(422, "invalid", "POST", f"{path}/reward", body)


def test_a_retried_decision_has_the_same_receipt(api: Api, path: str) -> None:
    asked = {"context": CONTEXT, "key": "order 1"}
    assert api.post(f"{path}/decide", asked)["receipt"] == api.post(f"{path}/decide", asked)["receipt"]


def test_receipts_are_neither_in_records_nor_in_exports(api: Api, path: str) -> None:
    (answer,) = decide(api, path, 1)
    texts = [api.http.get(f"{path}/{part}").text for part in ("decisions", "export?format=ndjson", "explain/1", "")]
    assert not any(answer["receipt"] in text or '"receipt"' in text for text in texts)


def test_without_the_option_there_are_no_receipts(api: Api) -> None:
    path = api.new("LinUCB")
    (answer,) = decide(api, path, 1)
    assert "receipt" not in answer
    assert api.get(path)["rewards"]["signed"] is False
    assert api.post(f"{path}/reward", {"decision": 1, "reward": 0.5, "receipt": "any"})["status"] == "learnt"


def test_receipts_survive_a_restart(tmp_path: Path) -> None:
    store = ("--store", str(tmp_path / "store.db"))
    experiment = {"name": "shop", "actions": ["a", "b"], "features": 2, "rewards": {"signed": True}}
    body = experiment | {"policy": {"name": "LinUCB"}}
    with run_service(tmp_path, *store) as url, httpx.Client(base_url=url, timeout=300, trust_env=False) as http:
        assert http.post("/v1/experiments", json=body).status_code == 201
        answer = http.post("/v1/experiments/shop/decide", json={"context": CONTEXT}).json()
    with run_service(tmp_path, *store) as url, httpx.Client(base_url=url, timeout=300, trust_env=False) as http:
        assert http.post("/v1/experiments/shop/reward", json=rewarding(answer)).json()["status"] == "learnt"


# --- the client -------------------------------------------------------------------------------------------------


def test_a_client_sends_the_receipt_of_a_decision(api: Api) -> None:
    with Client(str(api.http.base_url)) as client:
        client.create("by-client", ["a", "b"], 2, policy="LinUCB", reward_signed=True)
        made = client.decide_many("by-client", [CONTEXT] * 6)
        assert client.reward("by-client", made[0], 1.0) == "learnt"
        assert client.reward("by-client", made[1].id, 1.0, receipt=made[1].receipt) == "learnt"
        pairs: list[Any] = [(made[2], 0.5), (made[3].id, 0.5, made[3].receipt)]
        assert client.reward_many("by-client", pairs) == ["learnt", "learnt"]
        results = list(client.reward_stream("by-client", [(made[4], 0.5), (made[5].id, 0.5)]))
        assert results[0] == "learnt"
        assert isinstance(results[1], ServiceError)
        assert results[1].code == "receipt_missing"
        with pytest.raises(ServiceError, match="has no receipt") as refused:
            client.reward("by-client", made[5].id, 1.0)
        assert refused.value.status == 403
        assert str(made[5].receipt) not in repr(made[5])


def test_an_asynchronous_client_sends_the_receipt_of_a_decision(api: Api) -> None:
    async def test() -> None:
        async with AsyncClient(str(api.http.base_url)) as client:
            await client.create("by-async-client", ["a", "b"], 2, policy="LinUCB", reward_signed=True)
            made = await client.decide("by-async-client", CONTEXT)
            assert await client.reward("by-async-client", made, 1.0) == "learnt"

    asyncio.run(test())


# --- the secret -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_store_draws_its_secret_once(kind: str, tmp_path: Path) -> None:
    address = str(tmp_path / "store.db") if kind == "sqlite" else postgres_server.new_database()

    async def secret() -> bytes:
        async with open_event_store(address) as store, open_event_store(address) as second:
            assert await store.secret() == await second.secret()
            return await store.secret()

    first = asyncio.run(secret())
    assert len(first) == 32
    assert asyncio.run(secret()) == first
    assert len(set(first)) > 10


def test_receipts_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(given: bytes, expected: bytes) -> bool:
        compared.append((given, expected))
        return given == expected

    monkeypatch.setattr(hmac, "compare_digest", compare)
    receipts = Receipts(b"secret", 3)
    receipts.check([RewardOf(decision=5, reward=1.0, receipt=receipts.make(5))])
    assert compared == [(receipts.make(5).encode(),) * 2]


def test_receipts_depend_on_secret_experiment_and_number() -> None:
    made = [Receipts(secret, one).make(n) for secret in (b"a", b"b") for one in (1, 11, 2) for n in (1, 11, 12)]
    assert len(set(made)) == len(made)
    assert {len(receipt) for receipt in made} == {22}


def test_the_openapi_description_has_receipts(api: Api) -> None:
    schemas = json.loads(api.http.get("/openapi.json").text)["components"]["schemas"]
    assert "receipt" in schemas["Answer"]["properties"]
    assert "receipt" not in schemas["Answer"]["required"]
    assert "receipt" in schemas["RewardOf"]["properties"]
    assert schemas["RewardRules"]["properties"]["signed"]["default"] is None


# --- where requests need keys -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Api]]:
    """Clients of a service that requires keys, by the scopes of their keys."""
    folder, clients = tmp_path_factory.mktemp("keyed"), {}
    for scopes in ("*:admin", "*:decide *:reward", "*:reward", "*:reward *:read"):
        options = [part for scope in scopes.split() for part in ("--scope", scope)]
        made = CliRunner().invoke(app, ["keys", "add", "k", *options, "--store", str(folder / "releaf.db"), "--json"])
        clients[scopes] = json.loads(made.stdout)["key"]
    with run_service(folder, "--require-keys") as url:
        apis = {scopes: Api(url, key) for scopes, key in clients.items()}
        yield apis
        for api in apis.values():
            api.http.close()


def test_rewards_are_signed_by_default_where_requests_need_keys(keyed: dict[str, Api]) -> None:
    admin, other, stranger = keyed["*:admin"], keyed["*:decide *:reward"], keyed["*:reward"]
    path, unsigned = admin.new("LinUCB"), admin.new("LinUCB", rewards={"signed": False})
    assert (admin.get(path)["rewards"]["signed"], admin.get(unsigned)["rewards"]["signed"]) == (True, False)
    made = decide(other, path, 3)
    for number in (1, 2, 3):  # counting rewards nothing
        stranger.refused(403, "receipt_missing", "POST", f"{path}/reward", {"decision": number, "reward": 1.0})
    assert other.post(f"{path}/reward", rewarding(made[0]))["status"] == "learnt"


def test_a_key_that_may_do_everything_needs_no_receipt_but_no_wrong_one(keyed: dict[str, Api]) -> None:
    admin = keyed["*:admin"]
    path = admin.new("LinUCB")
    first, _ = decide(admin, path, 2)
    wrong = {"decision": 2, "reward": 0.5, "receipt": first["receipt"]}
    admin.refused(403, "receipt_wrong", "POST", f"{path}/reward", wrong)
    assert admin.post(f"{path}/reward", {"decision": 2, "reward": 0.5})["status"] == "learnt"


def test_only_who_may_read_learns_which_reward_a_decision_has(keyed: dict[str, Api]) -> None:
    admin = keyed["*:admin"]
    path = admin.new("LinUCB", rewards={"signed": False})
    decide(admin, path, 1)
    admin.post(f"{path}/reward", {"decision": 1, "reward": 0.625})
    other = {"decision": 1, "reward": 0.5}
    for scopes, told in (("*:reward", "another reward"), ("*:reward *:read", "the reward 0.625")):
        message = keyed[scopes].refused(409, "already_rewarded", "POST", f"{path}/reward", other)
        assert message == f"decision 1 already has {told}"
        (line,) = keyed[scopes].lines(f"{path}/reward", other)
        assert line["error"]["message"] == message
