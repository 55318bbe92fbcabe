"""Large requests are answered in slices: other requests run between them, and the log stays exact."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from running_service import COMPILE_TIMEOUT_SECONDS

from releaf.service.app import Service, make_service
from releaf.service.errors import ApiError
from releaf.service.experiments import decision_records, event_feeds, time_slices
from releaf.service.experiments.served_experiment import ServedExperiment
from releaf.service.log.decision_record import decision_record
from releaf.service.log.events import Expired
from releaf.service.messages import NewExperiment, PolicySpec, RewardOf, RewardRules
from releaf.service.settings import ServiceSettings
from releaf.service.store.sqlite import SqliteStore

MANY = 600
CONTEXT = [0.25, 0.75]
T = TypeVar("T")


class CountingStore(SqliteStore):
    """A store that counts its reads."""

    reads = 0

    async def _read(self, statement: str, *values: Any) -> list[Any]:
        self.reads += 1
        return await super()._read(statement, *values)


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[tuple[Service, httpx.AsyncClient, CountingStore]]:
    store = CountingStore(path)
    service = make_service(ServiceSettings(store=str(path), write_timeout=COMPILE_TIMEOUT_SECONDS), store)
    await service.registry.start()
    try:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=service.app), base_url="http://127.0.0.1:8000", timeout=None
        ) as client:
            yield service, client, store
    finally:
        await service.registry.stop()


async def create(service: Service, policy: str = "LinUCB", **rewards: Any) -> ServedExperiment:
    spec = NewExperiment(
        name="shop",
        actions=["a", "b", "c"],
        features=["x", "y"],
        policy=PolicySpec(name=policy, parameters={"seed": 0}),
        rewards=RewardRules(**rewards),
    )
    return await service.registry.create(spec)


async def decide(experiment: ServedExperiment, count: int, each: int) -> None:
    for _ in range(count // each):
        await experiment.decide([CONTEXT] * each, [None] * each)


def rewards_of(first: int, last: int) -> list[RewardOf]:
    return [RewardOf(decision=number, reward=number % 7 / 7) for number in range(first, last + 1)]


async def turns_during(work: Coroutine[Any, Any, T]) -> tuple[T, int, int]:
    """The result of a coroutine, in how many turns of the event loop it came, and the largest number of tasks."""
    task, turns, tasks = asyncio.create_task(work), 0, 0
    while not task.done():
        await asyncio.sleep(0)
        turns, tasks = turns + 1, max(tasks, len(asyncio.all_tasks()))
    return await task, turns, tasks


async def post_lines(client: httpx.AsyncClient, path: str, lines: list[Any]) -> list[Any]:
    content = b"\n".join(json.dumps(line).encode() for line in lines)
    answer = await client.post(path, content=content, headers={"Content-Type": "application/x-ndjson"})
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.mark.parametrize("each", [1, 10, MANY])
def test_lines_of_settled_decisions_take_few_reads_and_no_task_each(tmp_path: Path, each: int) -> None:
    async def test() -> None:
        async with serving(tmp_path / "store.db") as (service, client, store):
            await decide(await create(service, "Random"), MANY, each)
            before, lines = store.reads, [{"decision": number, "reward": 1} for number in range(1, MANY + 1)]
            answers, _, tasks = await turns_during(post_lines(client, "/v1/experiments/shop/reward", lines))
            assert [answer["error"]["code"] for answer in answers] == ["unasked"] * MANY
            assert store.reads - before < 20
            assert tasks < 20

    asyncio.run(test())


def test_a_range_of_rewards_is_not_read_whole(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path / "store.db") as (service, _, store):
            experiment = await create(service)
            await decide(experiment, MANY, MANY)
            await experiment.reward(rewards_of(1, MANY))
            rows = await store.rewards_of(experiment.id, [1, MANY, MANY + 1])
            assert list(rows) == [1, MANY]
            assert (await store.rewards_of(experiment.id, list(range(1, 5 * MANY)))).keys() == set(range(1, MANY + 1))

            async def refuse(*_: Any) -> Any:
                raise AssertionError("a range is read")

            store.rewards = refuse  # type: ignore[method-assign, assignment]
            answers = await experiment.reward([*rewards_of(1, 1), *rewards_of(MANY, MANY)])
            assert [answer.status for answer in answers] == ["repeated", "repeated"]

    asyncio.run(test())


def test_each_line_gets_its_own_answer(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path / "store.db") as (service, client, _):
            await decide(await create(service), 4, 4)
            path = "/v1/experiments/shop/reward"
            await client.post(path, json={"decision": 1, "reward": 0.5})
            sent = [(1, 0.5), (1, 0.25), (1, "x"), (2, 7), (2, 0.5), (2, 0.5), (2, 0.75), (9, 1), (3, 1)]
            answers = await post_lines(client, path, [{"decision": one, "reward": value} for one, value in sent])
            assert [answer.get("status") or answer["error"]["code"] for answer in answers] == [
                *("repeated", "already_rewarded", "invalid"),
                *("invalid", "learnt", "repeated", "already_rewarded", "unknown_decision", "learnt"),
            ]

    asyncio.run(test())


def test_a_repeated_batch_reads_its_decisions_together(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path / "store.db") as (service, _, store):
            experiment = await create(service)
            keys = [f"key {number}" for number in range(MANY)]
            made = [(await experiment.decide([CONTEXT], [key]))[0] for key in keys]
            before = store.reads
            assert await experiment.decide([CONTEXT] * MANY, keys) == made
            assert store.reads - before < 20

    asyncio.run(test())


def test_other_requests_run_between_the_parts_of_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "SLICE_SECONDS", 0.0)

    async def test() -> None:
        async with serving(tmp_path / "store.db") as (service, _, _):
            experiment = await create(service, within_seconds=3600.0, default=0.0)
            made, turns, _ = await turns_during(experiment.decide([CONTEXT] * MANY, [None] * MANY))
            assert [event.number for event in made] == list(range(1, MANY + 1))
            assert turns >= MANY
            _, turns, _ = await turns_during(experiment.reward(rewards_of(1, MANY // 2)))
            assert turns >= MANY // 2
            service.registry.clock._start += 7200.0
            _, turns, _ = await turns_during(experiment.expire())
            assert turns >= MANY // 2
            assert experiment.live().counts().defaults == MANY // 2

    asyncio.run(test())


def test_interleaved_slices_are_recovered_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "SLICE_SECONDS", 0.0)
    path = tmp_path / "store.db"

    async def live() -> tuple[bytes, Any]:
        async with serving(path) as (service, _, _):
            experiment = await create(service, "AdaptiveReleaf", within_seconds=3600.0, default=0.0)
            await decide(experiment, MANY, MANY)
            experiment.save_snapshot = _nothing  # type: ignore[method-assign]
            keys = [f"key {number}" for number in range(MANY)]
            results: list[Any] = await asyncio.gather(
                experiment.decide([CONTEXT] * MANY, [*keys]),
                experiment.decide([CONTEXT] * MANY, [*keys]),
                experiment.reward(rewards_of(1, MANY // 2)),
                experiment.decide([CONTEXT], [None]),
                experiment.reward(rewards_of(MANY // 4, MANY)),
                experiment.change("remove_action", "c"),
                experiment.decide([CONTEXT] * 20, [None] * 20),
                return_exceptions=True,
            )
            first, again = results[:2]
            assert [event.number for event in first] == list(range(MANY + 1, 2 * MANY + 1))
            assert again == first
            return experiment.live().learner.to_bytes(), experiment.live().counts()

    async def recover() -> tuple[bytes, Any]:
        async with serving(path) as (service, _, _):
            experiment = service.registry.find("shop")
            assert experiment.live().diverged is None
            return experiment.live().learner.to_bytes(), experiment.live().counts()

    learnt = asyncio.run(live())
    assert asyncio.run(recover()) == learnt


async def _nothing() -> None:
    """Save no snapshot, so that a recovery replays the log."""


def test_a_batch_is_valid_or_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "SLICE_SECONDS", 0.0)

    async def test() -> None:
        async with serving(tmp_path / "store.db") as (service, client, _):
            experiment = await create(service)
            path = "/v1/experiments/shop"
            for body in (
                {"contexts": [CONTEXT] * MANY + [[0.5, 7.0]]},
                {"contexts": [CONTEXT] * MANY, "eligible": [["a", "b"]] * (MANY - 1) + [["z"]]},
            ):
                assert (await client.post(f"{path}/decide", json=body)).status_code == 422
            assert experiment.decisions() == 0
            await decide(experiment, MANY, MANY)
            last = [{"decision": MANY, "reward": 7.0}]
            rewards = [{"decision": number, "reward": 1.0} for number in range(1, MANY)] + last
            assert (await client.post(f"{path}/reward", json={"rewards": rewards})).status_code == 422
            assert experiment.live().counts().rewards == 0

    asyncio.run(test())


def test_filtered_lists_scan_in_slices_and_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "SLICE_SECONDS", 0.0)

    async def test() -> None:
        async with serving(tmp_path / "store.db") as (service, client, _):
            await decide(await create(service), 4 * MANY, 4 * MANY)
            path = "/v1/experiments/shop/decisions?outcome=dropped"
            answer, turns, _ = await turns_during(client.get(path))
            assert answer.json() == {"decisions": [], "next": None}
            assert turns >= 4 * MANY / decision_records.GROUP
            answers = await asyncio.gather(*(client.get(path) for _ in range(20)))
            refused = [one for one in answers if one.status_code == 429]
            assert len(refused) == 12
            assert refused[0].headers["retry-after"] == "1"
            assert (await client.get(path)).status_code == 200

    asyncio.run(test())


def test_a_list_goes_on_after_the_most_that_one_request_scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_records, "MAX_SCANNED", 250)

    async def test() -> None:
        async with serving(tmp_path / "store.db") as (service, client, _):
            experiment = await create(service)
            await decide(experiment, MANY, 150)
            await experiment.reward(rewards_of(5, 6))
            found, answers, following = [], 0, "&before=10000"
            while following:
                page = (await client.get(f"/v1/experiments/shop/decisions?outcome=rewarded{following}")).json()
                found += [one["decision"] for one in page["decisions"]]
                answers, following = answers + 1, page["next"] and f"&before={page['next']}"
            assert found == [6, 5]
            assert answers >= 2

    asyncio.run(test())


def test_a_commit_is_encoded_once_for_all_feeds_and_its_feeds_tell_what_they_skip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = 0

    def count_records(*arguments: Any) -> Any:
        nonlocal encoded
        encoded += 1
        return decision_record(*arguments)

    monkeypatch.setattr(event_feeds, "decision_record", count_records)

    async def test() -> None:
        async with serving(tmp_path / "store.db") as (service, _, _):
            experiment, feeds = await create(service), service.registry.feeds
            watching = [feeds.open("someone") for _ in range(20)]
            experiment.feeds.update(watching)
            made = await experiment.decide([CONTEXT] * MANY, [None] * MANY)
            told = [(await feeds.next_messages(feed, lambda: True)).decode() for feed in watching]
            assert encoded <= MANY
            assert len(set(told)) == 1
            decisions = [json.loads(line[6:])["decision"] for line in told[0].splitlines() if '"action"' in line]
            skipped = [json.loads(line[6:])["events"] for line in told[0].splitlines() if '{"events"' in line]
            assert decisions[-1] == made[-1].number
            assert len(decisions) + sum(skipped) == MANY

    asyncio.run(test())


def test_many_events_of_one_commit_are_sampled() -> None:
    events = [Expired(float(number), [2 * number, 2 * number + 1]) for number in range(MANY)]
    told = event_feeds.encode_messages(events, None).decode().split("\n\n")[:-1]
    assert told[0] == f'event: skipped\ndata: {{"events":{2 * MANY - event_feeds.MAX_PUBLISHED}}}'
    numbers = [json.loads(one.partition("data: ")[2])["decision"] for one in told[1:]]
    assert numbers == list(range(2 * MANY - event_feeds.MAX_PUBLISHED, 2 * MANY))


def test_a_commit_during_a_recovery_is_not_published(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(tmp_path / "store.db") as (service, _, _):
            experiment = await create(service)
            experiment.feeds.add(service.registry.feeds.open("someone"))
            deciding = asyncio.create_task(experiment.decide([CONTEXT], [None]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            experiment.state = None
            assert (await deciding)[0].number == 1
            await experiment.flush()

    asyncio.run(test())


def test_the_number_of_feeds_of_all_clients_is_limited() -> None:
    feeds = event_feeds.EventFeeds(limit=2, total=3)
    opened = [feeds.open(owner) for owner in ("ann", "ann", "bob")]
    with pytest.raises(ApiError, match="3 feeds of all clients are open"):
        feeds.open("eve")
    feeds.close(opened[0])
    assert feeds.open("eve") is not None
