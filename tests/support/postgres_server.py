"""A temporary PostgreSQL server: one shared by the tests of a process, and own ones for tests that stop it."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from polling import TIMEOUT_SECONDS

PASSWORD = "open-sesame"  # the server trusts everyone here; tests look for it where it must not appear
SETTINGS = {"fsync": "on", "shared_buffers": "32MB", "max_connections": "100", "listen_addresses": "127.0.0.1"}


def find_binaries() -> Path | None:
    """The folder of the server's programs, which Debian keeps off the path."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))[::-1]
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


class PostgresServer:
    """A server in a temporary folder, on a loopback port that it keeps when it is started again."""

    def __init__(self) -> None:
        found = find_binaries()
        if found is None:
            pytest.skip("needs PostgreSQL's server; `make test` installs it where it may (apt-get, as root)")
        self._programs = found
        self._as_user = _as_user()
        self._folder = Path(tempfile.mkdtemp(prefix="releaf-postgres-"))
        if os.getuid() == 0:
            shutil.chown(self._folder, "postgres", "postgres")
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        self._run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _run(self, program: str, *options: str) -> None:
        command = [*self._as_user, str(self._programs / program), *options]
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"

    def start(self) -> None:
        """Start it and wait until it answers; after a kill, processes of the former one may be in the way a while."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not self._answers():
            assert time.monotonic() < deadline, f"PostgreSQL does not start: {self._log.read_text()[-2000:]}"
            if self._process is None or self._process.poll() is not None:
                self._launch()
            time.sleep(0.05)

    def _launch(self) -> None:
        settings = {**SETTINGS, "port": str(self.port), "unix_socket_directories": str(self._folder)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            command = [*self._as_user, str(self._programs / "postgres"), "-D", str(self._data), *options]
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log)

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            return False
        ready = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ready, timeout=TIMEOUT_SECONDS).returncode == 0

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT closes connections and exits, SIGQUIT exits at once, SIGKILL is what it says."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(TIMEOUT_SECONDS)
            self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """All its processes stopped, without an end of their connections."""
        assert self._process is not None
        processes = [psutil.Process(self._process.pid), *psutil.Process(self._process.pid).children(recursive=True)]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self._folder.exists() and time.monotonic() < deadline:  # processes of a killed one may still write there
            subprocess.run(["rm", "-rf", self._folder], start_new_session=True)  # goes on where the tests are ended

    def table_files(self) -> list[bytes]:
        """Contents of the files of all tables and indexes, as they are on disk after a checkpoint."""
        self._run("psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-c", "CHECKPOINT")
        return [file.read_bytes() for file in (self._data / "base").rglob("*") if file.is_file()]

    def database(self) -> str:
        """The address of a new, empty database."""
        name = f"test_{next(self._numbers)}"
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", name)
        return f"postgresql://postgres:{PASSWORD}@127.0.0.1:{self.port}/{name}"


def _as_user() -> list[str]:
    """What runs a program so it ends with the tests, however they end, and not as root, which the server refuses."""
    ends_with_us = ["setpriv", "--pdeathsig", "INT"] if shutil.which("setpriv") else []
    if os.getuid() != 0:
        return ends_with_us
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("needs a user named postgres: PostgreSQL's server refuses to run as root")
    if not ends_with_us:
        pytest.skip("needs setpriv (util-linux): PostgreSQL's server refuses to run as root")
    return [*ends_with_us, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _free_port() -> int:
    """A port that nothing listens on, below those that the system gives to outgoing connections."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise OSError("no free port between 20000 and 32000")


@functools.cache
def _shared() -> PostgresServer:
    server = PostgresServer()
    atexit.register(server.remove)
    server.start()
    return server


def new_database() -> str:
    """The address of a new database on the server that tests of this process share."""
    return _shared().database()


@contextmanager
def own_server() -> Iterator[PostgresServer]:
    """A running server for a test that stops it."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()
