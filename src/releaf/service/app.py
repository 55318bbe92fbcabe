"""The service as an ASGI application, and as a process."""

from __future__ import annotations

import itertools
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import uvicorn
from starlette.routing import BaseRoute, Route, Router
from uvicorn.config import STARTUP_FAILURE

from releaf.service import garbage_collector as garbage
from releaf.service import structured_logging as logs
from releaf.service.auth.access_control import Guard
from releaf.service.auth.api_keys import Keyring
from releaf.service.auth.session_cookies import Sessions
from releaf.service.dashboard import pages
from releaf.service.dashboard.login import entrance
from releaf.service.errors import Problem
from releaf.service.experiments.event_feeds import Watchers
from releaf.service.experiments.registry import Hub
from releaf.service.http.connection_limits import connections_with
from releaf.service.http.endpoint import JSON, Call, Endpoint, Operation, Raw, Receive, Scope, Send
from releaf.service.http.metrics import ExperimentReading, Metrics, StoreLag
from releaf.service.http.openapi import describe
from releaf.service.http.routes import OPERATIONS
from releaf.service.messages import Counts
from releaf.service.settings import Settings
from releaf.service.store import open_store
from releaf.service.store.base import Store, StoreError

log = logging.getLogger("releaf.service")
GRACE_SECONDS = 30
NOTHING = Counts(0, 0, 0, 0, 0, 0, 0, None)  # known of an experiment that another process serves
SWITCH_SECONDS = 0.001  # for which a thread that makes a snapshot may keep requests from going on
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(slots=True)
class Service:
    """The parts of one service, and the ASGI application that they make up."""

    hub: Hub
    guard: Guard
    metrics: Metrics
    keyring: Keyring
    app: Router


def make_service(settings: Settings, store: Store | None = None, settled: Callable[[], None] = lambda: None) -> Service:
    """Put a service together; its application starts and stops the rest with its lifespan.

    Parameters
    ----------
    settings
        How to run.
    store
        Another than the settings name.
    settled
        Told when there is much in memory that stays.
    """
    keyring, metrics = Keyring(), Metrics()
    guard = Guard(settings, keyring, Sessions(keyring))
    hub = Hub(
        store or open_store(settings.store),
        settings,
        keyring.reload,
        lambda seconds, events: metrics.committed(events, seconds),
        metrics.commit_failed,
        settled,
    )
    metrics.experiments = lambda: _readings(hub)
    metrics.store_lag = lambda: StoreLag(*hub.desk.lag())

    def endpoint(operations: list[Operation]) -> Endpoint:
        return Endpoint(operations, hub, guard, metrics, settings)

    app = Application(
        hub,
        [*_routes(endpoint), *entrance(pages.routes(needs_keys=settings.needs_keys), guard, settings)],
        endpoint([_nothing(method) for method in METHODS]),
    )
    return Service(hub, guard, metrics, keyring, app)


class Application(Router):
    """All that can be asked for over HTTP; the hub starts and stops with it."""

    def __init__(self, hub: Hub, routes: list[BaseRoute], default: Endpoint) -> None:
        super().__init__(routes, default=default, redirect_slashes=False)
        self._hub = hub

    async def lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Start when the server does, and stop with it; a store that can't be opened is told in a line."""
        await receive()
        try:
            await self._hub.start()
        except StoreError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        log.info("ready", extra={"experiments": len(self._hub.experiments)})
        await send({"type": "lifespan.startup.complete"})
        await receive()
        log.info("stopping")
        try:
            await self._hub.stop()
        except StoreError as error:
            await send({"type": "lifespan.shutdown.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})


def _routes(endpoint: Callable[[list[Operation]], Endpoint]) -> list[BaseRoute]:
    description = msgspec.json.encode(describe(OPERATIONS))

    async def openapi(call: Call) -> Raw:
        return Raw(description, JSON)

    described = Operation(
        method="GET", path="/openapi.json", handler=openapi, summary="This", answer=None, scope="none"
    )
    by_path = itertools.groupby(sorted([*OPERATIONS, described], key=_place), key=lambda operation: operation.path)
    return [Route(path, endpoint(list(operations))) for path, operations in by_path]


def _place(operation: Operation) -> int:
    """Operations of one path stand together, in the order of the table."""
    paths = [one.path for one in OPERATIONS]
    return paths.index(operation.path) if operation.path in paths else len(paths)


def _nothing(method: str) -> Operation:
    return Operation(method=method, path="", handler=not_found, summary="", answer=None, scope="none")


async def not_found(call: Call) -> Raw:
    raise Problem(
        404, "not_found", f"there is nothing at {call.scope['path'][:200]}; /openapi.json tells what there is"
    )


def _readings(hub: Hub) -> list[ExperimentReading]:
    infos = [running.info() for running in hub.experiments.values()]
    return [
        ExperimentReading(info.name, info.status, info.counts or NOTHING, info.label_budget, info.events, info.snapshot)
        for info in infos
    ]


def serve(settings: Settings, level: str = "INFO") -> None:
    """Run a service until it is told to stop: it then finishes requests, saves snapshots and ends."""
    sys.setswitchinterval(SWITCH_SECONDS)
    garbage.look_less_often()
    logs.configure(settings.log_format, level=level)
    _compile_ahead()
    service = make_service(settings, settled=garbage.settle)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # which uvicorn raises again when all is done
    server = make_server(service, settings)
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        sys.exit(STARTUP_FAILURE)


def make_server(service: Service, settings: Settings) -> uvicorn.Server:
    """The server of a service: what it takes from the network, and how long it waits."""
    config = uvicorn.Config(
        service.app,
        http=connections_with(settings),
        host=settings.host,
        port=settings.port,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=False,
        timeout_keep_alive=65,
        timeout_graceful_shutdown=GRACE_SECONDS,
        limit_concurrency=settings.connection_limit + 1,  # the first that is refused
        backlog=2048,
    )
    return Server(config, service.hub.watchers)


class Server(uvicorn.Server):
    """A server that ends feeds when it is told to stop, since it waits for all answers to end."""

    def __init__(self, config: uvicorn.Config, watchers: Watchers) -> None:
        super().__init__(config)
        self._watchers = watchers

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, finish what was begun, and end."""
        self._watchers.end()
        await super().shutdown(sockets)


def _compile_ahead() -> None:
    """On a fresh install, compile in another process what the first experiments would wait for a minute for."""
    from releaf.core.jit import kept_kernels

    kernels = kept_kernels()
    if not kernels.compiled and kernels.writable:
        log.info("compiling kernels beside the service, once; until then creating an experiment takes a minute")
        subprocess.Popen(
            [sys.executable, "-m", "releaf", "warmup", "--actions", "2", "--actions", "3", "--json"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
