"""The frozen policy of an experiment, which edges poll."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from service_api import Api, running_api

import releaf
from releaf.frozen import read_policy
from releaf.service.errors import ApiError
from releaf.service.experiments.policy_versions import LEAST_SECONDS, PolicyVersions, is_known


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("service")) as api:
        yield api


def test_the_frozen_policy_decides_as_the_learner_in_charge(api: Api) -> None:
    path = api.new("LinUCB")
    for step in range(40):
        made = api.post(f"{path}/decide", {"context": [step / 40, 0.5]})
        api.post(
            f"{path}/reward", {"decision": made["decision"], "reward": float((made["action"] == "a") == (step < 20))}
        )
    answer = api.http.get(f"{path}/policy")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "private, no-cache"
    frozen, learner = read_policy(answer.content), releaf.from_bytes(api.http.get(f"{path}/model").content)
    for step in range(40):
        assert frozen.decide([step / 40, 0.5]).action == learner.preview([step / 40, 0.5]).action


def test_a_poll_with_the_latest_entity_tag_gets_304_without_a_body(api: Api) -> None:
    path = api.new("Random")
    first = api.http.get(f"{path}/policy")
    for header in (first.headers["etag"], f'"other", W/{first.headers["etag"]}', "*"):
        again = api.http.get(f"{path}/policy", headers={"If-None-Match": header})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
    assert api.http.get(f"{path}/policy", headers={"If-None-Match": '"other"'}).content == first.content
    assert api.http.head(f"{path}/policy").headers["etag"] == first.headers["etag"]


def test_a_policy_that_cannot_be_exported_says_so(api: Api) -> None:
    message = api.refused(409, "not_exportable", "GET", f"{api.new('LinTS')}/policy")
    assert message == "the policy in charge is LinTS, which can't be exported: promote a shadow that can"


@pytest.mark.parametrize("given", [{"control_share": 0.2}, {"cost_weight": 0.1, "cost": [1, 2]}])
def test_a_policy_with_costs_or_a_control_group_is_not_exported_without_them(api: Api, given: Any) -> None:
    path = api.new("LinUCB", parameters=given)
    assert "can't be exported: evaluators of frozen" in api.refused(409, "not_exportable", "GET", f"{path}/policy")


class CountingPolicy(releaf.Random):
    """A policy that counts its exports and the threads that they run in."""

    def __init__(self, *arguments: Any, **parameters: Any) -> None:
        super().__init__(*arguments, **parameters)
        self.threads: list[str] = []

    def freeze_policy(self) -> Any:
        describe = super().freeze_policy()

        def described() -> bytes:
            self.threads.append(threading.current_thread().name)
            return describe()

        return described


def test_an_export_is_made_once_for_all_polls_and_off_the_event_loop() -> None:
    policy, now, event = CountingPolicy(2, 1, seed=0), [0.0], [1]
    versions = PolicyVersions(lambda: (policy, event[0]), lambda: now[0])

    async def poll(times: int) -> set[Any]:
        return set(await asyncio.gather(*(versions.latest() for _ in range(times))))

    async def poll_all() -> None:
        assert len(await poll(20)) == 1
        assert len(policy.threads) == 1
        policy.decide([0.5])
        event[0] = 2
        assert len(await poll(20)) == 1  # a change, but the latest export is not old enough
        assert len(policy.threads) == 1
        now[0] = LEAST_SECONDS
        assert len(await poll(20)) == 1
        assert len(policy.threads) == 2
        now[0] = 100.0  # old, but nothing has changed
        assert len(await poll(20)) == 1
        assert len(policy.threads) == 2

    asyncio.run(poll_all())
    assert threading.main_thread().name not in policy.threads


def test_another_learner_in_charge_is_exported_at_once() -> None:
    learners: list[Any] = [releaf.Random(2, 1, seed=0)]
    versions = PolicyVersions(lambda: (learners[-1], 1), lambda: 0.0)

    async def promote() -> None:
        before = await versions.latest()
        learners.append(releaf.UCB1(2, 1))
        assert (await versions.latest()).etag != before.etag
        learners.append(releaf.LinTS(2, 1, seed=0))
        with pytest.raises(ApiError, match="LinTS"):
            await versions.latest()

    asyncio.run(promote())


@pytest.mark.parametrize(
    ("header", "known"), [(None, False), ('"a"', True), ('W/"a"', True), ('"b", "a"', True), ("*", True), ("a", False)]
)
def test_entity_tags_are_compared_weakly(header: str | None, known: bool) -> None:
    assert is_known('"a"', header) == known
