"""Erasure of one subject: nothing of its decisions is left in the store, all else stays, and a proof tells it."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import postgres_server
import pytest
from event_stores import open_event_store, run_async
from polling import TIMEOUT_SECONDS
from service_api import Api, running_api
from store_bytes import find_in_store, forms_of
from typer.testing import CliRunner

from releaf.cli import app
from releaf.client import AsyncClient, Client
from releaf.core.adaptive import engine, fitting
from releaf.service.errors import ApiError
from releaf.service.experiments import decision_export, decision_records, erasure, redaction
from releaf.service.experiments.change_records import MAX_ID, Sender
from releaf.service.experiments.offline_erasure import erase_in_store
from releaf.service.experiments.registry import ExperimentRegistry
from releaf.service.experiments.retention import RetentionRunner
from releaf.service.experiments.served_experiment import ServedExperiment
from releaf.service.log.events import CONTEXTS, ERASED, HASHED, is_redacted, redaction_level
from releaf.service.messages import (
    ErasureProof,
    NewExperiment,
    NewShadow,
    PolicySpec,
    RetentionRules,
    RewardOf,
    RewardRules,
)
from releaf.service.settings import ServiceSettings
from releaf.service.store import open_store
from releaf.service.store.backups import back_up
from releaf.service.store.base import EventStore

ANN, BOB = "ann@example.org", "bob@example.org"
OPERATOR = Sender("Ab12Cd34", "r-7")
HERS: list[float | str] = [0.123456789012345, 0.987654321098765, ANN, "order 4711"]  # found nowhere after the erasure
DAY = 86_400.0


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "store.db") if request.param == "sqlite" else postgres_server.new_database()


@asynccontextmanager
async def running(address: str, days_later: float = 0.0) -> AsyncIterator[ExperimentRegistry]:
    registry = ExperimentRegistry(open_store(address), ServiceSettings(store=address))
    registry.clock._start += days_later * DAY
    await registry.start()
    try:
        yield registry
    finally:
        await registry.stop()


async def create(registry: ExperimentRegistry, policy: str, **further: Any) -> ServedExperiment:
    spec = NewExperiment(
        name="shop",
        actions=["tea", "milk"],
        features=["x", {"name": "spent", "kind": "quantile"}, "z"],
        policy=PolicySpec(name=policy, parameters={"seed": 0}),
        **further,
    )
    experiment = await registry.create(spec)
    for name in ("ContextualZooming", "HybridEpsilon", "AdaptiveReleaf"):
        await experiment.add_shadow(NewShadow(name=f"s-{name}", policy=PolicySpec(name=name, parameters={"seed": 1})))
    return experiment


async def decide(experiment: ServedExperiment, count: int, *, rewarded: int = 2) -> None:
    """Decisions one by one, and batches in which those of Ann are next to those of Bob, and some have no subject."""
    for number in range(count):
        others, hers = [0.01 * number, 100.0 + number, 0.5], [HERS[0], HERS[1], 0.25]
        key = "order 4711" if number == 0 else f"order {number}"
        await experiment.decide([hers], [key], subjects=[ANN])
        made = await experiment.decide([others, hers, others], [None] * 3, subjects=[BOB, ANN, None])
        for decision in made[:rewarded]:
            await experiment.reward([RewardOf(decision=decision.number, reward=0.25 * (decision.number % 4))])


async def fill(address: str, policy: str = "AdaptiveReleaf", count: int = 12, **further: Any) -> None:
    async with running(address) as registry:
        experiment = await create(registry, policy, **further)
        await decide(experiment, count)
        await experiment.save_snapshot()


async def erase(registry: ExperimentRegistry, subject: str = ANN) -> ErasureProof:
    return await erasure.erase_subject(registry.find("shop"), subject, OPERATOR)


def check(address: str) -> Any:
    done = CliRunner().invoke(app, ["store", "check", address, "--json"])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["experiments"]
    return found


def compact(address: str, *options: str) -> None:
    assert CliRunner().invoke(app, ["store", "compact", address, *options]).exit_code == 0


async def listed(experiment: ServedExperiment) -> list[Any]:
    page = await decision_records.list_decisions(experiment, 1000, None, decision_records.RecordFilter())
    return page.decisions[::-1]


# --- what goes, what stays ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["AdaptiveReleaf", "LinUCB"])
def test_after_an_erasure_no_byte_of_the_subject_is_in_the_store(address: str, policy: str, tmp_path: Path) -> None:
    asyncio.run(fill(address, policy))
    assert asyncio.run(find_in_store(address, *HERS)) == {HERS[0], HERS[1], "order 4711"}  # a subject is never stored

    async def test() -> None:
        async with running(address) as registry:
            experiment = registry.find("shop")
            before = experiment.live().counts()
            proof = await erase(registry)
            assert (proof.decisions, proof.rewards, proof.pending) == (24, 12, 12)
            assert proof.learner_rows >= 24  # of learners with samples, and pending ones
            assert (proof.found_after, proof.set_aside_pages) == (0, 0)
            assert proof.searched_pages >= 36
            assert proof.subject == experiment.hashes.subject(ANN) != experiment.hashes.subject(BOB)
            assert len(proof.snapshots) >= 2
            after = experiment.live().counts()
            assert (after.decisions, after.rewards) == (before.decisions, before.rewards)
            assert after.dropped == before.dropped + 12
            assert after.unaccounted == 0
            records = await listed(experiment)
            assert len(records) == 24
            assert {one.subject for one in records} == {experiment.hashes.subject(BOB), None}
            assert all(one.context for one in records)
            gone = set(range(1, 49)) - {one.decision for one in records}
            rewards = await registry.store.rewards(1, 1, 100)
            assert not gone & rewards.keys()
            assert len(rewards) == 12
            with pytest.raises(ApiError, match="or erased"):
                await experiment.read_decision(1)
            with pytest.raises(ApiError, match="or erased"):
                await experiment.reward([RewardOf(decision=1, reward=0.5)])
            parts = [part async for part in decision_export.export_decisions(experiment, address, "csv")]
            assert len(list(csv.DictReader(io.StringIO(b"".join(parts).decode())))) == 24
            (again,) = await experiment.decide([[0.5, 1.0, 0.5]], ["order 4711"], subjects=[BOB])  # the key is free
            assert again.number == 49

    run_async(test())
    found = check(address)
    assert (found["findings"], found["decisions"]) == ([], 49)
    compact(address)
    assert asyncio.run(find_in_store(address, *HERS[:3])) == set()
    asyncio.run(back_up(address, tmp_path / "b.db"))
    assert asyncio.run(find_in_store(str(tmp_path / "b.db"), *HERS[:3])) == set()
    assert check(str(tmp_path / "b.db")) == found


def test_a_repeated_erasure_finds_nothing_and_changes_nothing(address: str) -> None:
    asyncio.run(fill(address, "LinUCB"))

    async def test() -> None:
        async with running(address) as registry:
            await erase(registry)
            last = registry.find("shop").last
            proof = await erase(registry)
            assert (proof.decisions, proof.rewards, proof.redacted_pages, proof.backups_before) == (0, 0, 0, None)
            assert registry.find("shop").last == last
            nobody = await erase(registry, "nobody")
            assert (nobody.decisions, nobody.found_after) == (0, 0)
            changes = await registry.store.changes("shop", MAX_ID, 100)
            (record,) = [row for row in changes if row.change == "erase_subject"]
            assert record[2:6] == ("Ab12Cd34", "r-7", "erase_subject", proof.subject)
            assert json.loads(str(record.after)) == {"decisions": 24}

    run_async(test())


@pytest.mark.parametrize("policy", ["AdaptiveReleaf", "LinUCB"])
def test_an_experiment_goes_on_after_an_erasure_and_recovers_bit_for_bit(address: str, policy: str) -> None:
    asyncio.run(fill(address, policy, rewards=RewardRules(within_seconds=3600.0, default=0.0)))

    async def test() -> None:
        async with running(address) as registry:
            experiment = registry.find("shop")
            await erase(registry)
            await decide(experiment, 5)
            slots = [experiment.live().slot, *experiment.live().shadows]
            states = [slot.learner.to_bytes() for slot in slots]
            await experiment.recover()
            again = [experiment.live().slot, *experiment.live().shadows]
            assert [slot.learner.to_bytes() for slot in again] == states
            assert experiment.messages == []
            second = await erase(registry)
            assert second.decisions == 10
        async with running(address, 1) as registry:  # the deadlines of all others have passed
            await registry.find("shop").expire()
            assert registry.find("shop").live().counts().waiting == 0

    run_async(test())
    assert check(address)["findings"] == []


def test_decisions_that_are_made_during_an_erasure_are_lost_by_nobody(address: str) -> None:
    """Those of others stay, and of the subject none from before the last event of the erasure is left."""
    asyncio.run(fill(address, "LinUCB", count=30))

    async def test() -> None:
        async with running(address) as registry:
            experiment, is_done = registry.find("shop"), False

            async def go_on() -> int:
                made = 0
                while not is_done:
                    await experiment.decide([[HERS[0], 1.0, 0.5]], [None], subjects=[ANN])
                    await experiment.decide([[0.5, 1.0, 0.5]], [None], subjects=[BOB])
                    made += 1
                return made

            deciding = asyncio.create_task(go_on())
            proof = await erase(registry)
            is_done = True
            made = await deciding
            records = await listed(experiment)
            bobs = experiment.hashes.subject(BOB)
            assert sum(one.subject == bobs for one in records) == 30 + made
            hers = sum(one.subject == proof.subject for one in records)
            assert proof.decisions + hers == 60 + made
            await erase(registry)
            assert all(one.subject != proof.subject for one in await listed(experiment))

    run_async(test())
    assert check(address)["findings"] == []


def test_decisions_go_on_while_models_are_fitted_anew(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that fits them waits here: so whatever happens before it goes on was not put off by it."""
    asyncio.run(fill(address, "AdaptiveReleaf", count=30))
    may_fit, fit = threading.Event(), fitting.fit

    def fit_later(*arguments: Any) -> Any:
        assert may_fit.wait(TIMEOUT_SECONDS)
        return fit(*arguments)

    async def test() -> None:
        async with running(address) as registry:
            experiment = registry.find("shop")
            monkeypatch.setattr(engine, "FIRST_FIT", 1)
            monkeypatch.setattr(engine, "fit", fit_later)
            erasing = asyncio.create_task(erase(registry))
            while not experiment.live().is_erasing:
                await asyncio.sleep(0)
            await decide(experiment, 3, rewarded=3)
            snapshots = await registry.store.snapshots(experiment.id)
            await experiment.save_snapshot()  # with what models know of her: not saved
            assert await registry.store.snapshots(experiment.id) == snapshots
            with pytest.raises(ApiError, match="after an erasure") as error:
                await experiment.policy_versions.latest()
            assert error.value.status == 503
            with pytest.raises(ApiError, match="after an erasure"):
                experiment.exportable()
            assert not erasing.done()
            may_fit.set()
            proof = await erasing
            assert proof.decisions >= 60
            assert not experiment.live().is_erasing
            states = [slot.learner.to_bytes() for slot in (experiment.live().slot, *experiment.live().shadows)]
            await experiment.recover()
            again = [experiment.live().slot, *experiment.live().shadows]
            assert [slot.learner.to_bytes() for slot in again] == states
            await erase(registry)

    run_async(test())
    assert check(address)["findings"] == []
    compact(address)
    assert asyncio.run(find_in_store(address, *HERS)) == set()


