"""Altered or truncated logs and snapshots: the service reports them, and continues from the last sound state."""

from __future__ import annotations

import asyncio
import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import postgres_server
import pytest
from client_load import reward_of
from polling import TIMEOUT_SECONDS
from service_process import ServiceProcess, wait_for_rewards
from store_audit import audit_after_load
from typer.testing import CliRunner

from releaf.cli import app
from releaf.service.experiments.serialization import EXPERIMENT_FORMAT
from releaf.service.experiments.state import ExperimentState
from releaf.service.log.audit import AuditReport, audit
from releaf.service.store import open_store

Harm = Callable[[bytes], bytes]
BEFORE, AFTER = 12, 8  # decisions before the latest snapshot and after it


@functools.cache
def killed(kind: str) -> str:
    """The store of a service that was killed: it decided before its latest snapshot and after, a page an event."""
    folder = Path(tempfile.mkdtemp(prefix="releaf-killed-"))
    atexit.register(shutil.rmtree, folder)
    address = str(folder / "store.db") if kind == "sqlite" else postgres_server.new_database()
    with ServiceProcess(folder, address) as service:
        service.create(rewards={})
        for _ in range(BEFORE):
            decide_and_reward(service)
        assert service.stop() == 0
        service.start()
        for _ in range(AFTER):
            decide_and_reward(service)
        assert service.decide()["decision"] == BEFORE + AFTER + 1
        service.kill()
    return address


