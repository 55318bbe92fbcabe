"""Retention: old contexts and decisions leave the log, which stays verifiable, and the learner keeps what it learnt."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import postgres_server
import pytest
from event_stores import open_event_store, run_async
from service_api import running_api
from typer.testing import CliRunner

from releaf.cli import app
from releaf.client import Client
from releaf.service.errors import ApiError, StoreError
from releaf.service.experiments import decision_export, decision_records, explanations, retention
from releaf.service.experiments.registry import ExperimentRegistry
from releaf.service.experiments.retention import RetentionRunner
from releaf.service.experiments.served_experiment import ServedExperiment
from releaf.service.log.events import is_redacted
from releaf.service.messages import NewExperiment, PolicySpec, RetentionRules, RewardOf
from releaf.service.settings import ServiceSettings
from releaf.service.store import open_store
from releaf.service.store.backups import back_up
from releaf.service.store.base import EventStore

DAY = 86_400.0
SECRET = 0.123456789012345  # in the contexts of old decisions
SECRET_BYTES = struct.pack(">d", SECRET)  # as MessagePack has it
OLD, NEW = 30, 12  # decisions
EVERY = decision_records.RecordFilter()


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "store.db") if request.param == "sqlite" else postgres_server.new_database()


@asynccontextmanager
async def running(address: str, days_later: float = 0.0, store: Any = None) -> AsyncIterator[ExperimentRegistry]:
    registry = ExperimentRegistry(store or open_store(address), ServiceSettings(store=address))
    registry.clock._start += days_later * DAY
    await registry.start()
    try:
        yield registry
    finally:
        await registry.stop()


async def decide(experiment: ServedExperiment, value: float, count: int) -> None:
    for _ in range(count):
        (made,) = await experiment.decide([[value, 0.5]], [f"key {experiment.decisions()}"])
        if made.number % 3:
            await experiment.reward([RewardOf(decision=made.number, reward=0.1 * (made.number % 10))])


async def fill(address: str, rules: RetentionRules, policy: str = "LinUCB") -> bytes:
    """Old decisions, then ten days later new ones; the learner's state is returned."""
    async with running(address) as registry:
        spec = NewExperiment(
            name="shop",
            actions=["a", "b"],
            features=["x", "y"],
            policy=PolicySpec(name=policy, parameters={"seed": 0}),
            retention=rules,
        )
        experiment = await registry.create(spec)
        await decide(experiment, SECRET, OLD)
        registry.clock._start += 10 * DAY
        await decide(experiment, 0.7, NEW)
        return experiment.live().learner.to_bytes()


async def apply(experiment: ServedExperiment) -> None:
    await RetentionRunner(experiment).run_if_due()


def check(address: str, expect: int = 0) -> Any:
    done = CliRunner().invoke(app, ["store", "check", address, "--json"])
    assert done.exit_code == expect, done.output
    (found,) = json.loads(done.stdout)["experiments"]
    return found


async def bodies(store: EventStore) -> list[bytes]:
    return [page.body async for page in store.pages(1)]


async def execute(address: str, statement: str, *values: Any) -> None:
    if address.startswith("postgresql"):
        import asyncpg

        connection = await asyncpg.connect(address, server_settings={"search_path": "releaf"})
        await connection.execute(statement, *values)
        await connection.close()
        return
    import apsw

    with apsw.Connection(address) as file:
        file.execute(statement, values)


CONTEXTS_ONLY, ALL = RetentionRules(contexts_days=5), RetentionRules(contexts_days=5, decisions_days=5)


def test_old_contexts_leave_the_log_and_all_else_stays(address: str, tmp_path: Path) -> None:
    learnt = asyncio.run(fill(address, CONTEXTS_ONLY))

    async def test() -> None:
        async with running(address, 10) as registry:
            experiment = registry.find("shop")
            assert experiment.live().learner.to_bytes() == learnt
            listed = (await decision_records.list_decisions(experiment, 1000, None, EVERY)).decisions[::-1]
            assert [one.decision for one in listed] == list(range(1, OLD + NEW + 1))
            assert [one.context for one in listed] == [{}] * OLD + [{"x": 0.7, "y": 0.5}] * NEW
            assert {one.outcome for one in listed[:OLD]} == {"rewarded", "waiting"}
            exported = b"".join([part async for part in decision_export.export_decisions(experiment, address, "csv")])
            rows = list(csv.DictReader(io.StringIO(exported.decode())))
            assert [row["x"] for row in rows] == [""] * OLD + ["0.7"] * NEW
            assert all([part async for part in decision_export.export_decisions(experiment, address, "parquet")][-1:])
            why = await explanations.explain_decision(experiment.live(), await experiment.read_decision(1))
            assert why.explanation.startswith("Decision 1 chose")
            (again,) = await experiment.decide([[SECRET, 0.5]], ["key 0"])  # the same key gives the same decision
            assert again.number == 1
            (late,) = await experiment.reward([RewardOf(decision=3, reward=0.5)])  # still pending
            assert late.status == "learnt"
            assert not any(SECRET_BYTES in body for body in await bodies(registry.store))

    asyncio.run(fill_is_redacted(address, CONTEXTS_ONLY))
    run_async(test())
    found = check(address)
    assert found["findings"] == []
    assert found["replayed_from"] > OLD
    if not address.startswith("postgresql"):
        files = [path.read_bytes() for path in tmp_path.glob("store.db*") if path.is_file()]
        assert files
        assert not any(SECRET_BYTES in content for content in files)


