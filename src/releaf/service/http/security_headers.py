"""Security headers of responses: for the API, for pages, and for errors."""

from __future__ import annotations

from releaf.service.errors import ApiError

Headers = tuple[tuple[bytes, bytes], ...]

JSON_HEADERS: Headers = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS: Headers = (
    *JSON_HEADERS,
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    # Not no-referrer: with that, browsers send the forms of our own pages with the Origin "null".
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)


def error_headers(error: ApiError) -> Headers:
    """Headers of an error response, besides its content type and length."""
    headers = JSON_HEADERS
    if error.status == 401:
        headers = (*headers, (b"www-authenticate", b'Bearer realm="releaf"'))
    if error.retry_after is not None:
        headers = (*headers, (b"retry-after", str(error.retry_after).encode()))
    return headers
