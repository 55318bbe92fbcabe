"""Structured logging: one JSON object per line or text, with secrets masked."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from releaf.service import structured_logging
from releaf.service.auth.api_keys import make_key
from releaf.service.auth.session_cookies import session_cookie
from releaf.service.structured_logging import configure, log_response, mask

logger = logging.getLogger("releaf.service.test")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Leave logging as it was."""
    names = ("", *structured_logging.UVICORN)
    loggers = [logging.getLogger(name) for name in names]
    before = [(each.handlers, each.level, each.propagate, each.disabled) for each in loggers]
    yield
    for each, (handlers, level, propagate, disabled) in zip(loggers, before, strict=True):
        each.handlers, each.propagate, each.disabled = handlers, propagate, disabled
        each.setLevel(level)


def written(style: str = "json", level: str = "INFO") -> io.StringIO:
    stream = io.StringIO()
    configure(style, level=level, stream=stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_a_json_object_with_time_level_logger_event_and_fields() -> None:
    stream = written()
    logger.info("store %s", "opened", extra={"pages": 3, "share": float("nan"), "path": "größe.db", "none": None})
    (told,) = lines(stream)
    assert told.pop("time").endswith("Z")
    assert told == {
        "level": "info",
        "logger": "releaf.service.test",
        "event": "store opened",
        "pages": 3,
        "share": "nan",
        "path": "größe.db",
        "none": None,
    }


def test_times_are_iso_and_utc() -> None:
    record = logging.makeLogRecord({"created": 1_700_000_000.25, "msg": "x"})
    assert json.loads(structured_logging.JsonFormatter().format(record))["time"] == "2023-11-14T22:13:20.250Z"


def test_a_field_can_not_overwrite_the_level() -> None:
    stream = written()
    logger.info("x", extra={"level": "critical", "event": "y"})
    (told,) = lines(stream)
    assert (told["level"], told["level_"], told["event"], told["event_"]) == ("info", "critical", "x", "y")


def test_an_exception_is_a_field_of_its_line() -> None:
    stream = written()
    try:
        raise RuntimeError("Bearer abc123")
    except RuntimeError:
        logger.exception("failed")
    (told,) = lines(stream)
    assert told["exception"].startswith("Traceback")
    assert told["exception"].endswith("RuntimeError: Bearer ***")


def test_the_text_format_is_readable() -> None:
    stream = written("text")
    logger.warning("store is slow", extra={"seconds": 2.5})
    assert stream.getvalue().endswith("Z warning  store is slow  seconds=2.5\n")


@pytest.mark.parametrize("style", ["json", "text"])
def test_client_input_can_not_forge_a_log_line(style: str) -> None:
    stream = written(style)
    logger.info("path %s", "/x\r\n2026 error forged\x1b[31m\u2028\udcff\u202e", extra={"agent": "a\nb\x85\u2066"})
    assert len(stream.getvalue().splitlines()) == 1
    assert stream.getvalue().isascii()
    assert "\x1b" not in stream.getvalue()


def test_an_unknown_format_is_an_error() -> None:
    with pytest.raises(ValueError, match="format is 'xml': expected one of json, text"):
        configure("xml")


# --- requests -------------------------------------------------------------------------------------------------


def test_requests_are_logged_when_they_fail_or_are_slow() -> None:
    stream = written()
    log_response("decide", "POST", "/v1/experiments/a/decide", 200, 0.9)
    assert stream.getvalue() == ""
    log_response("decide", "POST", "/v1/experiments/a/decide", 200, 1.1, client="192.0.2.7", key="Ab12Cd34")
    log_response("decide", "POST", "/v1/experiments/a/decide", 404, 0.001)
    log_response("decide", "POST", "/v1/experiments/a/decide", 503, 0.001)
    slow, missing, failed = lines(stream)
    assert [told["level"] for told in (slow, missing, failed)] == ["info", "info", "error"]
    assert (slow["milliseconds"], slow["client"], slow["key_id"]) == (1100.0, "192.0.2.7", "Ab12Cd34")
    assert (missing["event"], missing["status"]) == ("POST /v1/experiments/a/decide", 404)
    assert "client" not in missing


def test_every_request_is_logged_for_debugging() -> None:
    stream = written(level="DEBUG")
    log_response("decide", "POST", "/x", 200, 0.001)
    assert lines(stream)[0]["level"] == "debug"


def test_uvicorn_logs_in_the_same_format_without_access_lines() -> None:
    own = logging.getLogger("uvicorn")
    own.addHandler(logging.StreamHandler(io.StringIO()))
    own.propagate = False
    stream = written()
    logging.getLogger("uvicorn.error").info("Started server process [%d]", 7, extra={"color_message": "\x1b[36m"})
    logging.getLogger("uvicorn.access").info('%s - "%s"', "127.0.0.1", "GET /?key=1")
    (told,) = lines(stream)
    assert told.keys() == {"time", "level", "logger", "event"}
    assert (told["event"], told["logger"]) == ("Started server process [7]", "uvicorn.error")


def test_configuring_twice_does_not_duplicate_lines() -> None:
    written()
    stream = written()
    logger.info("once")
    assert len(lines(stream)) == 1


# --- secrets --------------------------------------------------------------------------------------------------

PUBLIC, SECRET = "Ab12Cd34", "5eCret" * 7 + "x"
PLAIN = f"rlf_{PUBLIC}_{SECRET}"
TOKEN = "s3ss10n-T0ken_abc"
COOKIE = session_cookie(TOKEN, secure=True)


@pytest.mark.parametrize(
    "message",
    [
        f"the key {PLAIN} is wrong",
        f"key={PLAIN}&x=1",
        f"'{PLAIN}'",
        f"Authorization: Bearer {PLAIN}",
        f"authorization: bearer  {SECRET}",
        f"Basic {SECRET}==",
        f"b'Bearer {SECRET}'",
        f"Bearer%20{SECRET}",
        f"postgresql://releaf:{SECRET}@db.example:5432/releaf",
        f"postgres://:{SECRET}@db",
        f"postgresql://releaf:{SECRET}@more:{SECRET}@db",
        f"postgresql://releaf:a/{SECRET}/b@db",
        f"password={SECRET} host=db",
        f"{{'password': '{SECRET}'}}",
        f"Cookie: theme=dark; releaf_session={SECRET}; x={SECRET}",
        f"Set-Cookie: releaf_session={SECRET}; Path=/",
        f"[(b'cookie', b'a={SECRET}')]",
        f'"cookie": "a={SECRET}"',
        f"releaf_session={SECRET}",
    ],
)
@pytest.mark.parametrize("style", ["json", "text"])
def test_secrets_are_masked_in_messages(message: str, style: str) -> None:
    stream = written(style)
    logger.info(message)
    logger.info("%s", message)
    logger.info("field", extra={"given": message})
    logger.info("deep", extra={"given": {"list": [message, {"x": (1, message)}], message: message.encode()}})
    try:
        raise ValueError(message)
    except ValueError:
        logger.exception("raised")
    assert SECRET not in stream.getvalue()
    assert stream.getvalue().count("***") >= 5


@pytest.mark.parametrize("name", ["authorization", "Cookie", "set-cookie", "password", "token", "secret", "key"])
def test_fields_with_a_secret_name_are_masked(name: str) -> None:
    stream = written()
    logger.info("x", extra={name: "anything"})
    logger.info("x", extra={"headers": {name: "anything"}})
    logger.info("x", extra={"headers": [(name.encode(), b"anything"), (b"accept", b"text/html")]})
    assert "anything" not in stream.getvalue()
    assert stream.getvalue().count("***") == 3
    assert "text/html" in stream.getvalue()


def test_secrets_in_a_list_of_headers_are_masked() -> None:
    stream = written()
    headers = [(b"host", b"localhost"), (b"cookie", COOKIE.encode()), (b"authorization", f"Bearer {PLAIN}".encode())]
    logger.info("refused %s", headers, extra={"headers": headers})
    assert TOKEN not in stream.getvalue()
    assert SECRET not in stream.getvalue()
    assert "localhost" in stream.getvalue()


@pytest.mark.parametrize(
    "part", ["a.", "a://", "a://:", "a:", "rlf_a_", "cookie ", "cookie: ", "password=", "Bearer ", "://b:@", "=", " "]
)
def test_masking_takes_linear_time(part: str) -> None:
    """A text 8 times as long takes about 8 times as long; quadratic time would make it 64."""
    short, long = (min(_mask_seconds(part * (size // len(part))) for _ in range(5)) for size in (25_000, 200_000))
    assert long < 30 * short


def _mask_seconds(text: str) -> float:
    started = time.process_time()
    mask(text)
    return time.process_time() - started


def test_a_long_path_is_truncated() -> None:
    stream = written()
    log_response("unknown", "GET" * 1_000, "/" + "a" * 100_000, 404, 0.001)
    assert len(stream.getvalue()) < 600


def test_generated_keys_are_masked() -> None:
    for _ in range(100):
        plain, row = make_key("desk", ["*:admin"])
        assert mask(f"({plain})") == f"(rlf_{row.id}_***)"


def test_public_ids_are_not_masked() -> None:
    assert mask(f"the key {PLAIN} is wrong") == f"the key rlf_{PUBLIC}_*** is wrong"
    assert mask("postgresql://releaf:pw@db:5432/releaf") == "postgresql://releaf:***@db:5432/releaf"
    for harmless in ("http://localhost:8000/v1", "postgresql://db:5432/releaf", "12:30 a@b", "the bearer", "cookies"):
        assert mask(harmless) == harmless
