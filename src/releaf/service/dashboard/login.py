"""The way into the dashboard: its pages behind the guard, logging in with a key, and logging out."""

from __future__ import annotations

import logging
import string
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode

from starlette.routing import BaseRoute, Route

from releaf.service.auth.access_control import PAGE_HEADERS, Guard, answer_headers
from releaf.service.auth.session_cookies import came_by_https, no_cookie, session_cookie
from releaf.service.errors import Problem
from releaf.service.http.endpoint import Receive, Scope, Send, read_body, send_whole
from releaf.service.http.read_timeouts import Patience
from releaf.service.settings import Settings

FORM_LIMIT = 16 << 10
MOST_FIELDS = 10
log = logging.getLogger("releaf.service")


def entrance(pages: Sequence[Route], guard: Guard, settings: Settings) -> list[BaseRoute]:
    """The pages of the dashboard, behind the guard, and what lets people in and out."""
    login = next((page for page in pages if page.path == "/login"), None)
    guarded: list[BaseRoute] = [Route(page.path, Guarded(page.app, guard)) for page in pages if page is not login]
    door = Login(login.app if login else None, guard, settings)
    return [*guarded, Route("/login", Guarded(door, guard)), Route("/logout", Guarded(Logout(guard), guard))]


class Guarded:
    """A page that is only given to those who call the service by its own name."""

    def __init__(self, page: Any, guard: Guard) -> None:
        self._page, self._guard = page, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or say why not."""
        try:
            self._guard.admit(scope, public=True, counted=scope["method"] not in ("GET", "HEAD"))
            if scope["method"] not in ("GET", "HEAD") and scope["path"] not in ("/login", "/logout"):
                raise Problem(405, "method_not_allowed", "pages can only be looked at")
            await self._page(scope, receive, send)
        except ConnectionError:  # the client has gone
            return
        except Problem as problem:
            await _refuse(problem, send)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            await _refuse(Problem(500, "error", "an error of the program; its log says more"), send)


class Login:
    """Shows the page for logging in, and starts a session for whoever gives a valid key."""

    def __init__(self, page: Any, guard: Guard, settings: Settings) -> None:
        self._page, self._guard = page, guard
        self._patience = Patience(settings.read_timeout)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Show the form, or take what was written in it."""
        if scope["method"] in ("GET", "HEAD"):
            if self._page is None:
                raise Problem(404, "not_found", "there is no dashboard here")
            await self._page(scope, receive, send)
            return
        body = await read_body(receive, FORM_LIMIT, self._patience)
        form = _read_form(body)
        key, wanted = (form.get(name, [""])[0] for name in ("key", "next"))
        then = wanted if _is_local(wanted) else "/"
        try:
            token = self._guard.log_in(scope, key)
        except Problem as problem:
            if problem.status != 401:
                raise
            await _redirect(send, f"/login?{urlencode({'failed': '1', 'next': then})}")
            return
        await _redirect(send, then, session_cookie(token, secure=came_by_https(scope)))


class Logout:
    """Ends a session."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Only by POST, which the guard takes from our own pages alone."""
        if scope["method"] != "POST":
            raise Problem(405, "method_not_allowed", "expected POST")
        self._guard.log_out(scope)
        await _redirect(send, "/login", no_cookie(secure=came_by_https(scope)))


def _read_form(body: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(body.decode("utf-8", "replace"), max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Problem(400, "form", f"the form can't be read: expected at most {MOST_FIELDS} fields") from None


def _is_local(path: str) -> bool:
    """Whether it leads to a page of ours: two slashes of either kind lead to another host.

    Browsers leave out tabs and the like; other programs on the way may decode what is percent-encoded.
    """
    plain = unquote(path)
    if not (path.isascii() and path.isprintable() and plain.isprintable()):
        return False
    return path.startswith("/") and not plain.startswith(("//", "/\\"))


async def _refuse(problem: Problem, send: Send) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *PAGE_HEADERS, *answer_headers(problem)]
    await send_whole(send, problem.status, problem.message.encode(), list(dict(headers).items()))


async def _redirect(send: Send, to: str, cookie: str | None = None) -> None:
    place = quote(to, safe=string.punctuation).encode()  # leaving a character out could make two slashes meet
    headers = [*PAGE_HEADERS, (b"location", place)]
    if cookie is not None:
        headers.append((b"set-cookie", cookie.encode()))
    await send_whole(send, 303, b"", headers)
