"""Decoding of responses: JSON, lines, and errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from operator import itemgetter
from time import time
from typing import Any, TypeVar

import httpx

from releaf.client.responses import Conflict, Decision, ServiceError, Unavailable

T = TypeVar("T")

UNAVAILABLE_STATUSES = (429, 502, 503, 504)  # 502 and 504 come from proxies
PROBLEM = "urn:releaf:problem:"  # before the code, in the type of the service's own errors
OF_SERVICE = ("not_ready", "stopping", "connection_limit")  # codes of errors about the service as a whole
UNAVAILABLE_CODE = "unavailable"  # of a line that was not committed, among others that may have been


def decode_json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        message = f"the answer to {response.request.method} {response.request.url.path} is not JSON: is this a service?"
        raise ServiceError(response.status_code, "unexpected", message) from None


def field_reader(name: str) -> Callable[[httpx.Response], Any]:
    """Make a function that reads one field of a response."""
    return lambda response: _read(response, itemgetter(name))


def decode_decision(response: httpx.Response) -> Decision:
    return _read(response, Decision.of)


def decode_decisions(response: httpx.Response) -> list[Decision]:
    return _read(response, lambda content: [Decision.of(answer) for answer in content["decisions"]])


def decode_statuses(response: httpx.Response) -> list[str]:
    return _read(response, lambda content: [answer["status"] for answer in content["rewards"]])


def _read(response: httpx.Response, read: Callable[[Any], T]) -> T:
    """Read the JSON of a response; an error that names what is missing if it is another program's."""
    content = decode_json(response)
    try:
        return read(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        path = response.request.url.path
        message = f"the answer to {response.request.method} {path} lacks a field ({error!r}): is this a service?"
        raise ServiceError(response.status_code, "unexpected", message) from None


def lines_reader(read: Callable[[dict[str, Any]], T], count: int) -> Callable[[httpx.Response], list[T | ServiceError]]:
    """Make a function that reads one answer per line, with ``read``, or an error."""

    def read_all(response: httpx.Response) -> list[T | ServiceError]:
        answers = [json.loads(line) for line in response.content.splitlines() if line.strip()]
        if len(answers) != count:
            message = f"{len(answers)} lines came back: expected {count}, one for each line sent"
            raise ServiceError(response.status_code, "unexpected", message)
        return [make_error(None, answer) if "error" in answer else read(answer) for answer in answers]

    return read_all


def has_unavailable_line(response: httpx.Response) -> bool:
    return f'"code":"{UNAVAILABLE_CODE}"'.encode() in response.content


def make_error(status: int | None, content: Any, retry_after: float | None = None) -> ServiceError:
    content = content if isinstance(content, dict) else {}
    detail = content.get("error")
    if not isinstance(detail, dict):  # from a proxy, perhaps a problem document (RFC 9457)
        message = content.get("detail") or content.get("title") or "the response has no explanation"
        detail = {"code": "unexpected", "message": message}
    code = str(detail.get("code"))
    unavailable = status in UNAVAILABLE_STATUSES or (status is None and code == UNAVAILABLE_CODE)
    kind = Unavailable if unavailable else Conflict if status == 409 else ServiceError
    return kind(status, code, str(detail.get("message")), retry_after)


def error_from(response: httpx.Response) -> ServiceError:
    """The error in a response."""
    try:
        content = response.json()
    except ValueError:
        content = None
    return make_error(response.status_code, content, _retry_after(response.headers.get("Retry-After")))


def is_of_one_experiment(response: httpx.Response) -> bool:
    """Whether an error of a service may be about one experiment, such as too many pending decisions: others go on."""
    try:
        kind = str(response.json()["type"])
    except (ValueError, TypeError, KeyError):
        return False  # from a proxy
    return kind.startswith(PROBLEM) and kind.removeprefix(PROBLEM) not in OF_SERVICE


def _retry_after(text: str | None) -> float | None:
    """Seconds of a ``Retry-After`` header, which may have a date."""
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(str(text)).timestamp() - time())
    except ValueError:
        return None