def test_after_a_full_compaction_no_file_of_a_postgresql_table_has_a_byte_of_the_subject() -> None:
    """A plain VACUUM leaves it in free space until other rows are written there, as the documentation says."""
    with postgres_server.own_server() as server:
        address = server.database()

        async def test() -> None:
            async with running(address) as registry:
                await erase(registry)

        asyncio.run(fill(address, "LinUCB"))
        run_async(test())
        compact(address)
        left = {value for value in HERS[:3] for file in server.table_files() if any(f in file for f in forms_of(value))}
        assert "order 4711" not in asyncio.run(find_in_store(address, *HERS))
        assert HERS[0] in left
        compact(address, "--full")
        for value in HERS[:3]:
            assert not any(form in file for form in forms_of(value) for file in server.table_files())
        assert check(address)["findings"] == []


# --- with retention -----------------------------------------------------------------------------------------


async def levels(store: EventStore) -> set[bytes]:
    return {redaction_level(page.body) for page in [page async for page in store.pages(1)] if is_redacted(page.body)}


@pytest.mark.parametrize("is_hashed", [False, True])
@pytest.mark.parametrize("is_erased_first", [False, True])
def test_retention_and_erasure_follow_each_other_in_any_order(
    address: str, is_hashed: bool, is_erased_first: bool
) -> None:
    rules = RetentionRules(contexts_days=5, hash_contexts=is_hashed)
    asyncio.run(fill(address, "LinUCB", retention=rules))
    level = HASHED if is_hashed else CONTEXTS

    async def test() -> None:
        if is_erased_first:
            async with running(address) as registry:
                await erase(registry)
                assert await levels(registry.store) == {ERASED}
        async with running(address, 10) as registry:
            experiment = registry.find("shop")
            await RetentionRunner(experiment).run_if_due()
            assert level in await levels(registry.store)
            if not is_erased_first:
                assert (await erase(registry)).decisions == 24
            records = await listed(experiment)
            assert len(records) == 24
            assert all(one.context == {} for one in records)
            hashes = [one.context_hash for one in records]
            assert all(hashes) if is_hashed else not any(hashes)
            if is_hashed:
                assert hashes[0] == hashes[1] == experiment.hashes.context([0.0, 100.0, 0.5]) != hashes[2]

    run_async(test())
    assert check(address)["findings"] == []
    compact(address)
    assert asyncio.run(find_in_store(address, *HERS)) == set()


