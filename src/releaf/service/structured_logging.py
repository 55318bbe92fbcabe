"""Structured logging to stderr: one JSON object per line, or text for people, with secrets masked.

Pass fields as the standard library does: ``logger.info("store opened", extra={"store": address})``.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from math import isfinite
from typing import Any, TextIO

from releaf.service.timestamps import format_timestamp

SLOW_REQUEST = 1.0  # seconds
HIDDEN = "***"
FORMATS = ("json", "text")
SECRET_FIELDS = frozenset(
    ("authorization", "cookie", "key", "password", "proxy-authorization", "secret", "set-cookie", "token")
)
MAX_PATH = 300
# Group 1 of each pattern precedes the secret. Repetitions are bounded so that no text makes the search quadratic.
SECRETS = (
    re.compile(r"(rlf_[A-Za-z0-9]{1,16})_[A-Za-z0-9_~.+/=-]+"),
    re.compile(r"(?i)(\b(?:bearer|basic)(?: |%20)+)[A-Za-z0-9._~+/=-]+"),
    re.compile(r"(?i)(\b[a-z][a-z0-9+.-]{0,30}://[^\s:/@?#]{0,100}:)[^\s'\"]{0,300}(?=@)"),
    re.compile(r"(?i)(\bpassword['\"]?\s*[=:]\s*['\"]?)[^\s&'\"]+"),
    re.compile(r"(?i)(\b(?:set-)?cookie\b['\"]?\s*[:=,]\s*b?['\"]?)[^\r\n'\"]+"),
    re.compile(r"(releaf_session=)[^\s;,'\"]+"),
)
BIDIRECTIONAL = "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069"  # for a character class
CONTROL = re.compile(rf"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{BIDIRECTIONAL}]")
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}
UVICORN = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")

access_log = logging.getLogger("releaf.service.access")


def configure(format: str = "json", *, level: str = "INFO", stream: TextIO | None = None) -> None:  # noqa: A002
    """Send all logs of this process, uvicorn's too, to stderr. Run uvicorn with ``log_config=None``.

    Parameters
    ----------
    format
        "json" for programs, or "text" for people.
    level
        Lowest level that is logged; "DEBUG" logs every request.
    stream
        Stream to write to, instead of stderr.
    """
    if format not in FORMATS:
        raise ValueError(f"format is {format!r}: expected one of {', '.join(FORMATS)}")
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in UVICORN:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True
    logging.getLogger("uvicorn.access").disabled = True  # log_response logs more fields, of fewer requests


def log_response(
    operation: str,
    method: str,
    path: str,
    status: int,
    seconds: float,
    *,
    client: str = "",
    key: str = "",
    request_id: str = "",
) -> None:
    """Log a request that failed or was slow; at level DEBUG, every request.

    Parameters
    ----------
    operation, method, path
        Of the request; the path without its query.
    status, seconds
        Of the response.
    client
        Address that the request came from.
    key
        Public id of the API key.
    request_id
        Id of the request, which its response has as well.
    """
    noteworthy = status >= 400 or seconds > SLOW_REQUEST
    if not noteworthy and not access_log.isEnabledFor(logging.DEBUG):
        return
    level = logging.ERROR if status >= 500 else logging.INFO if noteworthy else logging.DEBUG
    fields = {"operation": operation, "status": status, "milliseconds": round(seconds * 1000, 3)}
    sender = {"client": client, "key_id": key, "request_id": request_id}
    access_log.log(level, "%s %s", method[:20], path[:MAX_PATH], extra={**fields, **sender})


def mask(text: str) -> str:
    """Mask keys, passwords and cookies in a text.

    >>> mask("rlf_Ab12Cd34_s3cret came to postgresql://releaf:hunter2@db/releaf")
    'rlf_Ab12Cd34_*** came to postgresql://releaf:***@db/releaf'
    """
    for index, pattern in enumerate(SECRETS):
        text = pattern.sub(rf"\1_{HIDDEN}" if index == 0 else rf"\1{HIDDEN}", text)
    return text


def mask_value(value: Any) -> Any:
    """Convert a log field to plain data with secrets masked; a (name, value) pair counts as a field of that name."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else str(value)  # JSON has no infinity
    if isinstance(value, bytes):
        return mask(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, Mapping):
        return {mask(str(name)): _field(name, entry) for name, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        entries = list(value)
        if len(entries) == 2 and isinstance(entries[0], str | bytes):
            return [mask_value(entries[0]), _field(entries[0], entries[1])]
        return [mask_value(entry) for entry in entries]
    return mask(str(value))


def _field(name: object, value: Any) -> Any:
    plain = name.decode("latin-1") if isinstance(name, bytes) else str(name)
    return HIDDEN if plain.lower() in SECRET_FIELDS else mask_value(value)


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: time, level, logger, event, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": format_timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": mask(record.getMessage()),
        }
        for name, value in _fields(record).items():
            line[f"{name}_" if name in line else name] = value
        if record.exc_info:
            line["exception"] = mask(self.formatException(record.exc_info))
        if record.stack_info:
            line["stack"] = mask(self.formatStack(record.stack_info))
        return json.dumps(line)


class TextFormatter(logging.Formatter):
    """Formats a record for people: time, level, event and fields on one line, an exception below it."""

    def format(self, record: logging.LogRecord) -> str:
        line = (
            f"{format_timestamp(record.created)} {record.levelname.lower():<8} {_one_line(mask(record.getMessage()))}"
        )
        for name, value in _fields(record).items():
            line += f"  {name}={_one_line(str(value))}"
        if record.exc_info:
            line += "\n" + mask(self.formatException(record.exc_info))
        if record.stack_info:
            line += "\n" + mask(self.formatStack(record.stack_info))
        return line


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Fields passed as ``extra``, without empty texts and without private fields of other packages (``_name``)."""
    extra = {name: value for name, value in vars(record).items() if name not in STANDARD and name[0] != "_"}
    return {name: _field(name, value) for name, value in extra.items() if value != ""}


def _one_line(text: str) -> str:
    """Escape control characters, so that text from a client can't forge another log line, or reorder this one."""
    return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
