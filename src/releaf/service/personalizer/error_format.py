"""Errors in the JSON of Personalizer's API."""

from __future__ import annotations

import msgspec

from releaf.service.errors import ApiError
from releaf.service.http.problems import ErrorFormat
from releaf.service.personalizer.messages import ErrorResponse, PersonalizerError

_CODES = {404: "ResourceNotFound", 413: "PayloadSizeExceeded"}
_AS_STATUS = (401, 403, 429)  # whose code is the status, as of the gateway before Personalizer
_encode = msgspec.json.Encoder().encode


def adapt(error: ApiError) -> ApiError:
    """The error with the status and code that Personalizer's clients know."""
    status = 400 if error.status in (409, 410, 422) else error.status
    default = "InternalServerError" if status >= 500 else "BadRequest"
    code = str(status) if status in _AS_STATUS else _CODES.get(status, default)
    return ApiError(status, code, error.message, retry_after=error.retry_after)


def encode(error: ApiError, path: str, request_id: str) -> bytes:
    """The body of an error response."""
    return _encode(ErrorResponse(PersonalizerError(error.code, error.message)))


PERSONALIZER_ERRORS = ErrorFormat(ErrorResponse, b"application/json", adapt, encode)
