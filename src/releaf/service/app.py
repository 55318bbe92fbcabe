"""The service as an ASGI application, and as a server process."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import NamedTuple

import msgspec
import uvicorn
from starlette.routing import BaseRoute, Match, Route, Router
from uvicorn.config import STARTUP_FAILURE

from releaf.service import garbage_collector, structured_logging
from releaf.service.auth.access_control import AccessControl
from releaf.service.auth.api_keys import Keyring
from releaf.service.auth.session_cookies import Sessions
from releaf.service.auth.trusted_proxies import TrustedProxies
from releaf.service.dashboard import pages
from releaf.service.dashboard.login import protected_routes
from releaf.service.errors import ApiError, StoreError
from releaf.service.experiments.alerts import SeriesReading
from releaf.service.experiments.pending_decisions import pending_limit
from releaf.service.experiments.registry import ExperimentRegistry
from releaf.service.http.asgi import RawResponse, Receive, Scope, Send
from releaf.service.http.connection_limits import connection_class
from releaf.service.http.endpoint import JSON, Endpoint
from releaf.service.http.loop_lag import watch_event_loop
from releaf.service.http.metrics import (
    ActionReading,
    ClockReading,
    ExperimentReading,
    LiftReading,
    Metrics,
    StoreLag,
)
from releaf.service.http.openapi import describe
from releaf.service.http.operation import ApiRequest, Operation
from releaf.service.http.request_ids import with_request_id
from releaf.service.http.routes import OPERATIONS
from releaf.service.http.telemetry import Telemetry, configure_export, find_telemetry
from releaf.service.messages import Counts
from releaf.service.personalizer.loop import ensure_loop, experiment_path
from releaf.service.personalizer.routes import PERSONALIZER_OPERATIONS
from releaf.service.settings import ServiceSettings
from releaf.service.store import open_store
from releaf.service.store.base import EventStore

ALL_OPERATIONS = (*OPERATIONS, *PERSONALIZER_OPERATIONS)
log = logging.getLogger("releaf.service")
SHUTDOWN_SECONDS = 30
NO_COUNTS = Counts(0, 0, 0, 0, 0, 0, 0, None)  # for experiments on standby
SWITCH_SECONDS = 0.001  # for which a thread that saves a snapshot may hold the interpreter's lock
MAX_REMEMBERED, LONGEST_REMEMBERED = 1024, 400  # paths, and characters of one
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(slots=True)
class Service:
    """The parts of a service, and its ASGI application."""

    registry: ExperimentRegistry
    access: AccessControl
    metrics: Metrics
    keyring: Keyring
    app: Application


def make_service(
    settings: ServiceSettings,
    store: EventStore | None = None,
    on_loaded: Callable[[], None] = lambda: None,
    starts_in_background: bool = False,
    telemetry: Telemetry | None = None,
) -> Service:
    """Assemble a service; the lifespan of its application opens and closes the store.

    Parameters
    ----------
    settings
        Settings of the service.
    store
        Store to use instead of the one in the settings.
    on_loaded
        Called when long-lived objects were created (see `ExperimentRegistry`).
    starts_in_background
        Whether the application answers, with 503, while it opens the store and recovers experiments.
    telemetry
        Spans and metrics of OpenTelemetry; None for none.
    """
    keyring, metrics = Keyring(), Metrics()
    access = AccessControl(settings, keyring, Sessions(keyring))
    registry = ExperimentRegistry(
        store or open_store(settings.store, lease_timeout=settings.lease_timeout, salvage=settings.salvage),
        settings,
        keyring.reload,
        lambda seconds, events: metrics.count_commit(events, seconds),
        metrics.count_failed_commit,
        on_loaded,
    )
    metrics.experiments = lambda: _readings(registry)
    metrics.store_lag = lambda: StoreLag(*registry.group_commit.lag())
    metrics.clock = lambda: ClockReading(registry.clock.jumps, registry.clock.offset())

    def endpoint(operations: list[Operation]) -> Endpoint:
        return Endpoint(operations, registry, access, metrics, settings, telemetry)

    dashboard = protected_routes(pages.routes(needs_keys=settings.needs_keys), access, settings)
    default = endpoint([_not_found_operation(method) for method in METHODS])
    proxies = TrustedProxies(settings.trusted_proxies)
    routes = [*_routes(endpoint), *dashboard]
    app = Application(registry, proxies, routes, default, metrics, starts_in_background, settings.personalizer)
    return Service(registry, access, metrics, keyring, app)


class Found(NamedTuple):
    """The endpoint at a path, and the values of the path's parameters."""

    endpoint: Endpoint
    path: dict[str, str]