def test_a_key_of_a_hashed_context_is_still_that_of_its_context(address: str) -> None:
    asyncio.run(fill(address, "LinUCB", retention=RetentionRules(contexts_days=5, hash_contexts=True)))

    async def test() -> None:
        async with running(address, 10) as registry:
            experiment = registry.find("shop")
            await RetentionRunner(experiment).run_if_due()
            context = [HERS[0], HERS[1], 0.25]
            (again,) = await experiment.decide([context], ["order 4711"], subjects=[ANN])
            assert again.number == 1
            with pytest.raises(ApiError, match="used for another context"):
                await experiment.decide([[0.5, 0.5, 0.5]], ["order 4711"], subjects=[ANN])
            with pytest.raises(ApiError, match="used for another subject"):
                await experiment.decide([context], ["order 4711"], subjects=[BOB])
            await experiment.change("set_retention", RetentionRules(contexts_days=5), sender=OPERATOR)
            await RetentionRunner(experiment).run_if_due()  # hashes go as well now
            assert not any(one.context_hash for one in await listed(experiment))
            assert all(one.subject for one in await listed(experiment) if one.decision == 1)

    run_async(test())
    assert check(address)["findings"] == []


# --- faults -------------------------------------------------------------------------------------------------

KILLED = """
import asyncio, os, signal, sys
from releaf.service.experiments import redaction
from releaf.service.experiments import erasure
from releaf.service.experiments.offline_erasure import erase_in_store
from releaf.service.store import open_store

erasure.PAGES_PER_WRITE = 5

class Killing:
    def __init__(self, store, writes):
        self._store, self._left = store, writes

    def __getattr__(self, name):
        method = getattr(self._store, name)
        if name not in ("commit", "add_snapshot", "drop_snapshots", "redact"):
            return method

        async def write(*arguments):
            self._left -= 1
            if self._left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return await method(*arguments)

        return write

async def main(address, writes, subject):
    store = open_store(address)
    await store.open()
    await erase_in_store(Killing(store, writes), "shop", subject)
    await store.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
"""


