"""Crash recovery: acknowledged events survive kills, pauses and a second writer."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from pathlib import Path

import postgres_server
import pytest
from client_load import ClientLoad
from polling import wait_until
from service_process import FREQUENT_SNAPSHOTS, ServiceProcess, wait_for_rewards
from store_audit import audit_after_load

from releaf.service.store.sqlite_leases import write_lock_owner

LEASE_SECONDS = 12.0  # the lease time-out of five, and what a busy machine needs besides


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "store.db") if request.param == "sqlite" else postgres_server.new_database()


@pytest.mark.parametrize("kills", [6, pytest.param(50, marks=pytest.mark.soak)])
def test_acknowledged_events_survive_kills_at_any_moment(tmp_path: Path, address: str, kills: int) -> None:
    """While clients decide, reward, change, list and export, and snapshots are saved."""
    chance = random.Random(kills)
    with ServiceProcess(tmp_path, address, *FREQUENT_SNAPSHOTS) as service:
        service.create()
        with ClientLoad(service.port, seed=kills, reads=True) as load:
            for _ in range(kills):
                load.wait_for_progress(chance.randint(1, 800))
                load.pause(chance.uniform(0, 0.05))
                service.kill()
                service.start()
            load.wait_for_progress(100)
        wait_for_rewards(service)
        model, info = service.model(), service.info()
        assert service.stop() == 0
    found = audit_after_load(address, load, model)
    assert (found.events, found.decisions) == (info["events"], info["counts"]["decisions"])
    assert len(found.snapshots) == 3
    assert load.changes
    assert load.reads["/export"]
    counts = info["counts"]
    assert counts["asked"] == sum(counts[name] for name in ("rewards", "defaults", "dropped", "waiting"))
    print(f"{kills} kills: {found}; {load}")


def test_a_service_that_gets_sigterm_finishes_running_requests(tmp_path: Path, address: str) -> None:
    with ServiceProcess(tmp_path, address) as service:
        service.create()
        with ClientLoad(service.port, seed=8) as load:
            load.wait_for_progress(500)
            assert service.stop() == 0
        found = audit_after_load(address, load)
        assert found.snapshots == [0, found.events]
        service.start()
        assert "with 0 events after the snapshot" in service.log_text()
        assert service.decide()["decision"] == found.decisions + 1


# --- two processes ----------------------------------------------------------------------------------------------


def test_a_standby_takes_over_from_a_killed_process(tmp_path: Path, address: str) -> None:
    with (
        ServiceProcess(tmp_path, address, *FREQUENT_SNAPSHOTS) as first,
        ServiceProcess(tmp_path, address, *FREQUENT_SNAPSHOTS) as second,
    ):
        first.create()
        await_standby(second)
        with ClientLoad(first.port, seed=1) as load:
            load.wait_for_progress(300)
            assert_stands_by(second)
            first.kill()
            seconds = second.wait_for_decision()
        wait_for_rewards(second)
        model = second.model()
        first.start()
        await_standby(first)
        assert second.stop() == 0
        took_back = first.wait_for_decision()
        assert first.stop() == 0
    audit_after_load(address, load)
    print(f"took over in {seconds:.2f} s after a kill, in {took_back:.2f} s after an end; {len(model)} bytes")


def test_a_standby_takes_over_from_a_stopped_process_which_writes_nothing_when_it_continues(
    tmp_path: Path, address: str
) -> None:
    with (
        ServiceProcess(tmp_path, address, *FREQUENT_SNAPSHOTS) as first,
        ServiceProcess(tmp_path, address, *FREQUENT_SNAPSHOTS) as second,
    ):
        first.create()
        await_standby(second)
        with ClientLoad(first.port, seed=2) as load:
            load.wait_for_progress(300)
            assert_stands_by(second)
            stop_between_commits(address, first)
            seconds = second.wait_for_decision()
            assert seconds < LEASE_SECONDS
            with ClientLoad(second.port, seed=5) as other:
                other.wait_for_progress(200)
                first.send(signal.SIGCONT)
                wait_until(lambda: load.statuses[503] > 5, message=lambda: f"no 503: {load.statuses}")
                await_standby(first)
                assert_stands_by(first)
                refused = load.acknowledged()
                other.wait_for_progress(200)
                assert load.acknowledged() == refused
                assert second.info()["status"] == "live"
        assert_refuses_everything(first)
        assert "another process holds its lease: this one stands by" in first.log_text()
        wait_for_rewards(second)
        model = second.model()
        first.kill()
        assert second.stop() == 0
    audit_after_load(address, load, model)
    audit_after_load(address, other)
    twice = load.decisions.keys() & other.decisions.keys()
    assert not twice, f"decisions {sorted(twice)[:10]} were made by both processes"
    print(f"took over {seconds:.2f} s after a stop; {load}; {other}")


def test_a_standby_takes_over_whenever_the_other_process_stops(tmp_path: Path, address: str) -> None:
    """Also in the middle of a write to the embedded store: then the stopped process is killed."""
    options = (*FREQUENT_SNAPSHOTS, "--lease-timeout", "1")
    with ServiceProcess(tmp_path, address, *options) as first, ServiceProcess(tmp_path, address, *options) as second:
        first.create()
        await_standby(second)
        loads = []
        for turn in range(4):
            with ClientLoad(first.port, seed=10 * turn, changes=False) as load:
                load.wait_for_progress(100)
                first.send(signal.SIGSTOP)
                second.wait_for_decision()
                first.send(signal.SIGCONT)
                if first.has_ended():
                    assert "stopped in the middle of a write to the file: killing it" in second.log_text()
                    first.wait_for_exit()
                    first.start()
                await_standby(first)
                second.decide()
            loads.append(load)
            first, second = second, first
        wait_for_rewards(first)
        assert first.stop() == 0
        assert second.stop() == 0
    for load in loads:
        audit_after_load(address, load)
    made = [number for load in loads for number in load.decisions]
    assert len(set(made)) == len(made)


def stop_between_commits(address: str, service: ServiceProcess) -> None:
    """Stop a process, but not in the middle of a write to an SQLite file."""
    while True:
        service.send(signal.SIGSTOP)
        time.sleep(0.05)
        if address.startswith("postgresql") or write_lock_owner(Path(address)) != service.pid:
            return
        service.send(signal.SIGCONT)
        time.sleep(0.01)


def assert_refuses_everything(service: ServiceProcess) -> None:
    """A standby answers 503 to all that would change an experiment, and says why."""
    policy = {"name": "LinUCB", "parameters": {}}
    for method, path, body in (
        ("POST", "/decide", {"context": [40, 7.5, "plus"]}),
        ("POST", "/reward", {"decision": 1, "reward": 0.5}),
        ("POST", "/actions", {"action": "juice"}),
        ("DELETE", "/actions/tea", None),
        ("POST", "/shadows", {"name": "other", "policy": policy}),
        ("DELETE", "", None),
    ):
        status, headers, told = service.call(method, f"/v1/experiments/shop{path}", body)
        assert (status, headers["Retry-After"]) == (503, "1"), (path, told)
        assert "another process serves this experiment" in told["error"]["message"]


def test_a_process_that_lost_its_connection_while_paused_does_not_write(tmp_path: Path) -> None:
    address = postgres_server.new_database()
    with ServiceProcess(tmp_path, address) as first, ServiceProcess(tmp_path, address) as second:
        first.create()
        await_standby(second)
        with ClientLoad(first.port, seed=3) as load:
            load.wait_for_progress(100)
            first.send(signal.SIGSTOP)
            asyncio.run(end_session_with_leases(address))
            second.wait_for_decision()
            with ClientLoad(second.port, seed=4) as other:
                other.wait_for_progress(100)
                first.send(signal.SIGCONT)
                wait_until(lambda: load.statuses[503] > 5, message=lambda: f"no 503: {load.statuses}")
                await_standby(first)
                other.wait_for_progress(100)
        assert first.stop() == 0
        assert second.stop() == 0
    audit_after_load(address, load)
    audit_after_load(address, other)


def await_standby(service: ServiceProcess) -> None:
    def stands_by() -> bool:
        _, _, told = service.call("GET", "/v1/experiments")
        return [one["status"] for one in told["experiments"]] == ["standby"]

    wait_until(stands_by, message="the process is no standby")


def assert_stands_by(service: ServiceProcess) -> None:
    status, headers, told = service.call("POST", "/v1/experiments/shop/decide", {"context": [40, 7.5, "plus"]})
    assert (status, headers["Retry-After"]) == (503, "1"), told
    assert "another process serves this experiment" in told["error"]["message"]


async def end_session_with_leases(address: str) -> None:
    """What happens when the server takes a client for dead."""
    import asyncpg

    connection = await asyncpg.connect(address)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database ON pg_database.oid = database "
        "WHERE locktype = 'advisory' AND objid <> 0 AND granted AND datname = current_database()"
    )
    await connection.close()


# --- the clock --------------------------------------------------------------------------------------------------

WITH_ANOTHER_CLOCK = """
import sys, time
from pathlib import Path

true_time, ahead = time.time, Path(sys.argv.pop(1))
time.time = lambda: true_time() + float(ahead.read_text())

from releaf.cli import app
app()
"""


def test_a_clock_that_is_set_back_stops_neither_decisions_nor_deadlines(tmp_path: Path, address: str) -> None:
    program, ahead = tmp_path / "with_another_clock.py", tmp_path / "ahead"
    program.write_text(WITH_ANOTHER_CLOCK)
    ahead.write_text("0")
    with ServiceProcess(tmp_path, address, *FREQUENT_SNAPSHOTS, program=(str(program), str(ahead))) as service:
        service.create()
        with ClientLoad(service.port, seed=6) as load:
            load.wait_for_progress(100)
            ahead.write_text("-3600")
            load.wait_for_progress(100)
            service.kill()
            service.start()
            load.wait_for_progress(100)
            ahead.write_text("-90000")
            load.wait_for_progress(100)
        defaults = service.info()["counts"]["defaults"]
        for _ in range(5):
            service.decide()
        wait_for_rewards(service)
        assert service.info()["counts"]["defaults"] > defaults
        model = service.model()
        assert service.stop() == 0
    audit_after_load(address, load, model)  # which also sees that times never go back
