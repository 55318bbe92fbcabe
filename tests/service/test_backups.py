"""Backups of both stores: consistent under load, checked bit for bit, and restored to either store."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import postgres_server
import pytest
from event_stores import commit, open_event_store, run_async, store_with_experiment
from running_service import free_port, start_service
from service_api import Api, running_api
from typer.testing import CliRunner

from releaf.cli import app
from releaf.service.errors import ApiError, StoreError
from releaf.service.experiments.registry import ExperimentRegistry
from releaf.service.messages import NewExperiment, PolicySpec, RewardOf, RewardRules
from releaf.service.settings import ServiceSettings
from releaf.service.store import backup_file, migrations, open_store, repair
from releaf.service.store.backups import back_up, restore
from releaf.service.store.base import KeyRow, Snapshot
from releaf.service.store.postgres import PostgresStore
from releaf.service.store.sqlite import SqliteStore

LINEAR = PolicySpec(name="LinUCB", parameters={"seed": 0})
KINDS = ["sqlite", "postgres"]


def new_address(kind: str, folder: Path, name: str = "store.db") -> str:
    return str(folder / name) if kind == "sqlite" else postgres_server.new_database()


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_address(request.param, tmp_path)


async def fill(address: str, decisions: int = 60) -> None:
    """A store with two experiments, of which one is retired, pending decisions, a key and changes."""
    registry = ExperimentRegistry(open_store(address), ServiceSettings(store=address, snapshot_events=20))
    await registry.start()
    draw = random.Random(0)
    for name in ("shop", "old"):
        spec = NewExperiment(name=name, actions=["a", "b"], features=["x", "y"], policy=LINEAR)
        experiment = await registry.create(spec)
        for number in range(1, decisions + 1):
            await experiment.decide([[draw.random(), draw.random()]], [f"key {number}"])
            if number % 3:
                await experiment.reward([RewardOf(decision=number, reward=draw.random())])
    await registry.retire(registry.find("old"))
    await registry.store.add_key(KeyRow("k1", "tïll", b"\x00digest", "shop:decide", 3.0, None))
    await registry.stop()


def invoke(*arguments: str | Path, expect: int = 0) -> Any:
    done = CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "160", "NO_COLOR": "1"})
    assert done.exit_code == expect, done.output + done.stderr
    return done


def checksums(manifest: backup_file.Manifest) -> dict[str, Any]:
    """Of all tables but the audit log, which has one more record after a restoration."""
    return {name: table for name, table in manifest.tables.items() if name != "changes"}


# --- back and forth -----------------------------------------------------------------------------------------


def test_the_manifest_tells_what_the_backup_has(address: str, tmp_path: Path) -> None:
    asyncio.run(fill(address))
    told = json.loads(invoke("store", "backup", address, tmp_path / "b.db", "--json").stdout)
    assert told["source"] == ("postgresql" if address.startswith("postgresql") else "sqlite")
    assert told["schema"] == len(migrations.SQLITE)
    assert [one["name"] for one in told["experiments"]] == ["shop", "old"]
    shop, old = told["experiments"]
    assert (shop["decisions"], shop["rewards"], shop["events"]) == (60, 40, 100)
    assert (old["events"], old["retired"]) == (101, True)
    assert told["tables"]["keys"]["rows"] == 1
    assert told["tables"]["changes"]["rows"] == 4  # start, two creations, a retirement
    shown = invoke("store", "backup", address, tmp_path / "again.db").output
    assert "2 experiments and 201 events" in " ".join(shown.split())
    assert (tmp_path / "b.db").stat().st_mode & 0o777 == 0o600
    with backup_file.open_backup(tmp_path / "b.db") as (_, manifest):
        assert manifest.experiments[0].events == 100
    assert sorted(path.name for path in tmp_path.iterdir() if "again" in path.name) == ["again.db"]


def secret_of(backup: Path) -> str:
    with closing(apsw.Connection(str(backup))) as file:
        return str(file.execute("SELECT value FROM meta WHERE name = 'secret'").get)


@pytest.mark.parametrize("target", KINDS)
def test_a_restored_store_has_the_same_rows_and_goes_on_bit_for_bit(address: str, target: str, tmp_path: Path) -> None:
    asyncio.run(fill(address))
    file, other = tmp_path / "b.db", new_address(target, tmp_path, "restored.db")

    async def goes_on(where: str) -> list[Any]:
        registry = ExperimentRegistry(open_store(where), ServiceSettings(store=where))
        await registry.start()
        assert registry.messages == []
        experiment = registry.find("shop")
        made = await experiment.decide([[0.1 * n, 0.5] for n in range(10)], [None] * 10)
        known = await experiment.decide([[0.9, 0.9]], ["later"])
        learnt = [one.status for one in await experiment.reward([RewardOf(decision=3, reward=0.5)])]
        bits = experiment.live().learner.to_bytes()
        await registry.create(NewExperiment(name="new", actions=["a"], features=1, policy=LINEAR))
        ids = [row.id for row in await registry.store.experiments()]
        await registry.stop()
        at = experiment.live().ordinal
        return [[(at(event.number), event.action, event.context) for event in (*made, *known)], learnt, bits, ids]

    before = asyncio.run(back_up(address, file))
    invoke("store", "restore", file, other)
    after = asyncio.run(back_up(other, tmp_path / "again.db"))
    assert checksums(after) == checksums(before)
    assert after.experiments == before.experiments
    assert secret_of(tmp_path / "again.db") == secret_of(file)  # receipts and hashes of subjects stay valid
    assert after.tables["changes"].rows == before.tables["changes"].rows + 1
    (latest,) = json.loads(invoke("store", "audit", other, "--json", "--limit", "1").stdout)
    assert (latest["change"], latest["actor"], latest["after"]["created"]) == (
        "restore",
        "command line",
        before.created,
    )
    assert asyncio.run(goes_on(other)) == asyncio.run(goes_on(address))
    assert "damaged" not in invoke("store", "check", other).output


@pytest.mark.parametrize("target", KINDS)
def test_a_restored_store_issues_neither_numbers_nor_receipts_of_later_decisions_again(
    target: str, tmp_path: Path
) -> None:
    source, file, others = str(tmp_path / "store.db"), tmp_path / "b.db", []
    signed = NewExperiment(name="shop", actions=["a", "b"], features=1, policy=LINEAR, rewards=RewardRules(signed=True))

    async def decide(where: str, count: int) -> list[tuple[int, str]]:
        registry = ExperimentRegistry(open_store(where), ServiceSettings(store=where))
        await registry.start()
        if not registry.experiments:
            await registry.create(signed)
        experiment = registry.find("shop")
        made = await experiment.decide([[0.5]] * count, [None] * count)
        assert experiment.receipts is not None
        numbers = [(event.number, experiment.receipts.make(event.number)) for event in made]
        assert experiment.info().counts.decisions == experiment.live().ordinal(made[-1].number)  # type: ignore[union-attr]
        await registry.stop()
        return numbers

    async def reward(where: str, number: int, receipt: str) -> str:
        registry = ExperimentRegistry(open_store(where), ServiceSettings(store=where))
        await registry.start()
        try:
            one = RewardOf(decision=number, reward=1.0, receipt=receipt)
            return (await registry.find("shop").reward([one]))[0].status
        except ApiError as error:
            return error.code
        finally:
            await registry.stop()

    before = asyncio.run(decide(source, 3))
    asyncio.run(back_up(source, file))
    lost = asyncio.run(decide(source, 3))
    for name in ("one.db", "two.db"):
        where = new_address(target, tmp_path, name)
        asyncio.run(restore(file, where))
        others.append(asyncio.run(decide(where, 3)))
        assert asyncio.run(reward(where, *lost[0])) == "unknown_decision"
        forged = (others[-1][0][0], lost[0][1])
        assert asyncio.run(reward(where, *forged)) == "receipt_wrong"
        assert [asyncio.run(reward(where, *one)) for one in (before[1], others[-1][0])] == ["learnt", "learnt"]
        assert "damaged" not in invoke("store", "check", where).output
    issued = [*before, *lost, *others[0], *others[1]]
    assert len({number for number, _ in issued[:9]}) == 9  # two restorations within a second have the same numbers
    assert len({receipt for _, receipt in issued}) == 12


def test_a_store_can_be_replaced_by_its_backup(tmp_path: Path) -> None:
    path, file = tmp_path / "store.db", tmp_path / "b.db"
    asyncio.run(fill(str(path)))
    asyncio.run(back_up(str(path), file))
    asyncio.run(fill_more(str(path)))
    path.unlink()
    asyncio.run(restore(file, str(path)))

    async def start() -> list[str]:
        registry = ExperimentRegistry(open_store(str(path)), ServiceSettings(store=str(path)))
        await registry.start()
        messages = registry.messages
        await registry.stop()
        return messages

    assert asyncio.run(start()) == []


async def fill_more(address: str) -> None:
    registry = ExperimentRegistry(open_store(address), ServiceSettings(store=address))
    await registry.start()
    await registry.find("shop").decide([[0.5, 0.5]] * 10, [None] * 10)
    await registry.stop()


def test_a_backup_is_checked_by_its_manifest_and_a_replay(address: str, tmp_path: Path) -> None:
    asyncio.run(fill(address))
    file = tmp_path / "b.db"
    asyncio.run(back_up(address, file))
    content = file.read_bytes()
    told = json.loads(invoke("store", "check", file, "--json").stdout)
    assert told["sound"]
    assert [one["decisions"] for one in told["experiments"]] == [60, 60]
    assert file.read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("b.db")) == ["b.db"]


# --- under load ---------------------------------------------------------------------------------------------


def test_backups_of_a_busy_service_are_consistent_and_have_all_that_was_acknowledged(
    address: str, tmp_path: Path
) -> None:
    stop = threading.Event()
    acknowledged = [0, 0]

    def load(url: str, path: str, place: int) -> None:
        api = Api(url)
        while not stop.is_set():
            made = api.post(f"{path}/decide", {"contexts": [[0.1, 0.9]] * 5})["decisions"]
            acknowledged[place] = max(acknowledged[place], made[-1]["decision"])
            rewards = [{"decision": one["decision"], "reward": 0.5} for one in made if one["wants_reward"]]
            api.post(f"{path}/reward", {"rewards": rewards})
        api.http.close()

    with running_api(tmp_path, "--store", address, "--snapshot-events", "200", "--snapshot-seconds", "0.1") as api:
        paths = [api.new(policy="LinUCB") for _ in range(2)]
        threads = [
            threading.Thread(target=load, args=(api.url, path, place))
            for place, path in enumerate(paths)
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        try:
            taken = []
            for number in range(4):
                least = list(acknowledged)
                invoke("store", "backup", address, tmp_path / f"{number}.db")
                taken.append(least)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert taken[-1] > [0, 0]
    for number, least in enumerate(taken):
        told = json.loads(invoke("store", "check", tmp_path / f"{number}.db", "--json").stdout)
        assert told["sound"], told
        assert all(one["decisions"] >= n for one, n in zip(told["experiments"], least, strict=True))


def test_commits_during_a_backup_are_not_in_it(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_file, "STEP_PAGES", 5)
    writes = 0

    async def test() -> None:
        async with store_with_experiment(address) as (store, number):
            await store.commit([commit(number, last, last) for last in range(1, 200)])

            def on_progress(done: int, total: int) -> None:
                nonlocal writes
                if writes < 20 and done < total:
                    write = commit(number, 200 + writes, 200 + writes)
                    writes += 1
                    asyncio.run_coroutine_threadsafe(store.commit([write]), loop).result()

            loop = asyncio.get_running_loop()
            manifest = await asyncio.to_thread(lambda: asyncio.run(back_up(address, tmp_path / "b.db", on_progress)))
            (shop,) = manifest.experiments
            assert (shop.pages, shop.rewards, shop.events) == (199, 199, 199)
            assert len([page async for page in store.pages(number)]) == 199 + writes

    run_async(test())
    assert writes > 0


# --- refusals -----------------------------------------------------------------------------------------------


def test_neither_a_file_nor_a_store_is_overwritten(address: str, tmp_path: Path) -> None:
    asyncio.run(fill(address, 3))
    file = tmp_path / "b.db"
    asyncio.run(back_up(address, file))
    content = file.read_bytes()
    assert "exists: choose another name" in invoke("store", "backup", address, file, expect=1).stderr
    assert file.read_bytes() == content
    before = asyncio.run(back_up(address, tmp_path / "before.db"))
    message = " ".join(invoke("store", "restore", file, address, expect=1).stderr.split())
    assert "has a store already" in message or "exists: move it away" in message
    assert postgres_server.PASSWORD not in message
    assert asyncio.run(back_up(address, tmp_path / "after.db")).tables == before.tables


def test_a_write_ahead_log_that_was_left_behind_is_not_applied_to_a_restored_store(tmp_path: Path) -> None:
    store, file, left = tmp_path / "store.db", tmp_path / "b.db", tmp_path / "left.db"
    asyncio.run(fill(str(store), 3))
    asyncio.run(back_up(str(store), file))
    Path(f"{left}-wal").write_bytes(b"frames of another database")
    with pytest.raises(StoreError, match=r"left.db-wal exists: move it away"):
        asyncio.run(restore(file, str(left)))
    assert not left.exists()


def test_a_store_in_use_is_not_replaced(tmp_path: Path) -> None:
    store, file, other = tmp_path / "store.db", tmp_path / "b.db", tmp_path / "other.db"
    asyncio.run(fill(str(store), 3))
    asyncio.run(back_up(str(store), file))

    async def test() -> None:
        async with open_event_store(str(other)):
            other.unlink()
            with pytest.raises(StoreError, match="another process uses"):
                await restore(file, str(other))

    run_async(test())
    assert not other.exists()


def test_no_service_writes_to_a_backup(tmp_path: Path) -> None:
    file = tmp_path / "b.db"
    asyncio.run(fill(str(tmp_path / "store.db"), 3))
    asyncio.run(back_up(str(tmp_path / "store.db"), file))
    content = file.read_bytes()
    with pytest.raises(StoreError, match="is a backup: restore it to a store"):
        asyncio.run(open_store(str(file)).open())
    assert "is a backup: expected a store" in invoke("store", "backup", file, tmp_path / "c.db", expect=1).stderr
    assert "is a backup" in invoke("store", "compact", file, expect=1).stderr
    with pytest.raises(AssertionError, match="is a backup: restore it") as failed:
        start_service(tmp_path, free_port(), "--store", str(file))
    assert "Uvicorn running" not in str(failed.value)
    assert file.read_bytes() == content
    assert not Path(f"{file}-leases").exists()


def test_other_files_are_neither_stores_nor_backups(tmp_path: Path) -> None:
    text, other = tmp_path / "text.db", tmp_path / "other.db"
    text.write_text("Dear diary, this is no database.\n" * 200)
    with closing(apsw.Connection(str(other))) as connection:
        connection.execute("CREATE TABLE t (x)")
    for path, told in ((text, "not a database"), (other, "is no store")):
        assert told in invoke("store", "backup", path, tmp_path / "b.db", expect=1).stderr
        assert "is no backup" in invoke("store", "restore", path, tmp_path / "c.db", expect=1).stderr
    assert "there is no store" in invoke("store", "backup", tmp_path / "none.db", tmp_path / "b.db", expect=1).stderr
    assert "there is no backup" in invoke("store", "restore", tmp_path / "none.db", tmp_path / "c.db", expect=1).stderr
    assert not (tmp_path / "b.db").exists()
    assert not (tmp_path / "c.db").exists()


def test_a_database_without_a_store_is_not_backed_up(tmp_path: Path) -> None:
    address = postgres_server.new_database()
    assert "has no store" in invoke("store", "backup", address, tmp_path / "b.db", expect=1).stderr
    wrong = invoke("store", "backup", address + "x", tmp_path / "b.db", expect=1).stderr
    assert "database does not exist" in " ".join(wrong.split())
    assert postgres_server.PASSWORD not in wrong
    assert not (tmp_path / "b.db").exists()


# --- damage -------------------------------------------------------------------------------------------------


def content_of(path: Path) -> dict[str, list[Any]]:
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return {table: list(backup_file.rows_of(connection, table)) for table in backup_file.tables_of(connection)}


def is_sound(path: Path) -> bool:
    try:
        with backup_file.open_backup(path):
            return True
    except StoreError:
        return False


def test_every_altered_byte_that_changes_the_content_is_found(tmp_path: Path) -> None:
    store, file, damaged = tmp_path / "store.db", tmp_path / "b.db", tmp_path / "damaged.db"
    asyncio.run(fill(str(store)))
    asyncio.run(back_up(str(store), file))
    content, draw, found = file.read_bytes(), random.Random(0), 0
    expected = content_of(file)
    for _ in range(150):
        altered = bytearray(content)
        place = draw.randrange(len(content))
        altered[place] ^= 1 << draw.randrange(8)
        damaged.write_bytes(altered)
        if is_sound(damaged):
            assert content_of(damaged) == expected, f"byte {place}"
        else:
            found += 1
    assert found > 20


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE rewards SET reward = '0.125' WHERE decision = 1 AND experiment = 1", "table rewards has 80 rows"),
        ("DELETE FROM keys", "table keys has 0 rows"),
        ("UPDATE meta SET value = '1' WHERE name = 'version'", "schema version differs"),
        ("DELETE FROM meta WHERE name = 'manifest'", "damaged"),
    ],
)
def test_an_altered_backup_is_neither_sound_nor_restored(tmp_path: Path, statement: str, told: str) -> None:
    store, file, other = tmp_path / "store.db", tmp_path / "b.db", tmp_path / "other.db"
    asyncio.run(fill(str(store)))
    asyncio.run(back_up(str(store), file))
    with closing(apsw.Connection(str(file))) as connection:
        connection.execute(statement)
    assert told in " ".join(invoke("store", "check", file, expect=1).stderr.split())
    assert told in " ".join(invoke("store", "restore", file, other, expect=1).stderr.split())
    assert not other.exists()


def test_a_damaged_store_gives_no_backup(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    asyncio.run(fill(str(store)))
    with store.open("r+b") as file:
        file.seek(store.stat().st_size // 2 // 4096 * 4096)
        file.write(b"\xa5" * 4096)
    message = invoke("store", "backup", store, tmp_path / "b.db", expect=1).stderr
    assert "damaged" in message
    assert not (tmp_path / "b.db").exists()


def fails_after(calls: int) -> Callable[[int, int], None]:
    count = 0

    def on_progress(done: int, total: int) -> None:
        nonlocal count
        count += 1
        if count == calls:
            raise KeyboardInterrupt

    return on_progress


def test_an_interrupted_backup_or_restoration_leaves_nothing(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_file, "STEP_PAGES", 10)
    asyncio.run(fill(address))
    files = tmp_path / "files"
    files.mkdir()
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(back_up(address, files / "b.db", fails_after(2)))
    assert list(files.iterdir()) == []
    asyncio.run(back_up(address, files / "b.db"))
    other = new_address("postgres" if address.startswith("postgresql") else "sqlite", files, "other.db")
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(restore(files / "b.db", other, fails_after(2)))
    assert not (files / "other.db").exists()
    asyncio.run(restore(files / "b.db", other))


# --- versions -----------------------------------------------------------------------------------------------


def first_version(address: str) -> PostgresStore | SqliteStore:
    if address.startswith("postgresql"):
        return PostgresStore(address, migrations.POSTGRES[:1])
    return SqliteStore(address, migrations.SQLITE[:1])


@pytest.mark.parametrize("target", KINDS)
def test_a_backup_before_an_upgrade_leaves_the_tables_as_they_are(address: str, target: str, tmp_path: Path) -> None:
    other = new_address(target, tmp_path, "restored.db")

    async def test() -> None:
        old = first_version(address)
        await old.open()
        scripts: Sequence[str] = old._scripts
        assert len(scripts) == 1
        await old.ping()
        await old.close()
        manifest = await back_up(address, tmp_path / "b.db")
        assert manifest.schema == 1
        assert "changes" not in manifest.tables
        await old.open()  # a migrated one would be refused
        await old.close()
        await restore(tmp_path / "b.db", other)
        async with open_event_store(other) as store:
            assert await store.changes(None, 100, 10) == []

    run_async(test())


def test_a_backup_of_a_newer_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(fill(str(tmp_path / "store.db"), 3))
    asyncio.run(back_up(str(tmp_path / "store.db"), tmp_path / "b.db"))
    newest = len(migrations.SQLITE)
    monkeypatch.setattr(migrations, "SQLITE", migrations.SQLITE[:1])
    with pytest.raises(StoreError, match=f"schema version {newest}, this releaf supports versions up to 1"):
        asyncio.run(restore(tmp_path / "b.db", str(tmp_path / "other.db")))


def test_backups_and_repairs_have_all_tables(tmp_path: Path) -> None:
    with closing(apsw.Connection(":memory:")) as connection:
        for script in (migrations.META, *migrations.SQLITE):
            connection.execute(script)
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        assert set(backup_file.ORDERS) == names - {"meta", "sqlite_sequence", "leases"}  # leases are of processes
        assert set(repair.TABLES) == {*backup_file.ORDERS, "leases"}


def test_tables_of_both_stores_have_the_same_columns() -> None:
    async def columns() -> dict[str, list[str]]:
        address = postgres_server.new_database()
        async with open_event_store(address) as store:
            assert isinstance(store, PostgresStore)
            rows = await store._read(
                "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'releaf' "
                "ORDER BY table_name, ordinal_position"
            )
        found: dict[str, list[str]] = {}
        for table, column in rows:
            found.setdefault(table, []).append(column)
        return found

    with closing(apsw.Connection(":memory:")) as connection:
        for script in (migrations.META, *migrations.SQLITE):
            connection.execute(script)
        own = {table: backup_file.columns_of(connection, table) for table in ("meta", *backup_file.ORDERS)}
    found = asyncio.run(columns())
    leases = {"leases", "lease_holders"}  # of each store's own kind
    assert {name: found[name] for name in found.keys() - leases} == {name: own[name] for name in own.keys() - leases}


# --- compaction ---------------------------------------------------------------------------------------------


def test_compaction_shrinks_a_file_and_keeps_every_row(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    asyncio.run(fill(str(path)))

    async def bloat() -> None:
        async with open_event_store(str(path)) as store:
            assert await store.acquire(1)
            for last in range(1, 30):
                await store.add_snapshot(Snapshot(1, 10_000 + last, b"", bytes(100_000), b""))
            await store.drop_snapshots(1, [10_000 + last for last in range(1, 30)])

    asyncio.run(bloat())
    before = asyncio.run(back_up(str(path), tmp_path / "before.db"))
    told = json.loads(invoke("store", "compact", path, "--json").stdout)
    assert told["bytes_after"] == path.stat().st_size < told["bytes_before"] - 2_000_000
    assert asyncio.run(back_up(str(path), tmp_path / "after.db")).tables == before.tables
    assert json.loads(invoke("store", "check", path, "--json").stdout)["sound"]
    assert "MB" in invoke("store", "compact", path).output

    async def opened() -> None:
        async with open_event_store(str(path)):
            message = await asyncio.to_thread(lambda: invoke("store", "compact", path, expect=1).stderr)
            assert "stop the service first" in message

    asyncio.run(opened())


def test_compaction_of_postgresql_runs_beside_the_service(tmp_path: Path) -> None:
    address = postgres_server.new_database()
    assert "has no store" in invoke("store", "compact", address, expect=1).stderr

    async def test() -> None:
        async with store_with_experiment(address) as (store, number):
            for last in range(1, 20):
                await store.add_snapshot(Snapshot(number, last, b"", random.Random(last).randbytes(100_000), b""))
            await store.drop_snapshots(number, list(range(1, 20)))
            done = await asyncio.to_thread(lambda: invoke("store", "compact", address, "--json"))
            assert json.loads(done.stdout)["bytes_after"] < 1_000_000  # of the two megabytes that were dropped
            await store.commit([commit(number, 1)])

    run_async(test())


# --- exports ------------------------------------------------------------------------------------------------


def test_an_export_without_a_service_equals_the_export_of_the_service(address: str, tmp_path: Path) -> None:
    from pyarrow import parquet

    port = free_port()
    process = start_service(tmp_path, port, "--store", address)
    api = Api(f"http://127.0.0.1:{port}")
    try:
        path = api.new(policy="LinUCB", features=["x", "=y"])
        name = path.rsplit("/", 1)[1]
        made = api.post(f"{path}/decide", {"contexts": [[0.1, 0.9], [0.5, 0.5], [0.7, 0.2]]})["decisions"]
        api.post(f"{path}/reward", {"decision": made[0]["decision"], "reward": 0.25})
        served = {kind: api.http.get(f"{path}/export?format={kind}").content for kind in ("csv", "ndjson", "parquet")}
        assert invoke("store", "export", address, name).stdout_bytes == served["csv"]  # beside the service
        invoke("store", "backup", address, tmp_path / "b.db")
    finally:
        api.http.close()
        process.terminate()
        process.wait(60)
    for source in (address, tmp_path / "b.db"):
        for kind in ("csv", "ndjson"):
            invoke("store", "export", source, name, "-o", tmp_path / f"e.{kind}")
            assert (tmp_path / f"e.{kind}").read_bytes() == served[kind]
            assert invoke("store", "export", source, name, "--format", kind).stdout_bytes == served[kind]
        invoke("store", "export", source, name, "-o", tmp_path / "e.parquet")
        (tmp_path / "served.parquet").write_bytes(served["parquet"])
        assert parquet.read_table(tmp_path / "e.parquet").equals(parquet.read_table(tmp_path / "served.parquet"))
    assert served["csv"].count(b"waiting") == 2
    assert "unknown experiment 'nowhere'" in invoke("store", "export", address, "nowhere", expect=1).stderr
    assert "expected one of csv" in invoke("store", "export", address, name, "--format", "xls", expect=1).stderr
    assert not (tmp_path / "e.xls").exists()
    with running_api(tmp_path, "--store", address) as again:  # the lease was given back, and nothing was changed
        assert again.get(path)["counts"]["waiting"] == 2
