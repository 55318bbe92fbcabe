"""Timestamps of the API: ISO 8601, UTC, in milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime


def format_timestamp(seconds: float) -> str:
    """Format seconds since 1970.

    >>> format_timestamp(0.5)
    '1970-01-01T00:00:00.500Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
