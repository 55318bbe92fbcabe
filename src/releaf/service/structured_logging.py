"""Logs for programs (a JSON object a line) or for people (text), on stderr, without secrets.

Fields are given the way of the standard library: ``logger.info("store opened", extra={"store": address})``.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any, TextIO

SLOW = 1.0  # seconds
HIDDEN = "***"
FORMATS = ("json", "text")
SECRET_FIELDS = frozenset(
    ("authorization", "cookie", "key", "password", "proxy-authorization", "secret", "set-cookie", "token")
)
LONGEST_PATH = 300
# Each keeps what comes before the secret. Repetitions are bounded where a text made for it would take ages otherwise.
SECRETS = (
    re.compile(r"(rlf_[A-Za-z0-9]{1,16})_[A-Za-z0-9_~.+/=-]+"),
    re.compile(r"(?i)(\b(?:bearer|basic)(?: |%20)+)[A-Za-z0-9._~+/=-]+"),
    re.compile(r"(?i)(\b[a-z][a-z0-9+.-]{0,30}://[^\s:/@?#]{0,100}:)[^\s'\"]{0,300}(?=@)"),
    re.compile(r"(?i)(\bpassword['\"]?\s*[=:]\s*['\"]?)[^\s&'\"]+"),
    re.compile(r"(?i)(\b(?:set-)?cookie\b['\"]?\s*[:=,]\s*b?['\"]?)[^\r\n'\"]+"),
    re.compile(r"(releaf_session=)[^\s;,'\"]+"),
)
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}
UVICORN = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")

access_log = logging.getLogger("releaf.service.access")


def configure(format: str = "json", *, level: str = "INFO", stream: TextIO | None = None) -> None:  # noqa: A002
    """Send all logs of this process, uvicorn's too, to stderr. uvicorn itself is run with ``log_config=None``.

    Parameters
    ----------
    format
        "json", or "text" for people.
    level
        The least that is logged; "DEBUG" tells every request.
    stream
        Where to write to, instead of stderr.
    """
    if format not in FORMATS:
        raise ValueError(f"format is {format!r}, expected one of {', '.join(FORMATS)}")
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for name in UVICORN:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True
    logging.getLogger("uvicorn.access").disabled = True  # ours tell more, and less often


def log_answer(
    operation: str, method: str, path: str, status: int, seconds: float, *, client: str = "", key: str = ""
) -> None:
    """Log a request that failed or was slow; at the level of debugging, every request.

    Parameters
    ----------
    operation, method, path
        What was asked for; the path without its query.
    status, seconds
        What the answer was, and how long it took.
    client
        The address it came from.
    key
        The public id of the key.
    """
    noteworthy = status >= 400 or seconds > SLOW
    if not noteworthy and not access_log.isEnabledFor(logging.DEBUG):
        return
    level = logging.ERROR if status >= 500 else logging.INFO if noteworthy else logging.DEBUG
    fields = {"operation": operation, "status": status, "milliseconds": round(seconds * 1000, 3)}
    access_log.log(level, "%s %s", method[:20], path[:LONGEST_PATH], extra={**fields, "client": client, "key_id": key})


def mask(text: str) -> str:
    """A text with keys, passwords and cookies hidden.

    >>> mask("rlf_Ab12Cd34_s3cret came to postgresql://releaf:hunter2@db/releaf")
    'rlf_Ab12Cd34_*** came to postgresql://releaf:***@db/releaf'
    """
    for place, pattern in enumerate(SECRETS):
        text = pattern.sub(rf"\1_{HIDDEN}" if place == 0 else rf"\1{HIDDEN}", text)
    return text


def masked(value: Any) -> Any:
    """A field of a log, as plain data with secrets hidden; a pair of a secret name and a value counts as a field."""
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
            return [masked(entries[0]), _field(entries[0], entries[1])]
        return [masked(entry) for entry in entries]
    return mask(str(value))


def _field(name: object, value: Any) -> Any:
    plain = name.decode("latin-1") if isinstance(name, bytes) else str(name)
    return HIDDEN if plain.lower() in SECRET_FIELDS else masked(value)


class JsonFormatter(logging.Formatter):
    """A JSON object a line: time, level, logger, event, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        told: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": mask(record.getMessage()),
        }
        for name, value in _fields(record).items():
            told[f"{name}_" if name in told else name] = value
        if record.exc_info:
            told["exception"] = mask(self.formatException(record.exc_info))
        if record.stack_info:
            told["stack"] = mask(self.formatStack(record.stack_info))
        return json.dumps(told)


class TextFormatter(logging.Formatter):
    """A line for people: time, level, event and fields; an exception below it."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, more with an exception."""
        line = f"{_time(record)} {record.levelname.lower():<8} {_one_line(mask(record.getMessage()))}"
        for name, value in _fields(record).items():
            line += f"  {name}={_one_line(str(value))}"
        if record.exc_info:
            line += "\n" + mask(self.formatException(record.exc_info))
        if record.stack_info:
            line += "\n" + mask(self.formatStack(record.stack_info))
        return line


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What was given with ``extra``; empty texts say nothing, and what begins with _ is of other packages."""
    given = {name: value for name, value in vars(record).items() if name not in STANDARD and name[0] != "_"}
    return {name: _field(name, value) for name, value in given.items() if value != ""}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _one_line(text: str) -> str:
    """Control characters as escapes, so that what a client sends can't look like another line of the log."""
    return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
