"""Sessions of the dashboard: a person shows a key once, and a cookie stands for it from then on."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from releaf.service.auth.api_keys import Identity, Keyring, digest_of

COOKIE = "releaf_session"
LIFETIME = 12 * 3600  # seconds
MOST_SESSIONS = 1_000
_COOKIE_START = f"{COOKIE}=".encode()


class Session(NamedTuple):
    """Which key a session stands for, and when it ends."""

    key: str
    ends: float


class Sessions:
    """Sessions in memory, by the hash of their token; a restart of the service ends them all.

    A session is worth as much as its key is now: it ends when the key is revoked, after 12 hours, with
    :meth:`end`, and, the oldest first, when there are too many.

    Parameters
    ----------
    keyring
        The keys that are valid now.
    clock
        Seconds that only go forward.
    most
        How many sessions there may be at a time.
    """

    def __init__(
        self, keyring: Keyring, *, clock: Callable[[], float] = time.monotonic, most: int = MOST_SESSIONS
    ) -> None:
        self._keyring, self._clock, self._most = keyring, clock, most
        self._sessions: dict[bytes, Session] = {}  # all live equally long, so the first ends first

    def __len__(self) -> int:
        return len(self._sessions)

    def start(self, identity: Identity) -> str:
        """Start a session of a key; returns its token, for :func:`session_cookie`."""
        now = self._clock()
        while self._sessions:
            oldest, session = next(iter(self._sessions.items()))
            if session.ends > now and len(self._sessions) < self._most:
                break
            del self._sessions[oldest]
        token = secrets.token_urlsafe(32)
        self._sessions[digest_of(token.encode())] = Session(identity.id, now + LIFETIME)
        return token

    def find(self, token: bytes) -> Identity | None:
        """Whose session it is; None where it has ended or never was.

        Tokens are looked up by their hash, so the time this takes tells nothing of the tokens there are.
        """
        digest = digest_of(token)
        session = self._sessions.get(digest)
        if session is None:
            return None
        identity = self._keyring.find(session.key)
        if identity is None or session.ends <= self._clock():
            del self._sessions[digest]
            return None
        return identity

    def end(self, token: bytes | None) -> None:
        """End a session, if there is one."""
        if token is not None:
            self._sessions.pop(digest_of(token), None)


def session_token(cookies: bytes | None) -> bytes | None:
    """The session's token in a ``Cookie`` header."""
    if cookies is None or _COOKIE_START not in cookies:
        return None
    for cookie in cookies.split(b";"):
        cookie = cookie.strip()
        if cookie.startswith(_COOKIE_START):
            return cookie[len(_COOKIE_START) :]
    return None


def session_cookie(token: str, *, secure: bool) -> str:
    """The ``Set-Cookie`` header that starts a session in the browser."""
    return f"{COOKIE}={token}; Max-Age={LIFETIME}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"


def no_cookie(*, secure: bool) -> str:
    """The ``Set-Cookie`` header that removes the cookie from the browser."""
    return f"{COOKIE}=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"


def came_by_https(scope: Mapping[str, Any]) -> bool:
    """Whether the browser spoke https: to this process, or to a proxy that says so in ``X-Forwarded-Proto``.

    The header is believed from anyone, since it only makes things stricter: whoever invents it gets a cookie that
    their own browser sends over https alone. What lies behind a proxy that ends TLS without the header is served
    cookies without ``Secure``.
    """
    if scope.get("scheme") == "https":
        return True
    for name, value in scope["headers"]:
        if name == b"x-forwarded-proto":
            return bool(value.split(b",")[0].strip().lower() == b"https")
    return False