class Application(Router):
    """Router of all routes; its lifespan starts and stops the registry of experiments."""

    def __init__(
        self,
        registry: ExperimentRegistry,
        proxies: TrustedProxies,
        routes: list[BaseRoute],
        default: Endpoint,
        metrics: Metrics,
        starts_in_background: bool,
        personalizer: str,
    ) -> None:
        super().__init__(routes, default=default, redirect_slashes=False)
        self._registry, self._proxies, self._metrics = registry, proxies, metrics
        self._starts_in_background, self._personalizer = starts_in_background, personalizer
        self._found: dict[str, Found] = {}  # by path
        self.on_failed_start: Callable[[], None] = lambda: None  # of a start in the background
        self.failed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with its id in the response; behind a trusted proxy, its client is the proxy's."""
        if scope["type"] == "http":
            self._proxies.resolve_client(scope)
            scope["path"] = experiment_path(scope["path"], self._personalizer)
            send = with_request_id(scope, send)
            found = self._found.get(scope["path"]) or self._find(scope)
            if found is not None:
                scope["path_params"] = found.path
                await found.endpoint(scope, receive, send)
                return
        await super().__call__(scope, receive, send)

    def _find(self, scope: Scope) -> Found | None:
        """Find the endpoint of the API at a path, and remember it: the router tries one route after the other."""
        for route in self.routes:
            match, child = route.matches(scope)
            if match is not Match.NONE:
                endpoint = getattr(route, "app", None)
                if not isinstance(endpoint, Endpoint) or match is not Match.FULL:
                    return None
                found = Found(endpoint, child["path_params"])
                if len(scope["path"]) <= LONGEST_REMEMBERED:
                    if len(self._found) >= MAX_REMEMBERED:
                        self._found.clear()
                    self._found[scope["path"]] = found
                return found
        return None

    async def lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Start and stop with the server; a store that fails to open ends it with one line of log."""
        await receive()
        tasks = [asyncio.create_task(watch_event_loop(self._metrics.add_loop_lag), name="event-loop lag")]
        if self._starts_in_background:
            tasks.append(asyncio.create_task(self._start_or_fail(), name="start"))
        else:
            try:
                await self._start()
            except StoreError as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        log.info("stopping")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self._registry.stop()
        except StoreError as error:
            await send({"type": "lifespan.shutdown.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    async def _start(self) -> None:
        await self._registry.start()
        if self._personalizer:
            self._registry.ready = False  # until the experiment that is asked for is there
            await ensure_loop(self._registry, self._personalizer)
            self._registry.ready = True
        log.info("ready", extra={"experiments": len(self._registry.experiments)})

    async def _start_or_fail(self) -> None:
        try:
            await self._start()
        except StoreError as error:
            log.error("the service can't start: %s", error)
        except Exception:
            log.exception("the service can't start")
        else:
            return
        self.failed = True
        self.on_failed_start()


def _routes(endpoint: Callable[[list[Operation]], Endpoint]) -> list[BaseRoute]:
    description = msgspec.json.encode(describe(ALL_OPERATIONS))

    async def openapi(request: ApiRequest) -> RawResponse:
        return RawResponse(description, JSON)

    openapi_operation = Operation("GET", "/openapi.json", openapi, "This", scope="none")
    by_path = itertools.groupby(
        sorted([*ALL_OPERATIONS, openapi_operation], key=_route_order), key=lambda operation: operation.path
    )
    return [Route(path, endpoint(list(operations))) for path, operations in by_path]


def _route_order(operation: Operation) -> int:
    """Order of the table, with the operations of one path together."""
    paths = [one.path for one in ALL_OPERATIONS]
    return paths.index(operation.path) if operation.path in paths else len(paths)


def _not_found_operation(method: str) -> Operation:
    return Operation(method, "", not_found, "", scope="none")


async def not_found(request: ApiRequest) -> RawResponse:
    path = request.scope["path"][:200]
    raise ApiError(404, "not_found", f"unknown path {path}: /openapi.json lists all paths")


def _readings(registry: ExperimentRegistry) -> list[ExperimentReading]:
    experiments = [(experiment, experiment.info()) for experiment in registry.experiments.values()]
    return [
        ExperimentReading(
            name=info.name,
            status=info.status,
            counts=info.counts or NO_COUNTS,
            label_budget=info.label_budget,
            events=info.events,
            snapshot=info.snapshot,
            labels_spent=info.labels.spent if info.labels else info.labels_spent,
            alerts=[alert.kind for alert in info.alerts],
            actions=_action_readings(experiment.monitor.reading),
            lift=_lift_reading(experiment.monitor.reading),
            spend=info.spend,
            pending_limit=None if experiment.state is None else pending_limit(experiment.state.slot.policy),
        )
        for experiment, info in experiments
    ]


def _action_readings(reading: SeriesReading) -> list[ActionReading]:
    """Readings of the actions; none where there are too many for the time series to count each of them."""
    if None in reading.totals:
        return []
    return [
        ActionReading(str(action), sums.decisions, sums.rewards, sums.reward_sum)
        for action, sums in reading.totals.items()
    ]


def _lift_reading(reading: SeriesReading) -> LiftReading | None:
    lift = reading.lift
    return None if lift is None else LiftReading(str(lift.baseline), lift.lift, lift.low, lift.high)


def serve(settings: ServiceSettings, level: str = "INFO") -> None:
    """Run a service until it gets SIGTERM, and has drained, or SIGINT; then finish requests, save snapshots and end."""
    sys.setswitchinterval(SWITCH_SECONDS)
    garbage_collector.raise_threshold()
    structured_logging.configure(settings.log_format, level=level)
    _compile_kernels()
    configure_export()
    service = make_service(
        settings,
        on_loaded=garbage_collector.freeze_objects,
        starts_in_background=True,
        telemetry=find_telemetry(),
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises the signal again at its end
    server = make_server(service, settings)
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started or service.app.failed:
        sys.exit(STARTUP_FAILURE)


def make_server(service: Service, settings: ServiceSettings) -> uvicorn.Server:
    """Make the uvicorn server of a service, with its limits and time-outs."""
    config = uvicorn.Config(
        service.app,
        http=connection_class(settings),
        host=settings.host,
        port=settings.port,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=False,
        timeout_keep_alive=65,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        backlog=2048,
    )
    server = DecisionServer(config, service.registry, settings.drain_seconds)
    service.app.on_failed_start = server.stop_soon
    return server


class DecisionServer(uvicorn.Server):
    """A server that drains before it stops.

    After SIGTERM it goes on for ``drain_seconds``, so that load balancers see /readyz fail and send no more requests.
    A second signal, or Ctrl-C, stops it at once. Feeds end at shutdown, because it waits for all responses to end.
    """

    def __init__(self, config: uvicorn.Config, registry: ExperimentRegistry, drain_seconds: float) -> None:
        super().__init__(config)
        self._registry, self._drain_seconds = registry, drain_seconds
        self._stop_at = math.inf

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start to drain, or stop. This handles a signal, which may interrupt anything: it only sets variables."""
        if sig == signal.SIGTERM and self.started and self._drain_seconds > 0 and not self._registry.draining:
            self._stop_at = time.monotonic() + self._drain_seconds
        else:
            super().handle_exit(sig, frame)
        self._registry.draining = True

    def _log_started_message(self, listeners: Sequence[socket.SocketType]) -> None:
        if not self.should_exit:  # the store may have failed to open already
            super()._log_started_message(listeners)

    def stop_soon(self) -> None:
        """Stop at the next tick."""
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Stop if the server has drained; called ten times a second."""
        if time.monotonic() >= self._stop_at:
            self._stop_at = math.inf
            super().handle_exit(signal.SIGTERM, None)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to listen, finish running requests, and end."""
        self._registry.feeds.stop()
        await super().shutdown(sockets)


def _compile_kernels() -> None:
    """After a fresh install, compile kernels in a subprocess; otherwise the first experiment waits a minute for JIT."""
    from releaf.core.runtime.jit import kernel_cache

    kernels = kernel_cache()
    if not kernels.compiled and kernels.writable:
        log.info("compiling kernels in the background, once; until then, creating an experiment takes a minute")
        subprocess.Popen(
            [sys.executable, "-m", "releaf", "warmup", "--actions", "2", "--actions", "3", "--json"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