@pytest.fixture(params=["sqlite", "postgres"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> ServiceProcess:
    """One that was killed and is to be started again with --salvage, with a store of its own."""
    address = killed(request.param)
    if request.param == "postgres":
        return ServiceProcess(tmp_path, asyncio.run(copied(address)), "--salvage")
    for suffix in ("", "-wal"):
        shutil.copy(f"{address}{suffix}", tmp_path)
    return ServiceProcess(tmp_path, str(tmp_path / "store.db"), "--salvage")


async def copied(address: str) -> str:
    """The address of a copy of a database."""
    import asyncpg

    copy, original = f"copy_{uuid.uuid4().hex}", address.rpartition("/")[2]
    other = await asyncpg.connect(postgres_server.new_database())
    await other.execute(f"CREATE DATABASE {copy} TEMPLATE {original}")
    await other.close()
    return address.replace(original, copy)


SNAPSHOT, LAST = 2 * BEFORE, 2 * (BEFORE + AFTER) + 1  # events


def cut(body: bytes) -> bytes:
    return body[:-9]


def altered(body: bytes) -> bytes:
    return body[:-9] + bytes([body[-9] ^ 1]) + body[-8:]


def decide_and_reward(service: ServiceProcess) -> None:
    number = service.decide()["decision"]
    assert reward(service, number) == 200


def reward(service: ServiceProcess, number: int) -> int:
    body = {"decision": number, "reward": reward_of(number)}
    return int(service.call("POST", "/v1/experiments/shop/reward", body)[0])


def alter(address: str, table: str, last: int, harm: Harm) -> None:
    """Change the body of a page or snapshot."""
    asyncio.run(_alter(address, table, last, harm))


async def _alter(address: str, table: str, last: int, harm: Harm) -> None:
    if address.startswith("postgresql"):
        import asyncpg

        connection = await asyncpg.connect(address)
        body = await connection.fetchval(f"SELECT body FROM releaf.{table} WHERE last = $1", last)
        await connection.execute(f"UPDATE releaf.{table} SET body = $1 WHERE last = $2", harm(body), last)
        await connection.close()
        return
    import apsw

    with closing(apsw.Connection(address)) as file:
        body = file.execute(f"SELECT body FROM {table} WHERE last = ?", (last,)).get
        file.execute(f"UPDATE {table} SET body = ? WHERE last = ?", (harm(body), last))


def report(address: str) -> AuditReport[ExperimentState]:
    async def made() -> AuditReport[ExperimentState]:
        store = open_store(address)
        await store.open()
        try:
            return await audit(store, EXPERIMENT_FORMAT)
        finally:
            await store.close()

    return asyncio.run(made())


def told(service: ServiceProcess, words: str) -> Any:
    """The experiment's description, which says so; so does the log of the process."""
    info = service.info()
    assert any(words in message for message in info["messages"]), info["messages"]
    assert words in service.log_text()
    return info


def assert_sound_after(service: ServiceProcess) -> None:
    settle_waiting(service)
    model = service.model()
    assert service.stop() == 0
    audit_after_load(service.store, model=model)


def settle_waiting(service: ServiceProcess) -> None:
    for number in range(1, service.info()["counts"]["decisions"] + LAST):  # some numbers are of lost decisions
        assert reward(service, number) in (200, 404)
    wait_for_rewards(service)


# --- releaf store check -----------------------------------------------------------------------------------------


def check(address: str, *options: str) -> tuple[int, str]:
    """The exit code and output of the command."""
    done = CliRunner().invoke(app, ["store", "check", "--store", address, *options])
    return done.exit_code, done.output


def test_the_audit_of_a_store_replays_its_logs(service: ServiceProcess) -> None:
    code, output = check(service.store, "--json")
    told = json.loads(output)
    (found,) = told.pop("experiments")
    assert (code, told) == (0, {"sound": True})
    assert {name: found[name] for name in ("name", "events", "decisions", "rewards", "snapshots", "findings")} == {
        "name": "shop",
        "events": LAST,
        "decisions": BEFORE + AFTER + 1,
        "rewards": BEFORE + AFTER,
        "snapshots": [0, SNAPSHOT],
        "findings": [],
    }
    assert "sound" in check(service.store)[1]


def test_the_audit_finds_a_reward_that_differs_from_the_log(service: ServiceProcess) -> None:
    statement = "UPDATE {}rewards SET reward = '0.125' WHERE decision = 3"
    asyncio.run(execute(service.store, statement))
    code, output = check(service.store)
    assert code == 1
    assert "the table of rewards has RewardRow(decision=3, outcome='rewarded', reward='0.125'" in " ".join(
        output.split()
    )
    with service:
        assert "another process serves experiment 'shop'" in check(service.store)[1]


async def execute(address: str, statement: str) -> None:
    """Run a statement, whose {} is for the schema."""
    if address.startswith("postgresql"):
        import asyncpg

        connection = await asyncpg.connect(address)
        await connection.execute(statement.format("releaf."))
        await connection.close()
        return
    import apsw

    with closing(apsw.Connection(address)) as file:
        file.execute(statement.format(""))


# --- the log ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", [cut, altered])
def test_a_damaged_last_page_is_set_aside_and_reported(service: ServiceProcess, harm: Harm) -> None:
    alter(service.store, "pages", LAST, harm)
    (found,) = report(service.store).experiments
    assert found.findings == [f"the log is damaged after event {LAST - 1}: its checksum does not match"]
    with service:
        info = told(service, f"the log is damaged after event {LAST - 1} (its checksum does not match): 1 pages")
        lost = BEFORE + AFTER + 1
        assert info["counts"]["decisions"] == lost - 1  # the lost one is not counted
        assert reward(service, lost) == 404  # what it was is not known any more
        assert service.decide()["decision"] == lost + 1  # a client may still have the lost number
        assert reward(service, lost + 1) == 200
        assert service.call("GET", f"/v1/experiments/shop/explain/{lost + 1}")[0] == 200
        assert service.call("GET", f"/v1/experiments/shop/explain/{lost}")[0] == 404
        assert_sound_after(service)
        service.start()
        assert service.info()["messages"] == []


def test_pages_after_a_damaged_one_are_set_aside_too(service: ServiceProcess) -> None:
    alter(service.store, "pages", SNAPSHOT + 3, cut)
    with service:
        told(service, f"{LAST - SNAPSHOT - 2} pages with decisions {BEFORE + 2} to {BEFORE + AFTER + 1} were set aside")
        assert reward(service, BEFORE + 1) == 200  # given before, and still known
        assert service.decide()["decision"] == BEFORE + AFTER + 2
        assert_sound_after(service)


def test_a_damaged_log_needs_salvage_and_other_experiments_stay_live(service: ServiceProcess, tmp_path: Path) -> None:
    alter(service.store, "pages", SNAPSHOT + 3, cut)
    with ServiceProcess(tmp_path, service.store) as careful:
        info = told(careful, f"start once with releaf serve --salvage, which sets {LAST - SNAPSHOT - 2} pages with")
        assert info["status"] == "damaged"
        for path, body in (("decide", {"context": [40, 7, "plus"]}), ("reward", {"decision": 1, "reward": 0.5})):
            status, _, answer = careful.call("POST", f"/v1/experiments/shop/{path}", body)
            assert status == 503
            assert "releaf serve --salvage" in answer["error"]["message"]
        careful.create(name="other")
        assert careful.decide("other")["decision"] == 1
        assert careful.stop() == 0
    with service:  # nothing was changed: the salvage finds all that was there
        told(service, f"{LAST - SNAPSHOT - 2} pages with decisions {BEFORE + 2} to {BEFORE + AFTER + 1} were set aside")
        assert service.decide()["decision"] == BEFORE + AFTER + 2


def test_a_damaged_page_before_the_latest_snapshot_is_reported_and_loses_no_state(service: ServiceProcess) -> None:
    alter(service.store, "pages", SNAPSHOT, altered)
    with service:
        info = told(service, f"the log between events 0 and {SNAPSHOT} is damaged")
        assert info["counts"]["decisions"] == BEFORE + AFTER + 1
        assert service.decide()["decision"] == BEFORE + AFTER + 2


# --- snapshots --------------------------------------------------------------------------------------------------


def test_a_damaged_snapshot_is_reported_and_an_older_one_used(service: ServiceProcess) -> None:
    alter(service.store, "snapshots", SNAPSHOT, altered)
    (found,) = report(service.store).experiments
    assert found.findings == [f"the snapshot after event {SNAPSHOT} is damaged: its checksum does not match"]
    with service:
        info = told(service, f"the snapshot after event {SNAPSHOT} is damaged (its checksum does not match)")
        assert info["counts"]["decisions"] == BEFORE + AFTER + 1
        assert reward(service, BEFORE + AFTER + 1) == 200
        assert_sound_after(service)  # it is gone, now that there is a good one
        service.start()
        assert service.info()["messages"] == []


def test_without_a_sound_snapshot_an_experiment_is_damaged_and_others_stay_live(service: ServiceProcess) -> None:
    for last in (0, SNAPSHOT):
        alter(service.store, "snapshots", last, lambda body: body[1:])
    with service:
        info = told(service, "no snapshot can be read: restore the store from a backup")
        assert info["status"] == "damaged"
        status, headers, answer = service.call("POST", "/v1/experiments/shop/decide", {"context": [40, 7, "plus"]})
        assert (status, "Retry-After" in headers) == (503, True)
        assert "no snapshot can be read: restore the store" in answer["error"]["message"]
        service.create(name="other")
        assert service.decide("other")["decision"] == 1


# --- bytes of the embedded store's file -------------------------------------------------------------------------


@pytest.fixture
def embedded(tmp_path: Path) -> ServiceProcess:
    """One that was killed, with all that it did still in the write-ahead log."""
    with ServiceProcess(tmp_path, str(tmp_path / "store.db")) as service:
        service.create(rewards={})
        for _ in range(BEFORE):
            decide_and_reward(service)
        service.kill()
        return service


def refusal(address: str) -> str:
    """What the service says that refuses to start."""
    command = [sys.executable, "-m", "releaf", "serve", "--store", address, "--port", "0", "--log-format", "text"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return done.stderr


def truncate_the_write_ahead_log(path: Path) -> None:
    wal = Path(f"{path}-wal")
    os.truncate(wal, wal.stat().st_size - 20_000)


def remove_the_write_ahead_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def empty_the_file(path: Path) -> None:
    os.truncate(path, 0)


def remove_the_file(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        (truncate_the_write_ahead_log, "was truncated or replaced by an older file: experiment shop lacks events"),
        (remove_the_write_ahead_log, "experiment shop lacks events 1 to 24"),
        (empty_the_file, "was in use and is now empty"),
        (remove_the_file, "was in use and is now missing"),
    ],
)
def test_a_store_that_lacks_acknowledged_events_needs_salvage_and_no_number_is_issued_twice(
    embedded: ServiceProcess, tmp_path: Path, harm: Callable[[Path], None], found: str
) -> None:
    harm(Path(embedded.store))
    message = refusal(embedded.store)
    assert found in message
    assert "start once with releaf serve --salvage, which" in message
    with ServiceProcess(tmp_path, embedded.store, "--salvage") as service:
        assert found in service.log_text()
        if not service.call("GET", "/v1/experiments")[2]["experiments"]:
            service.create(rewards={})
        issued = service.decide()["decision"]
        assert issued > BEFORE
        assert reward(service, BEFORE) == 404 or harm is truncate_the_write_ahead_log
        service.kill()
    with embedded:  # nothing is to be salvaged any more
        assert embedded.decide()["decision"] == issued + 1
        settle(embedded, issued, issued + 1)
        assert_sound(embedded)


def settle(service: ServiceProcess, *numbers: int) -> None:
    for number in numbers:
        assert reward(service, number) == 200


def assert_sound(service: ServiceProcess) -> None:
    assert service.stop() == 0
    (found,) = report(service.store).experiments
    assert found.findings == []


def test_a_write_that_was_not_acknowledged_needs_no_salvage(embedded: ServiceProcess) -> None:
    with Path(f"{embedded.store}-wal").open("ab") as wal:  # the begin of a commit that never came to its end
        wal.write(os.urandom(1000))
    with embedded:
        assert "ends in the middle of a write" in embedded.log_text()
        assert embedded.decide()["decision"] == BEFORE + 1
        assert_sound_after(embedded)


def test_a_new_store_needs_no_salvage(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, str(tmp_path / "new.db")) as service:
        service.create(rewards={})
        assert service.decide()["decision"] == 1


def test_altered_bytes_of_the_file_are_reported(embedded: ServiceProcess) -> None:
    embedded.start()
    assert embedded.stop() == 0  # all is in the file itself now
    path = Path(embedded.store)
    content = path.read_bytes()
    place = content.rindex(b"\xa4plus")  # the context of a decision in a page of the log
    path.write_bytes(content[:place] + b"\xa4Plus" + content[place + 5 :])
    with embedded:
        told(embedded, "the log between events 0 and")
        assert embedded.decide()["decision"] == BEFORE + 1
