"""API calls, apart from sending them: a request, its retry rule, and how its response is decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import httpx

from releaf.client.response_decoding import decode_json
from releaf.client.responses import ServiceError
from releaf.client.transports import Transport

T = TypeVar("T")

JSON = "application/json"
NDJSON = "application/x-ndjson"

# When a call may be sent again: "always" if that changes nothing, "unsent" if the request can't have arrived.
RetryRule = Literal["always", "unsent", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall(Generic[T]):
    """One request, when it may be sent again, and how its response is decoded."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    body: bytes | None = None
    content_type: str = JSON
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    retry: RetryRule = "always"
    take: Callable[[Transport, httpx.Response], Any] | None = None  # reads the content of a success as a stream
    read_timeout: float | None = None  # seconds, if longer than the client's
    is_incomplete: Callable[[httpx.Response], bool] = lambda response: False  # whether to send the call again
    timeout: float | None = None  # seconds for all attempts and the pauses between them; None: the client's settings
    fallback: Callable[[ServiceError], T] | None = None  # the result if the service is unavailable
    discards: tuple[str, tuple[str, ...]] | None = None  # path and keys to report after a fallback
    breaks_circuit: bool = True  # whether the circuit breaker counts its failures, and may hold it back

    def request(self, http: httpx.Client | httpx.AsyncClient, timeout: httpx.Timeout) -> httpx.Request:
        headers = dict(self.headers) | ({} if self.body is None else {"Content-Type": self.content_type})
        return http.build_request(
            self.method, self.path, content=self.body, params=self.params, headers=headers, timeout=timeout
        )


def get(path: str, **params: Any) -> ApiCall[Any]:
    params = {name: value for name, value in params.items() if value is not None}
    return ApiCall(method="GET", path=path, read=decode_json, params=params)
