"""API endpoint: the operations of one path as an ASGI application.

Each path has its own small application: a decision takes microseconds, and general middleware would take longer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs

import msgspec

from releaf.service.auth.access_control import AccessControl, client_address
from releaf.service.auth.api_keys import NO_ACCESS, Identity
from releaf.service.errors import ApiError, StoreError, service_unavailable
from releaf.service.experiments.registry import ExperimentRegistry
from releaf.service.http.asgi import (
    NO_CONTENT,
    NOT_MODIFIED,
    RawResponse,
    Receive,
    Scope,
    Send,
    content_type,
    read_body,
    send_empty,
    send_raw,
    send_response,
    too_large,
)
from releaf.service.http.metrics import Metrics
from releaf.service.http.operation import ApiRequest, Operation
from releaf.service.http.problems import problem_headers
from releaf.service.http.request_ids import HEADER as REQUEST_ID
from releaf.service.http.security_headers import JSON_HEADERS
from releaf.service.http.task_timeouts import TaskTimeout
from releaf.service.http.telemetry import TRACED_SCOPES, Telemetry, TracedRequest
from releaf.service.http.whole_messages import received_body, respond
from releaf.service.settings import ServiceSettings
from releaf.service.structured_logging import SLOW_REQUEST, log_response, mask

JSON, NDJSON = b"application/json", b"application/x-ndjson"
CLIENT_CLOSED_REQUEST = 499  # nginx's status, for logs and metrics: no response is sent
INTERNAL_ERROR = ApiError(500, "error", "internal error: see the log of the service")
_JSON_HEADERS = ((b"content-type", JSON), *JSON_HEADERS)
encoder = msgspec.json.Encoder()
log = logging.getLogger("releaf.service")


class Endpoint:
    """All operations of one path, as an ASGI application.

    Parameters
    ----------
    operations
        Of one path, with different methods.
    registry, access, metrics, settings, telemetry
        Parts of the service.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        registry: ExperimentRegistry,
        access: AccessControl,
        metrics: Metrics,
        settings: ServiceSettings,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._operations = {operation.method: operation for operation in operations}
        if "GET" in self._operations:
            self._operations.setdefault("HEAD", self._operations["GET"])
        self._decoders = {
            operation.method: msgspec.json.Decoder(operation.body) for operation in operations if operation.body
        }
        self._registry, self._access, self._metrics, self._settings = registry, access, metrics, settings
        self._timeout, self._write_timeout = TaskTimeout(settings.read_timeout), TaskTimeout(settings.write_timeout)
        self._telemetry = telemetry
        self._errors = operations[0].error_format
        self._allow = ", ".join(sorted(self._operations)).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        started = time.perf_counter()
        operation = self._operations.get(scope["method"])
        name = operation.name if operation else "unknown"
        identity = NO_ACCESS
        traced = self._start_span(operation, scope)
        try:
            public = operation is None or operation.scope == "none"
            if not (public or self._registry.started):  # keys and experiments are not known yet
                raise ApiError(503, "not_ready", "the service is starting: try again soon", retry_after=1)
            identity = self._access.admit(scope, public=public)
            if operation is None:
                message = f"the method is {scope['method']}: expected one of {self._allow.decode()}"
                raise ApiError(405, "method_not_allowed", message)
            status = await self._answer(operation, identity, scope, receive, send, traced)
        except ApiError as error:
            status = await self._send_error(error, scope, send)
        except StoreError as error:
            failure = ApiError(503, "unavailable", mask(str(error)), retry_after=1)
            status = await self._send_error(failure, scope, send)
        except asyncio.CancelledError:
            if traced is not None:
                traced.end(CLIENT_CLOSED_REQUEST, time.perf_counter() - started)
            raise
        except ConnectionError:
            status = CLIENT_CLOSED_REQUEST
        except Exception:
            request_id = {"request_id": scope["request_id"]}
            log.exception("%s %s failed", scope["method"], scope["path"], extra=request_id)
            status = await self._send_error(INTERNAL_ERROR, scope, send)
        seconds = time.perf_counter() - started
        self._metrics.count_request(name, status, seconds)
        if traced is not None:
            traced.end(status, seconds)
        expected = status == 503 and name == "readyz"  # load balancers poll a standby every few seconds
        if (status >= 400 and not expected) or seconds > SLOW_REQUEST or log.isEnabledFor(logging.DEBUG):
            sender = {"client": client_address(scope), "key": identity.id, "request_id": scope["request_id"]}
            log_response(name, scope["method"], scope["path"], status, seconds, **sender)

    def _start_span(self, operation: Operation | None, scope: Scope) -> TracedRequest | None:
        """Start the span of a request that decides or rewards, with OpenTelemetry."""
        if self._telemetry is None or operation is None or operation.scope not in TRACED_SCOPES:
            return None
        return self._telemetry.start(operation.name, scope)

    async def _answer(
        self,
        operation: Operation,
        identity: Identity,
        scope: Scope,
        receive: Receive,
        send: Send,
        traced: TracedRequest | None,
    ) -> int:
        path = scope.get("path_params", {})
        if operation.scope not in ("any", "none") and "experiment" in path:
            identity.require(path["experiment"], operation.scope)
        request = ApiRequest(self._registry, self._settings, self._metrics, identity, scope, path, self._access)
        request.traced = traced
        if operation.body is not None:
            await self._read(operation, request, receive)
        if scope["query_string"]:
            request.query = _parse_query(scope["query_string"], operation)
        elif operation.query:
            _parse_query(b"", operation)
        answer = await self._handled(operation, request)
        if isinstance(answer, RawResponse):
            await send_raw(answer, operation.status, scope["method"] == "HEAD", receive, send)
            return NOT_MODIFIED if answer.not_modified else operation.status
        if operation.status == NO_CONTENT:
            await send_empty(send, operation.status, JSON_HEADERS)
            return operation.status
        content = b"" if scope["method"] == "HEAD" else encoder.encode(answer)
        own = b"%b: %b\r\n" % (REQUEST_ID, scope["request_id"].encode())
        if not respond(scope, operation.status, content, _JSON_HEADERS, own):
            await send_response(send, operation.status, content, _JSON_HEADERS)
        return operation.status

    async def _handled(self, operation: Operation, request: ApiRequest) -> Any:
        """Call the handler; 503 if the store does not answer in time. A commit goes on: it is never cancelled."""
        if operation.is_unbounded:
            return await operation.handler(request)
        try:
            with self._write_timeout.limit():
                return await operation.handler(request)
        except TimeoutError:
            limit = self._settings.write_timeout
            raise service_unavailable(f"the store has not answered within {limit:g} s: try again") from None

    async def _read(self, operation: Operation, request: ApiRequest, receive: Receive) -> None:
        kind = content_type(request.scope)
        if kind != JSON and not (kind == NDJSON and operation.lines):
            expected = "application/json" + (" or application/x-ndjson" if operation.lines else "")
            raise ApiError(415, "content_type", f"the Content-Type is {kind.decode('latin-1')!r}: expected {expected}")
        content, limit = received_body(request.scope), self._settings.body_limit
        if content is None:
            content = await read_body(receive, limit, self._timeout)
        elif len(content) > limit:
            raise too_large(limit)
        if kind == NDJSON:
            request.lines = [line for line in content.split(b"\n") if line.strip()]
        else:
            request.body = decode_json(self._decoders[request.scope["method"]], content)

    async def _send_error(self, error: ApiError, scope: Scope, send: Send) -> int:
        error = self._errors.adapt(error)
        content = self._errors.encode(error, scope["path"], scope["request_id"])
        headers = problem_headers(error, self._errors.media)
        if error.status == 405:
            headers.append((b"allow", self._allow))
        await send_response(send, error.status, content, headers)
        return error.status


