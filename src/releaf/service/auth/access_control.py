"""Who may come in: hosts, origins, keys, sessions and rates, checked before a request is looked at any further."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple

from releaf.service.auth.api_keys import EVERYONE, NOBODY, Identity, Keyring
from releaf.service.auth.rate_limiter import RateLimit, neighbourhood
from releaf.service.auth.session_cookies import Sessions, came_by_https, session_token
from releaf.service.errors import Problem
from releaf.service.settings import LOOPBACK, Settings

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
    # Not no-referrer: with that, browsers send forms of our own pages with the Origin "null".
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)

SAFE_METHODS = frozenset(("GET", "HEAD"))
OWN_SITES = (None, b"same-origin", b"none")  # none: typed by a person
ONCE = (b"host", b"authorization", b"origin", b"cookie", b"sec-fetch-site")
WILDCARDS = ("", "0.0.0.0", "::")  # noqa: S104  (compared with, not bound to)
FAILURES_A_SECOND, FAILURES_AT_ONCE = 1.0, 20.0
MOST_REMEMBERED = 256
AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?")


class Authority(NamedTuple):
    """What a service is called by: a name or an address, and a port if one is given."""

    host: str
    port: int | None


def parse_authority(text: str) -> Authority | None:
    """The name and port of a ``Host`` header or an origin, in lower case, IPv6 without brackets; None if it is none.

    >>> parse_authority("LocalHost:8000"), parse_authority("[::1]")
    (Authority(host='localhost', port=8000), Authority(host='::1', port=None))
    """
    match = AUTHORITY.fullmatch(text.lower())
    if match is None:
        return None
    host, port = match[1], None if match[2] is None else int(match[2])
    if port is not None and not 0 < port < 65_536:
        return None
    if host.startswith("["):
        try:
            host = ip_address(host[1:-1]).compressed
        except ValueError:
            return None
    return Authority(host.removesuffix("."), port)


class Guard:
    """Lets requests in, or raises a problem.

    Parameters
    ----------
    settings
        Where the service listens, by which names it may be called, whether keys are needed, the rate limit.
    keyring
        The keys that are valid now.
    sessions
        The sessions of the dashboard.
    clock
        Seconds that only go forward.
    """

    def __init__(
        self, settings: Settings, keyring: Keyring, sessions: Sessions, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._keyring, self._sessions = keyring, sessions
        self._needs_keys = settings.needs_keys
        self._hosts = OwnHosts(settings)
        self._requests = RateLimit(settings.rate_limit, clock=clock)
        self._failures = RateLimit(
            FAILURES_A_SECOND if settings.rate_limit else 0.0, burst=FAILURES_AT_ONCE, what="wrong keys", clock=clock
        )

    def admit(self, scope: Mapping[str, Any], *, public: bool = False, counted: bool = True) -> Identity:
        """Who sends a request, given as an ASGI scope; a problem where it must not come in.

        Parameters
        ----------
        scope
            The ASGI scope of an http request.
        public
            Open to all (health, the page for logging in): no key is asked for, none is looked at, and the identity
            is one that may do nothing else.
        counted
            Whether it counts against the rate; a page of the dashboard consists of many files.
        """
        headers = _fields(scope["headers"])
        self._hosts.check(headers.get(b"host"))
        if scope["method"] not in SAFE_METHODS:
            _check_origin(headers, scope)
        identity = NOBODY if public else self._identify(headers, scope)
        if counted:
            self._requests.take(identity.id or client_of(scope))
        return identity

    def log_in(self, scope: Mapping[str, Any], key: str) -> str:
        """Start a session for a person who shows a key; returns its token. Wrong keys count against the address."""
        try:
            return self._sessions.start(self._keyring.identify(b"Bearer " + key.strip().encode("utf-8", "replace")))
        except Problem:
            self._failures.take(client_of(scope))
            raise

    def knows(self, identity: Identity, scope: Mapping[str, Any]) -> bool:
        """Whether who was admitted some time ago still would be: a key may be revoked, a session ended since."""
        if not identity.id:
            return not self._needs_keys
        headers = _fields(scope["headers"])
        token = None if b"authorization" in headers else session_token(headers.get(b"cookie"))
        if token is not None:
            return self._sessions.find(token) is not None
        return self._keyring.find(identity.id) is not None

    def log_out(self, scope: Mapping[str, Any]) -> None:
        """End the session of a request, if it has one."""
        self._sessions.end(session_token(_fields(scope["headers"]).get(b"cookie")))

    def _identify(self, headers: dict[bytes, bytes], scope: Mapping[str, Any]) -> Identity:
        authorization, refused = headers.get(b"authorization"), self._failures
        if authorization is None:
            token = session_token(headers.get(b"cookie"))
            known = None if token is None else self._sessions.find(token)
            if known is not None:
                return known
            if not self._needs_keys:
                return EVERYONE
            refused = self._requests  # nothing was guessed; a page whose session has ended asks like this
        try:
            return self._keyring.identify(authorization)
        except Problem:
            # Who has the right key comes in all the same: others may share the address, and 256 bits aren't guessed.
            refused.take(client_of(scope))
            raise


class OwnHosts:
    """The names by which the service may be called.

    A page elsewhere can have its own name answered with our address (DNS rebinding) and would then share our origin;
    but the browser goes on sending that name as the ``Host``. Ports are not compared: tunnels and containers map
    them, and a page can't choose another than the one it reaches.

    Parameters
    ----------
    settings
        Bound to loopback, all of its names are ours. Bound to all addresses, any address in figures is, which DNS
        has no say in. ``settings.hosts`` are further names; with a port, for that port only.
    """

    def __init__(self, settings: Settings) -> None:
        everywhere = settings.host in WILDCARDS
        own = [*LOOPBACK] if settings.is_local or everywhere else [settings.host]
        self._any_address = everywhere
        self._names = {_own_name(name) for name in (*own, *settings.hosts)}
        self._seen: set[bytes] = set()  # headers that were found right, which most are

    def check(self, header: bytes | None) -> None:
        """Raise a problem unless a ``Host`` header names this service."""
        if header in self._seen:
            return
        if not header:
            raise Problem(400, "host_missing", "the request has no Host header")
        called = parse_authority(header.decode("latin-1"))
        if called is None:
            raise Problem(400, "host_malformed", f"the Host header is {_shown(header)}, expected a name and a port")
        if not self._is_own(called):
            hint = "a name it may be called by is given to it when it is started"
            raise Problem(
                403, "host_foreign", f"the Host header names {called.host}, which is not this service; {hint}"
            )
        if len(self._seen) < MOST_REMEMBERED:
            self._seen.add(header)

    def _is_own(self, called: Authority) -> bool:
        if called in self._names or Authority(called.host, None) in self._names:
            return True
        return self._any_address and _is_address(called.host)


def client_of(scope: Mapping[str, Any]) -> str:
    """The address that limits go by."""
    client = scope.get("client")
    return neighbourhood(client[0]) if client else ""


def answer_headers(problem: Problem) -> Headers:
    """The headers of an answer that tells of a problem, besides its content type and length."""
    headers = JSON_HEADERS
    if problem.status == 401:
        headers = (*headers, (b"www-authenticate", b'Bearer realm="releaf"'))
    if problem.retry_after is not None:
        headers = (*headers, (b"retry-after", str(problem.retry_after).encode()))
    return headers


def _fields(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    fields = dict(headers)
    if len(fields) != len(headers):  # two of a kind: another program on the way may have gone by the other one
        names = [name for name, _ in headers]
        for name in ONCE:
            if names.count(name) > 1:
                raise Problem(400, "header_twice", f"the request has two {name.decode().title()} headers")
    return fields


def _check_origin(headers: dict[bytes, bytes], scope: Mapping[str, Any]) -> None:
    """Refuse what pages elsewhere send: browsers tell where a request comes from, other programs need not."""
    if headers.get(b"sec-fetch-site") not in OWN_SITES:
        raise Problem(403, "origin_foreign", "the request comes from a page of another site")
    origin = headers.get(b"origin")
    if origin is not None and not _is_own_origin(origin, headers[b"host"], scope):
        raise Problem(403, "origin_foreign", f"the Origin header is {_shown(origin)}, which is not this service")


def _is_own_origin(origin: bytes, host: bytes, scope: Mapping[str, Any]) -> bool:
    """Whether a page of the very host and port that is called sent this; behind a proxy that ends TLS, by https."""
    scheme, _, rest = origin.decode("latin-1").lower().partition("://")
    if scheme != "https" and (scheme != "http" or came_by_https(scope)):
        return False
    page, called = parse_authority(rest), parse_authority(host.decode("latin-1"))
    if page is None or called is None:
        return False
    usual = 443 if scheme == "https" else 80
    return (page.host, page.port or usual) == (called.host, called.port or usual)


def _own_name(text: str) -> Authority:
    plain = f"[{text}]" if text.count(":") > 1 and not text.startswith("[") else text
    name = parse_authority(plain)
    if name is None:
        raise ValueError(f"hosts has {text!r}, expected a name or an address, with a port or without")
    return name


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _shown(header: bytes) -> str:
    return repr(header[:100].decode("latin-1"))
