"""Access control: the host, origin, key or session, and rate limit of each request, checked before its body is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from releaf.service.auth.api_keys import FULL_ACCESS, NO_ACCESS, Identity, Keyring
from releaf.service.auth.origins import AllowedHosts, check_origin
from releaf.service.auth.rate_limiter import RateLimiter, address_block
from releaf.service.auth.session_cookies import Sessions, session_token
from releaf.service.errors import ApiError
from releaf.service.settings import ServiceSettings

SAFE_METHODS = frozenset(("GET", "HEAD"))
SUBSCRIPTION_KEY = b"ocp-apim-subscription-key"  # in which clients of Personalizer send their key
SINGLE_HEADERS = (b"host", b"authorization", SUBSCRIPTION_KEY, b"origin", b"cookie", b"sec-fetch-site")
FAILURES_PER_SECOND, FAILURE_BURST = 1.0, 20.0


class AccessControl:
    """Admits requests, or raises an `ApiError`.

    Parameters
    ----------
    settings
        Address of the service, its further names, whether keys are needed, and the rate limit.
    keyring
        The valid keys.
    sessions
        The sessions of the dashboard.
    clock
        Monotonic time in seconds.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        keyring: Keyring,
        sessions: Sessions,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keyring, self._sessions = keyring, sessions
        self._needs_keys = settings.needs_keys
        self._hosts = AllowedHosts(settings)
        self._requests = RateLimiter(settings.rate_limit, clock=clock)
        self._failures = RateLimiter(
            FAILURES_PER_SECOND if settings.rate_limit else 0.0, burst=FAILURE_BURST, what="wrong keys", clock=clock
        )

    def admit(self, scope: Mapping[str, Any], *, public: bool = False, counted: bool = True) -> Identity:
        """Return the identity of a request's sender; raise an error if the request is not allowed.

        Parameters
        ----------
        scope
            The ASGI scope of an HTTP request.
        public
            Open to all (health, the log-in page): needs and reads no key, and the identity has no scopes.
        counted
            Whether the request counts against the rate limit; a page of the dashboard consists of many files.
        """
        headers = _single_headers(scope["headers"])
        self._hosts.check(headers.get(b"host"))
        if scope["method"] not in SAFE_METHODS:
            check_origin(headers, scope)
        if not self._needs_keys and not public:
            _require_direct(headers)
        identity = NO_ACCESS if public else self._identify(headers, scope)
        if counted:
            self._requests.acquire(identity.id or client_address(scope))
        return identity

    def log_in(self, scope: Mapping[str, Any], key: str) -> str:
        """Start a session for a valid key; return its token. Wrong keys count against the address."""
        try:
            return self._sessions.start(self._keyring.identify(b"Bearer " + key.strip().encode("utf-8", "replace")))
        except ApiError:
            self._failures.acquire(client_address(scope))
            raise

    def is_still_valid(self, identity: Identity, scope: Mapping[str, Any]) -> bool:
        """Whether an identity admitted earlier still is: its key may be revoked or its session ended."""
        if not identity.id:
            return not self._needs_keys
        headers = _single_headers(scope["headers"])
        token = None if self._authorization(headers) is not None else session_token(headers.get(b"cookie"))
        if token is not None:
            return self._sessions.find(token) is not None
        return self._keyring.find(identity.id) is not None

    def log_out(self, scope: Mapping[str, Any]) -> None:
        """End the session of a request, if it has one."""
        self._sessions.end(session_token(_single_headers(scope["headers"]).get(b"cookie")))

    def _authorization(self, headers: Mapping[bytes, bytes]) -> bytes | None:
        """The ``Authorization`` header of a request, or what it would be with the key in Personalizer's header.

        Clients of Personalizer always send a key. Where none is needed, one that is not of this service does no harm.
        """
        key = headers.get(SUBSCRIPTION_KEY)
        if key is None or b"authorization" in headers:
            return headers.get(b"authorization")
        is_foreign = not key.strip().startswith(b"rlf_")
        return None if is_foreign and not self._needs_keys else b"Bearer " + key.strip()

    def _identify(self, headers: dict[bytes, bytes], scope: Mapping[str, Any]) -> Identity:
        authorization, limiter = self._authorization(headers), self._failures
        if authorization is None:
            token = session_token(headers.get(b"cookie"))
            identity = None if token is None else self._sessions.find(token)
            if identity is not None:
                return identity
            if not self._needs_keys:
                return FULL_ACCESS
            limiter = self._requests  # not a wrong key; a page whose session has ended sends such requests
        try:
            return self._keyring.identify(authorization)
        except ApiError:
            # A valid key is always admitted: clients may share the address, and 256 bits can't be guessed.
            limiter.acquire(client_address(scope))
            raise


def _require_direct(headers: Mapping[bytes, bytes]) -> None:
    """Refuse a request that a proxy has forwarded: without keys, everyone who reaches the proxy could do everything."""
    for name in headers:
        if name == b"forwarded" or name.startswith(b"x-forwarded-"):
            raise ApiError(
                403,
                "forwarded",
                f"the request has a {name.decode('latin-1').title()} header, so that it comes through a proxy, and "
                "this service needs no keys: start it with --require-keys, or with the --name by which clients call it "
                "and the --trusted-proxy; then add keys with releaf keys add",
            )


def client_address(scope: Mapping[str, Any]) -> str:
    """The client's address block, to which limits apply."""
    client = scope.get("client")
    return address_block(client[0]) if client else ""


def _single_headers(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    fields = dict(headers)
    if len(fields) != len(headers):  # a proxy may have used the other one of two equal names
        names = [name for name, _ in headers]
        for name in SINGLE_HEADERS:
            if names.count(name) > 1:
                raise ApiError(400, "header_twice", f"the request has two {name.decode().title()} headers")
    return fields