async def fill_is_redacted(address: str, rules: RetentionRules) -> None:
    """The service has dropped what is old by itself soon after its start."""
    async with running(address, 10) as registry:
        experiment = registry.find("shop")
        assert experiment.live().retention == rules
        for _ in range(600):
            if any(map(is_redacted, await bodies(registry.store))):
                break
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)


def test_old_decisions_leave_the_log_with_their_rewards(address: str, tmp_path: Path) -> None:
    learnt = asyncio.run(fill(address, ALL))

    async def test() -> None:
        async with running(address, 10) as registry:
            experiment = registry.find("shop")
            await apply(experiment)
            listed = await decision_records.list_decisions(experiment, 5, None, EVERY)
            assert listed.next is not None
            listed = await decision_records.list_decisions(experiment, 1000, None, EVERY)
            assert [one.decision for one in listed.decisions[::-1]] == list(range(OLD + 1, OLD + NEW + 1))
            assert listed.next is None
            assert min(await registry.store.rewards(1, 1, 1000)) > OLD
            with pytest.raises(ApiError, match="dropped by the experiment's retention"):
                await experiment.read_decision(1)
            lines = b"".join([part async for part in decision_export.export_decisions(experiment, address, "ndjson")])
            assert len(lines.splitlines()) == NEW
            assert experiment.live().learner.to_bytes() == learnt
            (made,) = await experiment.decide([[0.7, 0.5]], [None])
            assert made.number == OLD + NEW + 1
            (late,) = await experiment.reward([RewardOf(decision=3, reward=0.5)])
            assert late.status == "learnt"

    run_async(test())
    found = check(address)
    assert (found["findings"], found["decisions"]) == ([], OLD + NEW + 1)
    asyncio.run(back_up(address, tmp_path / "b.db"))
    assert check(str(tmp_path / "b.db")) == found


def test_the_key_of_a_dropped_decision_makes_a_new_one(address: str) -> None:
    asyncio.run(fill(address, ALL))

    async def test() -> None:
        async with running(address, 10) as registry:
            await apply(registry.find("shop"))
        async with running(address, 10) as registry:
            experiment = registry.find("shop")
            assert list(experiment.live().keys.values()) == list(range(OLD + 1, OLD + NEW + 1))
            made = await experiment.decide([[0.7, 0.5]] * 3, ["key 0", f"key {OLD}", "other"])
            assert [one.number for one in made] == [OLD + NEW + 1, OLD + 1, OLD + NEW + 2]

    run_async(test())
    assert check(address)["findings"] == []


@pytest.mark.parametrize("rules", [CONTEXTS_ONLY, ALL, RetentionRules(contexts_days=5, decisions_days=8)])
def test_a_redacted_experiment_recovers_bit_for_bit(address: str, rules: RetentionRules) -> None:
    asyncio.run(fill(address, rules, "AdaptiveReleaf"))

    async def test() -> None:
        async with running(address, 10) as registry:
            experiment = registry.find("shop")
            await apply(experiment)
            await decide(experiment, 0.2, 7)
            state = experiment.live().learner.to_bytes()
            await experiment.recover()
            assert experiment.live().learner.to_bytes() == state
            assert 0 not in await registry.store.snapshots(1)
            assert len([n for n in await registry.store.snapshots(1) if n >= OLD]) >= 2
        async with running(address, 11) as registry:
            assert registry.find("shop").live().learner.to_bytes() == state
            assert registry.find("shop").messages == []

    run_async(test())
    assert check(address)["findings"] == []


def test_without_rules_nothing_is_dropped(address: str) -> None:
    asyncio.run(fill(address, RetentionRules()))

    async def test() -> None:
        async with running(address, 10_000) as registry:
            before = await bodies(registry.store)
            await apply(registry.find("shop"))
            assert await bodies(registry.store) == before

    run_async(test())
    assert check(address)["replayed_from"] == 0


def test_contexts_go_first_and_decisions_later(address: str) -> None:
    asyncio.run(fill(address, RetentionRules(contexts_days=5, decisions_days=20)))

    async def kept(days: float) -> list[Any]:
        async with running(address, days) as registry:
            await apply(registry.find("shop"))
            page = await decision_records.list_decisions(registry.find("shop"), 1000, None, EVERY)
            return [one.context for one in page.decisions[::-1]]

    assert asyncio.run(kept(10)) == [{}] * OLD + [{"x": 0.7, "y": 0.5}] * NEW
    assert check(address)["findings"] == []
    assert asyncio.run(kept(21)) == [{}] * NEW
    assert check(address)["findings"] == []
    assert asyncio.run(kept(31)) == []
    assert check(address)["findings"] == []