def decode_json(decoder: msgspec.json.Decoder[Any], content: bytes) -> Any:
    """Decode a body or a line; an `ApiError` if it is no JSON or does not match its schema."""
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        raise ApiError(422, "invalid", str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(400, "not_json", f"the body is not JSON: {error}") from None


def _parse_query(text: bytes, operation: Operation) -> dict[str, str]:
    known = {parameter.name for parameter in operation.query}
    try:
        parameters = parse_qs(text.decode("ascii"), keep_blank_values=True, max_num_fields=20, errors="strict")
    except (ValueError, UnicodeDecodeError):
        raise ApiError(422, "invalid", "the query is malformed: expected name=value&…, percent-encoded") from None
    unknown = [name for name in parameters if name not in known]
    if unknown:
        expected = ", ".join(sorted(known)) or "none"
        raise ApiError(422, "invalid", f"unknown parameter {unknown[0]!r}: expected {expected}")
    repeated = [name for name, values in parameters.items() if len(values) > 1]
    if repeated:
        raise ApiError(422, "invalid", f"parameter {repeated[0]!r} is given twice: expected once")
    for parameter in operation.query:
        if parameter.required and parameter.name not in parameters:
            raise ApiError(422, "invalid", f"parameter {parameter.name!r} is missing: {parameter.about}")
    return {name: values[0] for name, values in parameters.items()}
