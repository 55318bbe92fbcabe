"""Health, and the answers to rejected requests."""

from __future__ import annotations

from msgspec import Struct


class Health(Struct):
    """Health of the service; ``waiting`` names the experiments that it does not serve."""

    status: str
    version: str
    waiting: list[str]


class ErrorDetail(Struct):
    """An error: its status, a stable code for programs, and a message for people."""

    status: int
    code: str
    message: str


class ErrorAnswer(Struct):
    """The response to every rejected request: a problem document (RFC 9457), with the error in ``error`` as well.

    The type is ``urn:releaf:problem:`` and the error's code; the instance is the path of the request.
    """

    type: str
    title: str
    status: int
    detail: str
    instance: str
    request_id: str
    error: ErrorDetail


class LineError(Struct):
    """The answer to every rejected line."""

    error: ErrorDetail
