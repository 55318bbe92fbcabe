"""The audit log: every change is recorded with its sender, before and after, and no refused change is."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import postgres_server
import pytest
from event_stores import commit, open_event_store, page, run_async, store_with_experiment
from running_service import STOP_TIMEOUT_SECONDS, free_port, start_service
from service_api import Api, running_api
from typer.testing import CliRunner

from releaf.cli import app
from releaf.client import Client
from releaf.service.errors import ApiError, StoreError
from releaf.service.experiments.change_records import MAX_ID, Sender
from releaf.service.experiments.registry import ExperimentRegistry
from releaf.service.messages import NewExperiment, PolicySpec
from releaf.service.settings import ServiceSettings
from releaf.service.store import migrations, open_store
from releaf.service.store.base import ChangeRow, Commit, EventStore, KeyRow, LeaseLost
from releaf.service.store.postgres import PostgresStore
from releaf.service.store.sqlite import SqliteStore

CHANGE = ChangeRow(2.5, "shop", "Ab12Cd34", "r-1", "promote", "s", '{"policy":1}', '{"policy":2}')
LINEAR = PolicySpec(name="LinUCB", parameters={"seed": 0})


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "store.db") if request.param == "sqlite" else postgres_server.new_database()


async def recorded(store: EventStore, experiment: str | None = None) -> list[ChangeRow]:
    """All changes, the earliest first, without their ids."""
    return [row._replace(id=0) for row in await store.changes(experiment, MAX_ID, 1000)][::-1]


async def execute(store: EventStore, statement: str) -> None:
    if isinstance(store, PostgresStore):
        await store._write(statement)
    elif isinstance(store, SqliteStore):
        await store._write(store._change, statement, (), None)


# --- the stores ---------------------------------------------------------------------------------------------


def test_a_change_is_recorded_in_the_transaction_of_its_event(address: str) -> None:
    async def test() -> None:
        async with store_with_experiment(address) as (store, number):
            await store.commit([Commit(page(number, 1), [], [CHANGE]), Commit(page(number, 2), [], [])])
            later = CHANGE._replace(change="retire", subject=None, at=3.0)
            await store.commit([commit(number, 3, 1)._replace(changes=[later])])
            assert await recorded(store) == [CHANGE, later]
            with pytest.raises(LeaseLost):  # the page exists already
                await store.commit([Commit(page(number, 3), [], [CHANGE])])
            await store.release(number)
            with pytest.raises(LeaseLost):
                await store.commit([Commit(page(number, 4), [], [CHANGE])])
            assert await recorded(store) == [CHANGE, later]

    run_async(test())


def test_a_refused_creation_or_key_leaves_no_record(address: str) -> None:
    made = CHANGE._replace(change="create", before=None)
    key = KeyRow("k1", "till", b"digest", "shop:decide", 3.0, None)
    added, revoked = (CHANGE._replace(experiment=None, change=change) for change in ("add_key", "revoke_key"))

    async def test() -> None:
        async with open_event_store(address) as store:
            await store.create("shop", 1.0, b"{}", b"", made)
            with pytest.raises(KeyError):
                await store.create("shop", 2.0, b"{}", b"", made)
            await store.add_key(key, added)
            with pytest.raises(KeyError):
                await store.add_key(key, added)
            assert not await store.revoke_key("k2", 4.0, revoked)
            assert await store.revoke_key("k1", 4.0, revoked)
            assert not await store.revoke_key("k1", 5.0, revoked)
            assert await recorded(store) == [made, added, revoked]
            assert await recorded(store, "shop") == [made]

    run_async(test())


def test_changes_are_listed_from_the_latest_page_by_page(address: str) -> None:
    async def test() -> None:
        async with open_event_store(address) as store:
            for number in range(7):
                await store.add_change(CHANGE._replace(at=float(number), experiment="ab"[number % 2]))
            first = await store.changes(None, MAX_ID, 3)
            assert [row.at for row in first] == [6.0, 5.0, 4.0]
            assert [row.at for row in await store.changes(None, first[-1].id, 10)] == [3.0, 2.0, 1.0, 0.0]
            assert [row.at for row in await store.changes("b", first[0].id, 2)] == [5.0, 3.0]

    run_async(test())


@pytest.mark.parametrize("statement", ["UPDATE {} SET actor = 'nobody'", "DELETE FROM {}"])
def test_the_audit_log_is_append_only(address: str, statement: str) -> None:
    async def test() -> None:
        async with open_event_store(address) as store:
            await store.add_change(CHANGE)
            with pytest.raises(StoreError, match="the audit log is append-only"):
                await execute(store, statement.format("changes"))
            assert await recorded(store) == [CHANGE]

    run_async(test())


def test_a_store_of_the_version_without_an_audit_log_is_migrated(address: str) -> None:
    is_postgres = address.startswith("postgresql")
    first: Sequence[str] = (migrations.POSTGRES if is_postgres else migrations.SQLITE)[:1]

    async def test() -> None:
        old = PostgresStore(address, first) if is_postgres else SqliteStore(address, first)
        await old.open()
        empty = "''::bytea" if is_postgres else "x''"
        await execute(old, f"INSERT INTO keys VALUES ('k', 'n', {empty}, '*:read', 1.0, NULL)")
        await old.close()
        async with open_event_store(address) as store:
            assert [key.id for key in await store.keys()] == ["k"]
            await store.add_change(CHANGE)
            assert await recorded(store) == [CHANGE]

    run_async(test())


def test_a_repair_keeps_the_audit_log(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def test() -> None:
        async with store_with_experiment(str(path)) as (store, number):
            await store.commit([Commit(page(number, 1), [], [CHANGE])])
            assert isinstance(store, SqliteStore)
            root = store._writer.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'pages_by_decision'").get
        with path.open("r+b") as file:
            file.seek((root - 1) * 4096)
            file.write(b"\xa5" * 4096)
        store = SqliteStore(path, salvage=True)
        (message,) = await store.open()
        assert "was damaged" in message
        assert await recorded(store) == [CHANGE]
        await store.add_change(CHANGE)
        assert len(await recorded(store)) == 2
        await store.close()

    run_async(test())


# --- the registry -------------------------------------------------------------------------------------------


class BrokenCommits:
    """A store whose commits fail while it is told so."""

    def __init__(self, store: EventStore) -> None:
        self._store, self.broken = store, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, commits: Sequence[Commit]) -> None:
        if self.broken:
            raise StoreError("the disk is full")
        await self._store.commit(commits)


def test_a_change_whose_commit_fails_is_neither_made_nor_recorded(address: str) -> None:
    async def test() -> None:
        store = BrokenCommits(open_store(address))
        registry = ExperimentRegistry(store, ServiceSettings(store=address))
        await registry.start()
        try:
            experiment = await registry.create(NewExperiment(name="x", actions=["a"], features=1, policy=LINEAR))
            store.broken = True
            with pytest.raises(ApiError, match="the disk is full"):
                await experiment.change("add_action", "b", None, sender=Sender("k", "r"))
            store.broken = False
            await experiment.recover()
            assert experiment.info().actions == ["a"]
            await experiment.change("add_action", "c", None, sender=Sender("k", "r"))
            changes = await recorded(open_rows(store), "x")
            assert [(row.change, row.subject) for row in changes] == [("create", None), ("add_action", "c")]
        finally:
            await registry.stop()

    run_async(test())


def open_rows(store: BrokenCommits) -> EventStore:
    return store._store


def test_changes_that_the_service_makes_by_itself_have_no_sender_and_no_record(address: str) -> None:
    async def test() -> None:
        registry = ExperimentRegistry(open_store(address), ServiceSettings(store=address))
        await registry.start()
        try:
            experiment = await registry.create(NewExperiment(name="x", actions=["a"], features=1, policy=LINEAR))
            await experiment.change("skip_numbers", 7)
            assert [row.change for row in await recorded(registry.store, "x")] == ["create"]
        finally:
            await registry.stop()

    run_async(test())


@pytest.mark.parametrize("name", ["a\0b", "ü\N{SNOWMAN}", "'; DROP TABLE changes; --", "x" * 200])
def test_any_name_of_an_action_can_be_recorded(address: str, name: str) -> None:
    async def test() -> None:
        registry = ExperimentRegistry(open_store(address), ServiceSettings(store=address))
        await registry.start()
        try:
            experiment = await registry.create(NewExperiment(name="x", actions=["a"], features=1, policy=LINEAR))
            await experiment.change("add_action", name, None, sender=Sender("k", "r"))
            latest = (await registry.list_changes("x", MAX_ID, 1)).changes[0]
            assert latest.after == {"actions": ["a", name]}
            assert latest.subject == name.replace("\0", "\u2400")
        finally:
            await registry.stop()

    run_async(test())


# --- the service --------------------------------------------------------------------------------------------


def send(api: Api, method: str, path: str, body: Any = None) -> str:
    """Make a change, and return the id of its request."""
    answer = api.http.request(method, path, json=body)
    assert answer.is_success, answer.text
    return str(answer.headers["x-request-id"])


def shadow(name: str) -> dict[str, Any]:
    return {"name": name, "policy": {"name": "LinTS", "parameters": {"seed": 1}}}


def test_every_change_is_recorded_with_its_request_and_what_differs(address: str, tmp_path: Path) -> None:
    one = "/v1/experiments/shop"
    in_charge, other = {"name": "UCB1", "parameters": {"seed": 3}}, shadow("s")["policy"]
    with running_api(tmp_path, "--store", address) as api:
        body = {"name": "shop", "actions": ["a", "b"], "features": ["x"], "policy": in_charge}
        ids = [send(api, "POST", "/v1/experiments", body)]
        ids += [send(api, "POST", f"{one}/actions", {"action": 7}), send(api, "DELETE", f"{one}/actions/7")]
        ids += [
            send(api, "POST", f"{one}/shadows", shadow("s")),
            send(api, "POST", f"{one}/shadows/s/promote?force=true"),
        ]
        ids += [send(api, "DELETE", f"{one}/shadows/former"), send(api, "DELETE", one)]
        listed = api.get("/v1/audit", experiment="shop")
        everything = api.get("/v1/audit")["changes"]
    changes = listed["changes"][::-1]
    assert listed["next"] is None
    assert [change["request_id"] for change in changes] == ids
    assert {(change["experiment"], change["actor"]) for change in changes} == {("shop", "anonymous")}
    assert sorted(change["at"] for change in changes) == [change["at"] for change in changes]
    created = changes[0]
    assert (created["change"], created["before"]) == ("create", None)
    assert {name: created["after"][name] for name in ("actions", "features", "policy", "model")} == {
        "actions": ["a", "b"],
        "features": ["x"],
        "policy": in_charge,
        "model": None,
    }
    told = [tuple(change[name] for name in ("change", "subject", "before", "after")) for change in changes[1:]]
    former = {"name": "former", "policy": in_charge}
    evidence = {"force": True, "compared": 0, "difference": None, "difference_low": None, "difference_high": None}
    assert told == [
        ("add_action", "7", {"actions": ["a", "b"]}, {"actions": ["a", "b", 7]}),
        ("remove_action", "7", {"actions": ["a", "b", 7]}, {"actions": ["a", "b"]}),
        ("add_shadow", "s", {"shadows": []}, {"shadows": [shadow("s")]}),
        (
            "promote",
            "s",
            {"policy": in_charge, "shadows": [shadow("s")], "evidence": None},
            {"policy": other, "shadows": [former], "evidence": evidence},
        ),
        ("remove_shadow", "former", {"shadows": [former]}, {"shadows": []}),
        ("retire", None, {"retired": False}, {"retired": True}),
    ]
    started = everything[-1]
    assert [started[name] for name in ("change", "actor", "experiment", "before")] == [
        "start",
        "command line",
        None,
        None,
    ]
    assert started["after"]["batch_limit"] == 10_000
    assert postgres_server.PASSWORD not in json.dumps(everything)
    assert [change["id"] for change in everything[:-1]] == [change["id"] for change in listed["changes"]]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running_api(tmp_path_factory.mktemp("service")) as api:
        yield api


def test_a_refused_change_leaves_no_record(api: Api) -> None:
    path = api.new(policy="UCB1", actions=["a"])
    name = path.rsplit("/", 1)[1]
    api.post(f"{path}/shadows", shadow("s"))
    before = api.get("/v1/audit")
    api.refused(409, "name_taken", "POST", "/v1/experiments", {"name": name, "actions": ["a"], "features": 1})
    api.refused(422, "invalid", "POST", "/v1/experiments", {"name": "bad", "actions": [], "features": 1})
    api.refused(409, "conflict", "POST", f"{path}/actions", {"action": "a"})
    api.refused(409, "conflict", "DELETE", f"{path}/actions/a")  # the only one
    api.refused(404, "unknown_action", "DELETE", f"{path}/actions/z")
    api.refused(409, "name_taken", "POST", f"{path}/shadows", shadow("s"))
    api.refused(404, "unknown_shadow", "DELETE", f"{path}/shadows/z")
    api.refused(404, "unknown_shadow", "POST", f"{path}/shadows/z/promote")
    assert api.get("/v1/audit") == before
    api.delete(path)
    retired = api.get("/v1/audit")
    assert len(retired["changes"]) == len(before["changes"]) + 1
    api.delete(path)  # again: nothing changes
    api.refused(409, "retired", "POST", f"{path}/actions", {"action": "b"})
    assert api.get("/v1/audit") == retired


def test_an_uploaded_model_is_recorded_by_its_digest(api: Api) -> None:
    import base64
    import hashlib

    model = api.model(api.new(policy="UCB1"))
    path = api.new(policy="UCB1", model=base64.b64encode(model).decode(), parameters={})
    (created,) = api.get("/v1/audit", experiment=path.rsplit("/", 1)[1])["changes"]
    assert created["after"]["model"] == f"sha256:{hashlib.sha256(model).hexdigest()}"


def test_the_list_has_pages_and_rejects_invalid_parameters(api: Api) -> None:
    path = api.new(policy="UCB1")
    name = path.rsplit("/", 1)[1]
    for action in range(5):
        api.post(f"{path}/actions", {"action": action})
    first = api.get("/v1/audit", experiment=name, limit=4)
    second = api.get("/v1/audit", experiment=name, limit=4, before=first["next"])
    assert second["next"] is None
    subjects = [change["subject"] for change in first["changes"] + second["changes"]]
    assert subjects == ["4", "3", "2", "1", "0", None]
    api.refused(404, "unknown_experiment", "GET", "/v1/audit?experiment=nowhere")
    for query in ("limit=0", "limit=1001", "before=0", "before=x", "what=1"):
        api.refused(422, "invalid", "GET", f"/v1/audit?{query}")
    with Client(api.url) as client:
        assert [change["subject"] for change in client.changes(name, page=4)] == subjects
        assert len(list(client.changes(page=2))) > 6


def run_command(*arguments: str) -> Any:
    done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "160", "NO_COLOR": "1"})
    assert done.exit_code == 0, done.output
    return done


def test_keys_are_recorded_without_secrets_and_scopes_limit_who_reads(address: str, tmp_path: Path) -> None:
    made = {}
    for owner, scope in (("all", "*:admin"), ("one", "shop:admin"), ("reader", "*:read"), ("gone", "*:read")):
        told = run_command("keys", "add", owner, "--scope", scope, "--store", address, "--json").stdout
        made[owner] = json.loads(told)
    run_command("keys", "revoke", made["gone"]["id"], "--store", address)
    with running_api(tmp_path, "--store", address, "--require-keys") as anyone:
        admin, one, reader = (Api(anyone.url, made[owner]["key"]) for owner in ("all", "one", "reader"))
        send(admin, "POST", "/v1/experiments", {"name": "shop", "actions": ["a"], "features": 1})
        send(one, "POST", "/v1/experiments/shop/actions", {"action": "b"})
        everything = admin.get("/v1/audit")["changes"][::-1]
        mine = one.get("/v1/audit", experiment="shop")["changes"][::-1]
        assert [change["actor"] for change in mine] == [made["all"]["id"], made["one"]["id"]]
        assert "lacks the scope *:admin" in one.refused(403, "forbidden", "GET", "/v1/audit")
        one.refused(403, "forbidden", "GET", "/v1/audit?experiment=nowhere")
        reader.refused(403, "forbidden", "GET", "/v1/audit?experiment=shop")
        anyone.refused(401, "key_needed", "GET", "/v1/audit")
        for api in (admin, one, reader):
            api.http.close()
    revoked = everything[4]
    assert [change["change"] for change in everything[:6]] == [*["add_key"] * 4, "revoke_key", "start"]
    assert {change["actor"] for change in everything[:6]} == {"command line"}
    assert everything[0]["after"] == {"id": made["all"]["id"], "name": "all", "scopes": ["*:admin"]}
    assert revoked["before"] == {"id": made["gone"]["id"], "name": "gone", "scopes": ["*:read"], "revoked": None}
    assert revoked["after"]["revoked"] == revoked["at"]
    secrets = [key["key"].rsplit("_", 1)[1] for key in made.values()]
    assert not any(secret in json.dumps(everything) for secret in secrets)


def test_an_acknowledged_change_is_recorded_although_the_process_is_killed(address: str, tmp_path: Path) -> None:
    for attempt in range(3):
        port = free_port()
        process = start_service(tmp_path, port, "--store", address)
        api = Api(f"http://127.0.0.1:{port}")
        name = f"x{attempt}"
        body = {"name": name, "actions": ["a"], "features": 1, "policy": {"name": "UCB1"}}
        ids = [send(api, "POST", "/v1/experiments", body)]
        ids += [send(api, "POST", f"/v1/experiments/{name}/actions", {"action": f"b{n}"}) for n in range(20)]
        process.send_signal(signal.SIGKILL)
        process.wait(STOP_TIMEOUT_SECONDS)
        api.http.close()

        async def kept(name: str = name) -> list[str | None]:
            async with open_event_store(address) as store:
                return [row.request_id for row in await recorded(store, name)]

        assert asyncio.run(kept()) == ids


def test_the_settings_of_each_start_are_recorded_next_to_the_former_ones(address: str, tmp_path: Path) -> None:
    for limit in ("11", "12"):
        with running_api(tmp_path, "--store", address, "--batch-limit", limit):
            pass

    async def starts() -> list[ChangeRow]:
        async with open_event_store(address) as store:
            return await recorded(store)

    first, second = asyncio.run(starts())
    assert (first.change, second.change, first.before) == ("start", "start", None)
    assert first.after is not None
    assert second.after is not None
    assert second.before == first.after
    assert [json.loads(text)["batch_limit"] for text in (first.after, second.after)] == [11, 12]


# --- the command --------------------------------------------------------------------------------------------


def test_the_command_prints_a_table_or_json_also_while_the_service_runs(address: str, tmp_path: Path) -> None:
    with running_api(tmp_path, "--store", address) as api:
        path = api.new(policy="UCB1", actions=["a"])
        name = path.rsplit("/", 1)[1]
        api.post(f"{path}/actions", {"action": "[red]b[/]"})
        told = json.loads(run_command("store", "audit", address, "--json", "--experiment", name).stdout)
        assert told == api.get("/v1/audit", experiment=name)["changes"]
        shown = run_command("store", "audit", address).output
    for text in (name, "anonymous", "add_action [red]b[/]", "actions: [red]b[/]", "command line", "start", "create"):
        assert text in shown, shown
    assert len(json.loads(run_command("store", "audit", address, "--json", "--limit", "1").stdout)) == 1
    failed = CliRunner().invoke(app, ["store", "audit", address, "--experiment", "nowhere"])
    assert failed.exit_code == 1
    assert "unknown experiment 'nowhere'" in failed.stderr


def test_the_table_shows_only_the_settings_that_changed(tmp_path: Path) -> None:
    for limit in ("11", "12"):
        with running_api(tmp_path, "--store", "s.db", "--batch-limit", limit):
            pass
    shown = run_command("store", "audit", str(tmp_path / "s.db"), "--limit", "1").output
    assert "batch_limit: 11" in shown
    assert "batch_limit: 12" in shown
    assert "rate_limit" not in shown
