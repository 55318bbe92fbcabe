"""Log-in to the dashboard: its pages with access control, log-in with an API key, and log-out."""

from __future__ import annotations

import logging
import string
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode

from starlette.routing import BaseRoute, Route

from releaf.service.auth.access_control import AccessControl
from releaf.service.auth.session_cookies import expired_cookie, is_https, session_cookie
from releaf.service.errors import ApiError
from releaf.service.http.asgi import Receive, Scope, Send, read_body, send_response
from releaf.service.http.endpoint import INTERNAL_ERROR
from releaf.service.http.security_headers import PAGE_HEADERS, error_headers
from releaf.service.http.task_timeouts import TaskTimeout
from releaf.service.settings import ServiceSettings

FORM_LIMIT = 16 << 10
MAX_FIELDS = 10
log = logging.getLogger("releaf.service")


def protected_routes(pages: Sequence[Route], access: AccessControl, settings: ServiceSettings) -> list[BaseRoute]:
    """Routes of the dashboard's pages with access control, and of log-in and log-out."""
    login = next((page for page in pages if page.path == "/login"), None)
    protected: list[BaseRoute] = [
        Route(page.path, ProtectedPage(page.app, access)) for page in pages if page is not login
    ]
    log_in, log_out = Login(login.app if login else None, access, settings), Logout(access)
    return [
        *protected,
        Route("/login", ProtectedPage(log_in, access)),
        Route("/logout", ProtectedPage(log_out, access)),
    ]


class ProtectedPage:
    """A page with access control: allowed hosts and origins, but no key, because pages hold no data."""

    def __init__(self, page: Any, access: AccessControl) -> None:
        self._page, self._access = page, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the page, or an error."""
        try:
            self._access.admit(scope, public=True, counted=scope["method"] not in ("GET", "HEAD"))
            if scope["method"] not in ("GET", "HEAD") and scope["path"] not in ("/login", "/logout"):
                raise ApiError(405, "method_not_allowed", f"the method is {scope['method']}: expected GET or HEAD")
            await self._page(scope, receive, send)
        except ConnectionError:  # the client has disconnected
            return
        except ApiError as error:
            await _send_error(error, send)
        except Exception:
            request_id = {"request_id": scope["request_id"]}
            log.exception("%s %s failed", scope["method"], scope["path"], extra=request_id)
            await _send_error(INTERNAL_ERROR, send)


class Login:
    """Serves the log-in page, and starts a session for a valid key."""

    def __init__(self, page: Any, access: AccessControl, settings: ServiceSettings) -> None:
        self._page, self._access = page, access
        self._timeout = TaskTimeout(settings.read_timeout)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the form, or process it."""
        if scope["method"] in ("GET", "HEAD"):
            if self._page is None:
                raise ApiError(404, "not_found", "this service has no dashboard")
            await self._page(scope, receive, send)
            return
        body = await read_body(receive, FORM_LIMIT, self._timeout)
        form = _read_form(body)
        key, requested = (form.get(name, [""])[0] for name in ("key", "next"))
        target = requested if _is_local(requested) else "/"
        try:
            token = self._access.log_in(scope, key)
        except ApiError as error:
            if error.status != 401:
                raise
            await _redirect(send, f"/login?{urlencode({'failed': '1', 'next': target})}")
            return
        await _redirect(send, target, session_cookie(token, secure=is_https(scope)))


class Logout:
    """Ends a session."""

    def __init__(self, access: AccessControl) -> None:
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """End the session of a POST request, which access control allows from our own pages only."""
        if scope["method"] != "POST":
            raise ApiError(405, "method_not_allowed", "expected POST")
        self._access.log_out(scope)
        await _redirect(send, "/login", expired_cookie(secure=is_https(scope)))


def _read_form(body: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(body.decode("utf-8", "replace"), max_num_fields=MAX_FIELDS)
    except ValueError:
        raise ApiError(400, "form", f"the form is invalid: expected at most {MAX_FIELDS} fields") from None


def _is_local(path: str) -> bool:
    """Whether a path leads to our own pages: two slashes or backslashes at its start lead to another host.

    Browsers drop tabs and other control characters; proxies may decode percent-encoded characters.
    """
    plain = unquote(path)
    if not (path.isascii() and path.isprintable() and plain.isprintable()):
        return False
    return path.startswith("/") and not plain.startswith(("//", "/\\"))


async def _send_error(error: ApiError, send: Send) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *PAGE_HEADERS, *error_headers(error)]
    await send_response(send, error.status, error.message.encode(), list(dict(headers).items()))


async def _redirect(send: Send, to: str, cookie: str | None = None) -> None:
    location = quote(to, safe=string.punctuation).encode()  # to drop a character could join two slashes
    headers = [*PAGE_HEADERS, (b"location", location)]
    if cookie is not None:
        headers.append((b"set-cookie", cookie.encode()))
    await send_response(send, 303, b"", headers)
