"""Store outages: the service rejects requests, loses nothing, and recovers by itself."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import postgres_server
import pytest
from client_load import ClientLoad
from polling import wait_until
from service_process import FREQUENT_SNAPSHOTS, ServiceProcess, wait_for_rewards
from store_audit import audit_after_load


def refuses(load: ClientLoad, service: ServiceProcess) -> None:
    """Wait until requests are refused, which the service has to say of itself too."""
    before = load.statuses[503]
    wait_until(
        lambda: load.statuses[503] > before + 5,
        message=lambda: f"no 503: {load.statuses}",
    )
    assert service.call("GET", "/healthz")[0] == 200
    wait_until(lambda: service.call("GET", "/readyz")[0] == 503, message="the service reports itself ready")


def recovers(load: ClientLoad, service: ServiceProcess, *, words: str) -> bytes:
    """Wait until clients get on again; returns the model at the end. They were told ``words`` meanwhile."""
    load.wait_for_progress(200)
    assert any(words in refusal for refusal in load.refusals), set(load.refusals)
    load.stop()
    wait_for_rewards(service)
    assert any("a commit failed, recovering from the log" in message for message in service.info()["messages"])
    model = service.model()
    assert service.stop() == 0
    return model


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGKILL])
def test_the_service_recovers_when_the_server_restarts_under_load(tmp_path: Path, how: signal.Signals) -> None:
    with postgres_server.own_server() as server:
        address = server.database()
        with ServiceProcess(tmp_path, address, *FREQUENT_SNAPSHOTS) as service:
            service.create()
            with ClientLoad(service.port, seed=31) as load:
                load.wait_for_progress(200)
                server.stop(how)
                refuses(load, service)
                server.start()
                model = recovers(load, service, words="the server is unreachable")
        assert postgres_server.PASSWORD not in service.log_text() + "".join(load.refusals)
        audit_after_load(address, load, model)


def test_the_service_recovers_when_the_file_is_moved_under_load(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with ServiceProcess(tmp_path, str(path), *FREQUENT_SNAPSHOTS) as service:
        service.create()
        with ClientLoad(service.port, seed=32) as load:
            load.wait_for_progress(200)
            path.rename(tmp_path / "elsewhere.db")
            refuses(load, service)
            (tmp_path / "elsewhere.db").rename(path)
            model = recovers(load, service, words="restore the file")
    audit_after_load(str(path), load, model)


# --- full disks -------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """A disk of its own, which is soon full."""
    if os.getuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root may mount a small disk")
    disk = Path(tempfile.mkdtemp(prefix="releaf-disk-"))
    try:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", disk]).returncode != 0:
            pytest.skip("root may not mount here")
        try:
            yield disk
        finally:
            subprocess.run(["umount", "-l", disk], check=True)
    finally:
        disk.rmdir()


def fill(disk: Path) -> Path:
    """Leave no room on a disk; returns the file to be removed when there is to be some."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return ballast
    raise AssertionError("the disk is not full")


def test_a_full_disk_rejects_requests_until_there_is_space(tmp_path: Path) -> None:
    with small_disk(16) as disk:
        address = str(disk / "store.db")
        with ServiceProcess(tmp_path, address, *FREQUENT_SNAPSHOTS) as service:
            service.create()
            with ClientLoad(service.port, seed=33) as load:
                load.wait_for_progress(200)
                ballast = fill(disk)
                refuses(load, service)
                ballast.unlink()
                model = recovers(load, service, words="free some space")
        audit_after_load(address, load, model)


def test_a_server_without_disk_space_rejects_requests_until_there_is_some(tmp_path: Path) -> None:
    with small_disk(32) as disk, postgres_server.own_server() as server:
        user = pwd.getpwnam("postgres")
        os.chown(disk, user.pw_uid, user.pw_gid)
        address = asyncio.run(database_on(disk, server.database()))
        with ServiceProcess(tmp_path, address, *FREQUENT_SNAPSHOTS) as service:
            service.create()
            with ClientLoad(service.port, seed=34) as load:
                load.wait_for_progress(200)
                ballast = fill(disk)
                refuses(load, service)
                ballast.unlink()
                model = recovers(load, service, words="the server is out of disk space")
        audit_after_load(address, load, model)


async def database_on(disk: Path, address: str) -> str:
    """The address of a new database that has its tables on a disk."""
    import asyncpg

    connection = await asyncpg.connect(address)
    await connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
    await connection.execute("CREATE DATABASE full_soon TABLESPACE small")
    await connection.close()
    return f"{address.rpartition('/')[0]}/full_soon"
