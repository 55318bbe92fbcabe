"""Requests and what becomes of their answers, apart from sending them: all that both clients share."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from time import time
from typing import Any, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import quote

import httpx

from releaf.client.responses import Conflict, Decision, Event, ServiceError, Unavailable
from releaf.features import is_missing
from releaf.schema import Schema

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

JSON = "application/json"
LINES = "application/x-ndjson"
BUSY = (429, 502, 503, 504)  # those of a proxy mean the same as those of the service
BUSY_LINE = "unavailable"  # the code of a line that could not be kept, among others that may have been
CHUNK_BYTES = 1 << 20  # of a request with lines; a fourth of what a service takes

# When a call may be sent again: "always" where that changes nothing, "unsent" where nothing can have arrived.
Repeat = Literal["always", "unsent", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request, how often it may be sent, and how its answer is read."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    body: bytes | None = None
    kind: str = JSON
    params: Mapping[str, Any] = field(default_factory=dict)
    repeat: Repeat = "always"
    silence: float | None = None  # seconds that it may be still, where that is longer than others may
    undone: Callable[[httpx.Response], bool] = lambda response: False  # whether some of it has to be tried again

    def request(self, http: httpx.Client | httpx.AsyncClient, timeout: httpx.Timeout) -> httpx.Request:
        headers = {} if self.body is None else {"Content-Type": self.kind}
        return http.build_request(
            self.method, self.path, content=self.body, params=self.params, headers=headers, timeout=timeout
        )


class Page(NamedTuple, Generic[T]):
    """Some of many items, and what to ask for the next ones with."""

    items: Sequence[T]
    next: int | None = None


class Take(NamedTuple):
    """The next items of a source, at most so many."""

    source: Iterator[Any] | AsyncIterator[Any]
    most: int


# Asks for calls to be made and items to be taken, and is told what came of it; the items of pages are handed on.
Walk = Generator[Call[Page[T_co]] | Take, Any, None]


# --- requests -----------------------------------------------------------------------------------------------


def place(*parts: str | int) -> str:
    """The path of something of an experiment. Dots are escaped, since ".." would lead elsewhere."""
    return "/v1/experiments" + "".join(f"/{quote(str(part), safe='').replace('.', '%2E')}" for part in parts)


def encoded(value: Any) -> bytes:
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain).encode()
    except ValueError as error:
        raise ValueError(f"numbers must be finite to be sent, got {value!r}") from error


def _plain(value: Any) -> Any:
    """Numbers and rows of numpy as Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} of type {type(value).__name__} can't be sent as JSON")


def plain_context(context: Any) -> Any:
    """A context with missing values as None: a mapping, a sequence, or a row of numpy or pandas."""
    if hasattr(context, "to_dict"):
        context = context.to_dict()
    if isinstance(context, Mapping):
        return {str(name): None if is_missing(value) else value for name, value in context.items()}
    if isinstance(context, str | bytes) or not isinstance(context, Iterable):
        raise TypeError(f"a context must be a mapping or a sequence of values, got {context!r}")
    return [None if is_missing(value) else value for value in context]


def plain_features(features: Any) -> Any:
    return Schema.of(features).to_dict() if isinstance(features, Schema | Mapping) else features


def plain_model(model: Any) -> str | None:
    """A learner, the bytes of one, or the file that it was saved to, in base64."""
    if model is None:
        return None
    if hasattr(model, "to_bytes"):
        model = model.to_bytes()
    if not isinstance(model, bytes):
        model = Path(model).read_bytes()
    return base64.b64encode(model).decode()


def number_of(decision: Decision | int) -> int:
    number = decision.id if isinstance(decision, Decision) else decision
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"decision must be a decision or its number, got {decision!r}")
    return int(number)


def policy_spec(policy: str, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"name": policy, "parameters": dict(parameters or {})}


def by_size(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Lines in portions of at most CHUNK_BYTES, but for a line that is longer by itself."""
    portion: list[bytes] = []
    size = 0
    for line in lines:
        if portion and size + len(line) > CHUNK_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(line)
        size += len(line) + 1
    if portion:
        yield portion


EXPORTS = ("csv", "parquet", "ndjson")


def export_format(path: str | os.PathLike[str], wanted: str | None) -> str:
    found = wanted or Path(path).suffix.removeprefix(".").lower()
    if found not in EXPORTS:
        raise ValueError(f"format must be one of {', '.join(EXPORTS)}, given or as the file's ending, got {found!r}")
    return found


# --- answers ------------------------------------------------------------------------------------------------


def content_of(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        message = f"the answer to {response.request.method} {response.request.url.path} is not JSON: is this a service?"
        raise ServiceError(response.status_code, "unexpected", message) from None


def part_of(name: str) -> Callable[[httpx.Response], Any]:
    """Reads one field of an answer."""
    return lambda response: content_of(response)[name]


def decision_of(response: httpx.Response) -> Decision:
    return Decision.of(content_of(response))


def decisions_of(response: httpx.Response) -> list[Decision]:
    return [Decision.of(answer) for answer in content_of(response)["decisions"]]


def lines_of(read: Callable[[dict[str, Any]], T], count: int) -> Callable[[httpx.Response], Page[T | ServiceError]]:
    """Reads one answer a line, each what ``read`` makes of it, or an error."""

    def page(response: httpx.Response) -> Page[T | ServiceError]:
        answers = [json.loads(line) for line in response.content.splitlines() if line.strip()]
        if len(answers) != count:
            message = f"{count} lines were sent and {len(answers)} came back"
            raise ServiceError(response.status_code, "unexpected", message)
        return Page([error_of(None, answer) if "error" in answer else read(answer) for answer in answers])

    return page


def some_undone(response: httpx.Response) -> bool:
    return f'"code":"{BUSY_LINE}"'.encode() in response.content


def error_of(status: int | None, content: Any, retry_after: float | None = None) -> ServiceError:
    detail = content.get("error") if isinstance(content, dict) else None
    if not isinstance(detail, dict):
        detail = {"code": "unexpected", "message": "refused without an explanation"}
    code = str(detail.get("code"))
    busy = status in BUSY or (status is None and code == BUSY_LINE)
    kind = Unavailable if busy else Conflict if status == 409 else ServiceError
    return kind(status, code, str(detail.get("message")), retry_after)


def refusal(response: httpx.Response) -> ServiceError:
    """The error that an answer tells of."""
    try:
        content = response.json()
    except ValueError:
        content = None
    return error_of(response.status_code, content, _retry_after(response.headers.get("Retry-After")))


def _retry_after(text: str | None) -> float | None:
    """Seconds, which may be told as a date."""
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(str(text)).timestamp() - time())
    except ValueError:
        return None


class Events:
    """Makes events of the lines of a feed (text/event-stream)."""

    def __init__(self) -> None:
        self._kind, self._data = "message", ""

    def add(self, line: str) -> Event | None:
        """The event that this line completes, if it does."""
        if line.startswith("event:"):
            self._kind = line[6:].strip()
        elif line.startswith("data:"):
            self._data += line[5:].strip()
        elif not line and self._data:
            event = Event(self._kind, json.loads(self._data))
            self._kind, self._data = "message", ""
            return event
        return None
