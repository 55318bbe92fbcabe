"""Error responses as problem documents (RFC 9457), which name the request by its id."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from releaf.service.errors import ApiError
from releaf.service.http.security_headers import Headers, error_headers
from releaf.service.messages import ErrorAnswer, ErrorDetail

PROBLEM_JSON = b"application/problem+json"
MAX_PATH = 300  # characters of the path in a problem document
_encode = msgspec.json.Encoder().encode


class ErrorFormat(NamedTuple):
    """How error responses of an operation look: their message, media type, and how they are made."""

    message: Any
    media: bytes
    adapt: Callable[[ApiError], ApiError]
    encode: Callable[[ApiError, str, str], bytes]


def problem_document(error: ApiError, path: str, request_id: str) -> bytes:
    """The body of an error response.

    Parameters
    ----------
    error
        What is wrong.
    path
        Of the request, decoded and without its query.
    request_id
        Id of the request, as in its ``X-Request-ID`` header.
    """
    answer = ErrorAnswer(
        type=f"urn:releaf:problem:{error.code}",
        title=HTTPStatus(error.status).phrase,
        status=error.status,
        detail=error.message,
        instance=quote(path[:MAX_PATH], errors="replace"),
        request_id=request_id,
        error=ErrorDetail(error.status, error.code, error.message),
    )
    return _encode(answer)


PROBLEM = ErrorFormat(ErrorAnswer, PROBLEM_JSON, lambda error: error, problem_document)


def problem_headers(error: ApiError, media: bytes = PROBLEM_JSON) -> list[tuple[bytes, bytes]]:
    """Headers of an error response, besides its length and the id of the request."""
    return [(b"content-type", media), *error_headers(error)]


def raw_problem(error: ApiError, request_id: str) -> bytes:
    """A whole response, for a connection that is closed before the application gets a request."""
    content = problem_document(error, "", request_id)
    headers: Headers = (
        *problem_headers(error),
        (b"x-request-id", request_id.encode()),
        (b"connection", b"close"),
        (b"content-length", str(len(content)).encode()),
    )
    lines = [b"HTTP/1.1 %d %s" % (error.status, HTTPStatus(error.status).phrase.encode())]
    lines += [b"%s: %s" % header for header in headers]
    return b"\r\n".join([*lines, b"", content])
