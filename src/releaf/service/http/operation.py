"""An operation of the API: method, path, handler, messages and scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from releaf.service.auth.access_control import AccessControl
from releaf.service.auth.api_keys import Identity
from releaf.service.experiments.registry import ExperimentRegistry
from releaf.service.http.asgi import Scope
from releaf.service.http.metrics import Metrics
from releaf.service.settings import ServiceSettings


@dataclass(slots=True)
class ApiRequest:
    """A request to an operation, with what its handler needs."""

    registry: ExperimentRegistry
    settings: ServiceSettings
    metrics: Metrics
    identity: Identity
    scope: Scope
    path: Mapping[str, str]
    access: AccessControl
    body: Any = None
    lines: list[bytes] | None = None  # of newline-delimited JSON
    query: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[ApiRequest], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter, for the OpenAPI description."""

    name: str
    about: str
    schema: Mapping[str, Any]
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of the API.

    Attributes
    ----------
    method, path
        Of its requests; the scope applies to the ``{experiment}`` in the path.
    handler
        Coroutine function that answers a request.
    body, answer
        Types of the request and response messages; an answer that is not JSON names its media types.
    scope
        Scope that the key needs; "any" for every valid key, "none" if no key is needed.
    status
        Of the response.
    lines
        Whether the operation also accepts newline-delimited JSON.
    errors
        Error statuses, besides those of every operation.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answer: Any
    body: Any = None
    scope: str = "read"
    status: int = 200
    lines: bool = False
    query: tuple[Parameter, ...] = ()
    errors: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name in metrics, and ``operationId`` in the OpenAPI description."""
        return self.handler.__name__