def test_a_process_that_is_killed_at_any_write_of_an_erasure_leaves_a_sound_store(address: str) -> None:
    """The next one goes on with what is left; a process that is killed before each write in turn gets to the end."""
    asyncio.run(fill(address, "AdaptiveReleaf", count=8))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    codes = []
    for writes in (0, 1, 2, 3, 4, 6, 7, 8, 9, 100):
        command = [sys.executable, "-c", KILLED, address, str(writes), ANN]
        codes.append(subprocess.run(command, env=environment, timeout=10 * TIMEOUT_SECONDS, check=False).returncode)
        found = check(address)
        assert found["findings"] == []
        assert found["decisions"] == 32
    assert codes[:5] == [-signal.SIGKILL] * 5
    assert codes[-1] == 0
    compact(address)
    assert asyncio.run(find_in_store(address, *HERS)) == set()


def test_a_damaged_log_is_not_erased_in_part(address: str) -> None:
    asyncio.run(fill(address, "LinUCB"))

    async def test() -> None:
        async with open_event_store(address) as store:
            page = [page async for page in store.pages(1)][9]
            assert await store.acquire(1)
            await store.redact(1, [(page.last, page.body[:-1] + bytes([page.body[-1] ^ 1]))], 0, 0)
        async with running(address) as registry:
            with pytest.raises(ApiError, match=r"the log is damaged after event \d+ .* can't be searched") as error:
                await erase(registry)
            assert error.value.status == 409
            assert len([row async for row in registry.store.pages(1)]) > 9

    run_async(test())


