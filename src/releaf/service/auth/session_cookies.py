"""Session cookies of the dashboard: a person logs in with an API key once, then a cookie identifies the session."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from releaf.service.auth.api_keys import Identity, Keyring, hash_secret

COOKIE = "releaf_session"
LIFETIME = 12 * 3600  # seconds
MAX_SESSIONS = 1_000
_COOKIE_START = f"{COOKIE}=".encode()


class Session(NamedTuple):
    """The key of a session, and when the session ends."""

    key: str
    ends: float


class Sessions:
    """Sessions in memory, by the hash of their token; a restart of the service ends all of them.

    A session has the current scopes of its key. It ends when the key is revoked, after 12 hours, with :meth:`end`, and,
    the oldest first, when there are too many.

    Parameters
    ----------
    keyring
        The valid keys.
    clock
        Monotonic time in seconds.
    max_sessions
        Largest number of sessions.
    """

    def __init__(
        self, keyring: Keyring, *, clock: Callable[[], float] = time.monotonic, max_sessions: int = MAX_SESSIONS
    ) -> None:
        self._keyring, self._clock, self._max_sessions = keyring, clock, max_sessions
        self._sessions: dict[bytes, Session] = {}  # in order of their end

    def __len__(self) -> int:
        return len(self._sessions)

    def start(self, identity: Identity) -> str:
        """Start a session of a key; return its token, for :func:`session_cookie`."""
        now = self._clock()
        while self._sessions:
            oldest, session = next(iter(self._sessions.items()))
            if session.ends > now and len(self._sessions) < self._max_sessions:
                break
            del self._sessions[oldest]
        token = secrets.token_urlsafe(32)
        self._sessions[hash_secret(token.encode())] = Session(identity.id, now + LIFETIME)
        return token

    def find(self, token: bytes) -> Identity | None:
        """Identity of a session; None if it has ended or never existed.

        The lookup is by hash, so that its duration reveals nothing about existing tokens.
        """
        digest = hash_secret(token)
        session = self._sessions.get(digest)
        if session is None:
            return None
        identity = self._keyring.find(session.key)
        if identity is None or session.ends <= self._clock():
            del self._sessions[digest]
            return None
        return identity

    def end(self, token: bytes | None) -> None:
        if token is not None:
            self._sessions.pop(hash_secret(token), None)


def session_token(cookies: bytes | None) -> bytes | None:
    """The session token in a ``Cookie`` header."""
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


def expired_cookie(*, secure: bool) -> str:
    """The ``Set-Cookie`` header that removes the cookie from the browser."""
    return f"{COOKIE}=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"


def is_https(scope: Mapping[str, Any]) -> bool:
    """Whether the browser used https: to this process, or to a trusted proxy that says so (see `TrustedProxies`)."""
    return bool(scope.get("scheme") == "https")