# --- faults -------------------------------------------------------------------------------------------------


class FailingRedaction:
    """A store that redacts some pages, then fails."""

    def __init__(self, store: EventStore, calls: int) -> None:
        self._store, self._calls = store, calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def redact(self, *arguments: Any) -> None:
        self._calls -= 1
        if self._calls < 0:
            raise StoreError("the disk is full")
        await self._store.redact(*arguments)


@pytest.mark.parametrize("calls", [0, 1, 7])
def test_an_interrupted_redaction_leaves_a_sound_log_and_goes_on_later(
    address: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt = asyncio.run(fill(address, CONTEXTS_ONLY))
    monkeypatch.setattr(retention, "PAGES_PER_WRITE", 1)
    monkeypatch.setattr(retention, "PAGES_PER_RUN", 9)

    async def test() -> None:
        store = FailingRedaction(open_store(address), calls)
        async with running(address, 10, store) as registry:
            for _ in range(3):
                with pytest.raises(StoreError):
                    await apply(registry.find("shop"))
                store._calls = 0
        assert (await asyncio.to_thread(check, address))["findings"] == []
        async with running(address, 10) as registry:
            experiment = registry.find("shop")
            assert experiment.live().learner.to_bytes() == learnt
            runner = RetentionRunner(experiment)
            for _ in range(OLD):
                await runner.run_if_due()
            assert not any(SECRET_BYTES in body for body in await bodies(registry.store))

    run_async(test())
    assert check(address)["findings"] == []


@pytest.mark.parametrize("harm", ["flip", "swap", "unmark", "remove"])
def test_damage_of_a_redacted_page_is_found(address: str, harm: str) -> None:
    asyncio.run(fill(address, CONTEXTS_ONLY))

    async def test() -> None:
        async with running(address, 10) as registry:
            await apply(registry.find("shop"))
        async with open_event_store(address) as store:
            pages = [page async for page in store.pages(1)]
        first, second = [page for page in pages if is_redacted(page.body)][3:5]
        altered = bytearray(first.body)
        altered[-3] ^= 1
        new = {"flip": bytes(altered), "swap": second.body, "unmark": first.body[18:], "remove": None}[harm]
        if new is None:
            await execute(address, f"DELETE FROM pages WHERE last = {first.last}")
        else:
            await execute(address, f"UPDATE pages SET body = $1 WHERE last = {first.last}", new)

    run_async(test())
    (finding,) = check(address, expect=1)["findings"]
    assert "the log is damaged after event" in finding


def test_a_damaged_page_is_not_redacted_and_its_damage_is_told(address: str) -> None:
    asyncio.run(fill(address, CONTEXTS_ONLY))

    async def test() -> None:
        async with open_event_store(address) as store:
            page = [page async for page in store.pages(1)][5]
        altered = page.body[:-1] + bytes([page.body[-1] ^ 1])
        await execute(address, f"UPDATE pages SET body = $1 WHERE last = {page.last}", altered)
        async with running(address, 10) as registry:
            experiment = registry.find("shop")
            await apply(experiment)
            assert any("retention stops at event" in message for message in experiment.messages)
            assert (await bodies(registry.store))[5] == altered

    run_async(test())


# --- the API ------------------------------------------------------------------------------------------------


def test_retention_is_set_shown_recorded_and_kept(address: str, tmp_path: Path) -> None:
    none = {"decisions_days": None, "hash_contexts": False}
    later = {"contexts_days": 30, "decisions_days": 365.5, "hash_contexts": False}
    with running_api(tmp_path, "--store", address) as api, Client(api.url) as client:
        client.create("shop", ["a"], 1, policy="UCB1", contexts_days=90)
        assert api.get("/v1/experiments/shop")["retention"] == {"contexts_days": 90, **none}
        told = client.set_retention("shop", contexts_days=30, decisions_days=365.5)
        assert told["retention"] == later
        path = "/v1/experiments/shop/retention"
        wrong: Sequence[Any] = ({"contexts_days": 0}, {"contexts_days": -1}, {"days": 1}, {"decisions_days": 1e9})
        for body in wrong:
            api.refused(422, "invalid", "PUT", path, body)
        (latest, created) = api.get("/v1/audit", experiment="shop")["changes"]
        assert (latest["change"], latest["subject"]) == ("set_retention", None)
        assert latest["before"] == {"retention": {"contexts_days": 90, **none}}
        assert latest["after"] == {"retention": later}
        assert created["after"]["retention"] == {"contexts_days": 90, **none}
        assert api.get(api.new(policy="UCB1"))["retention"] == {"contexts_days": None, **none}
    with running_api(tmp_path, "--store", address) as api:
        assert api.get("/v1/experiments/shop")["retention"] == later