def test_without_two_snapshots_nothing_is_redacted(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(fill(address, "LinUCB"))

    async def fail(*arguments: Any) -> bool:
        return False

    async def test() -> None:
        async with running(address) as registry:
            monkeypatch.setattr(erasure, "cover", fail)
            with pytest.raises(ApiError, match="needs two snapshots"):
                await erase(registry)
            assert not await levels(registry.store)
            monkeypatch.setattr(erasure, "cover", redaction.cover)
            assert (await erase(registry)).decisions == 24

    run_async(test())
    assert check(address)["findings"] == []


# --- the API and the command line ---------------------------------------------------------------------------


def test_a_subject_is_declared_and_erased_over_http(address: str, tmp_path: Path) -> None:
    with running_api(tmp_path, "--store", address) as api, Client(api.url) as client:
        client.create("shop", ["tea", "milk"], ["x", "z"], policy="LinUCB", parameters={"seed": 0}, hash_contexts=True)
        first = client.decide("shop", [0.1, 0.2], subject=ANN)
        client.reward("shop", first, 1.0)
        client.decide_many("shop", [[0.1, 0.2]] * 3, subjects=[ANN, BOB, None])
        path = "/v1/experiments/shop"
        api.lines(f"{path}/decide", {"context": [0.1, 0.2], "subject": ANN}, {"context": [0.3, 0.2]})
        hashed = [one["subject"] for one in api.get(f"{path}/decisions")["decisions"]][::-1]
        assert hashed[0] == hashed[1] == hashed[4]
        assert hashed[2] not in (hashed[0], None)
        assert hashed[3] is hashed[5] is None
        assert not any(ANN in json.dumps(one) for one in api.get(f"{path}/decisions")["decisions"])
        proof = client.erase_subject("shop", ANN)
        assert (proof["decisions"], proof["rewards"], proof["pending"], proof["found_after"]) == (3, 1, 2, 0)
        assert proof["backups_since"] <= proof["backups_before"]
        assert any("sums" in text for text in proof["kept"])
        assert [one["decision"] for one in api.get(f"{path}/decisions")["decisions"]] == [6, 4, 3]
        latest = api.get("/v1/audit", experiment="shop")["changes"][0]
        assert (latest["change"], latest["subject"], latest["after"]) == ("erase_subject", hashed[0], {"decisions": 3})
        assert client.info("shop")["retention"]["hash_contexts"] is True
        api.refused(422, "invalid", "POST", f"{path}/erase", {"subject": ""})
        api.refused(422, "invalid", "POST", f"{path}/erase", {})
        api.refused(404, "unknown_experiment", "POST", "/v1/experiments/none/erase", {"subject": ANN})
        for body, told in (
            ({"context": [0, 0], "subjects": [ANN]}, "subjects go with contexts"),
            ({"contexts": [[0, 0]], "subject": ANN}, "subject goes with context"),
            ({"contexts": [[0, 0]], "subjects": [ANN, BOB]}, "got 2 subjects for 1 contexts"),
        ):
            assert told in api.refused(422, "invalid", "POST", f"{path}/decide", body)
        with pytest.raises(ValueError, match="subjects has 2 entries, contexts has 1"):
            client.decide_many("shop", [[0.1, 0.2]], subjects=[ANN, BOB])

        async def erase_again() -> None:
            async with AsyncClient(api.url) as other:
                await other.decide("shop", [0.1, 0.2], subject=BOB)
                assert (await other.erase_subject("shop", BOB))["decisions"] == 2

        asyncio.run(erase_again())


def test_an_erasure_needs_the_scope_admin_of_its_experiment(tmp_path: Path) -> None:
    keys = {}
    for scope in ("shop:admin", "shop:decide", "shop:read", "shop:reward", "other:admin"):
        done = CliRunner().invoke(
            app, ["keys", "add", scope, "--scope", scope, "--store", str(tmp_path / "s.db"), "--json"]
        )
        keys[scope] = json.loads(done.stdout)["key"]
    with running_api(tmp_path, "--store", "s.db", "--require-keys") as started:
        admin = Api(started.url, keys["shop:admin"])
        admin.http.post("/v1/experiments", json={"name": "shop", "actions": ["a"], "features": 1}).raise_for_status()
        for scope, key in keys.items():
            status = admin.http.post(
                "/v1/experiments/shop/erase", json={"subject": ANN}, headers={"Authorization": f"Bearer {key}"}
            ).status_code
            assert status == (200 if scope == "shop:admin" else 403), scope
        admin.http.close()


def test_the_command_line_erases_and_tells_which_backups_hold_the_subject(address: str, tmp_path: Path) -> None:
    asyncio.run(fill(address, "LinUCB"))
    old, new = str(tmp_path / "old.db"), str(tmp_path / "new.db")
    asyncio.run(back_up(address, Path(old)))
    run = CliRunner().invoke
    done = run(app, ["store", "erase", address, "shop", ANN, "--backup", old, "--json"])
    assert done.exit_code == 1, done.output
    proof = json.loads(done.stdout)
    assert (proof["decisions"], proof["found_after"]) == (24, 0)
    (held,) = proof["backups"]
    assert (held["file"], held["decisions"]) == (old, 24)
    assert proof["backups_since"] <= held["created"] <= proof["backups_before"]
    asyncio.run(back_up(address, Path(new)))
    done = run(app, ["store", "erase", address, "shop", ANN, "--backup", new])
    assert done.exit_code == 0, done.output
    assert "Erased 0 decisions" in done.output
    assert "holds 0 of them" in done.output
    refused = run(app, ["store", "erase", address, "none", ANN])
    assert refused.exit_code != 0
    assert "unknown experiment 'none': expected one of shop" in refused.output
    assert check(address)["findings"] == []


def test_the_command_line_refuses_an_experiment_that_a_service_serves(tmp_path: Path) -> None:
    async def test() -> None:
        address = str(tmp_path / "store.db")
        await fill(address, "LinUCB", count=1)
        async with running(address), open_event_store(address) as other:
            with pytest.raises(ValueError, match="another process serves experiment 'shop'"):
                await erase_in_store(other, "shop", ANN)

    run_async(test())
