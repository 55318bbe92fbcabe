"""Allowed hosts and origins: protection against DNS rebinding and cross-site requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple

from releaf.service.auth.session_cookies import is_https
from releaf.service.errors import ApiError
from releaf.service.settings import LOOPBACK, ServiceSettings

OWN_SITES = (None, b"same-origin", b"none")  # none: typed by a person
WILDCARDS = ("", "0.0.0.0", "::")  # noqa: S104  (compared with, not bound to)
MAX_REMEMBERED = 256
AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?")


class Authority(NamedTuple):
    """A host name or address, and a port if one is given."""

    host: str
    port: int | None


def parse_authority(text: str) -> Authority | None:
    """Parse a ``Host`` header or the authority of an origin, to lower case, IPv6 without brackets; None if invalid.

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


class AllowedHosts:
    """The host names that the service accepts in the ``Host`` header.

    A page elsewhere can make its own name resolve to our address (DNS rebinding) and would then share our origin; but
    the browser keeps sending that name as the ``Host``. Ports are not compared: tunnels and containers map them, and a
    page can't choose another port than the one it reaches.

    Parameters
    ----------
    settings
        Bound to loopback, all loopback names are allowed. Bound to all addresses, any numeric address is, because DNS
        has no part in it. ``settings.hosts`` are further names; one with a port is allowed for that port only.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        everywhere = settings.host in WILDCARDS
        own = [*LOOPBACK] if settings.is_local or everywhere else [settings.host]
        self._any_address = everywhere
        self._names = {_parse_setting(name) for name in (*own, *settings.hosts)}
        self._accepted: set[bytes] = set()  # cache of accepted headers

    def check(self, header: bytes | None) -> None:
        """Raise an error unless a ``Host`` header names this service."""
        if header in self._accepted:
            return
        if not header:
            raise ApiError(400, "host_missing", "the request has no Host header")
        requested = parse_authority(header.decode("latin-1"))
        if requested is None:
            raise ApiError(400, "host_malformed", f"the Host header is {_quote(header)}: expected a name and a port")
        if not self._is_own(requested):
            hint = "allow further names with releaf serve --name"
            raise ApiError(
                403, "host_foreign", f"the Host header names {requested.host}, which is not this service; {hint}"
            )
        if len(self._accepted) < MAX_REMEMBERED:
            self._accepted.add(header)

    def _is_own(self, requested: Authority) -> bool:
        if requested in self._names or Authority(requested.host, None) in self._names:
            return True
        return self._any_address and _is_address(requested.host)


def check_origin(headers: Mapping[bytes, bytes], scope: Mapping[str, Any]) -> None:
    """Reject requests from pages of other sites: browsers send their origin, other programs need not."""
    if headers.get(b"sec-fetch-site") not in OWN_SITES:
        raise ApiError(403, "origin_foreign", "the request comes from a page of another site")
    origin = headers.get(b"origin")
    if origin is not None and not _is_own_origin(origin, headers[b"host"], scope):
        raise ApiError(403, "origin_foreign", f"the Origin header is {_quote(origin)}, which is not this service")


def _is_own_origin(origin: bytes, host: bytes, scope: Mapping[str, Any]) -> bool:
    """Whether the page has the host and port of the request; behind a proxy that ends TLS, its scheme is https."""
    scheme, _, rest = origin.decode("latin-1").lower().partition("://")
    if scheme != "https" and (scheme != "http" or is_https(scope)):
        return False
    page, requested = parse_authority(rest), parse_authority(host.decode("latin-1"))
    if page is None or requested is None:
        return False
    default_port = 443 if scheme == "https" else 80
    return (page.host, page.port or default_port) == (requested.host, requested.port or default_port)


def _parse_setting(text: str) -> Authority:
    plain = f"[{text}]" if text.count(":") > 1 and not text.startswith("[") else text
    name = parse_authority(plain)
    if name is None:
        raise ValueError(f"hosts has {text!r}: expected a name or an address, with a port or without")
    return name


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _quote(header: bytes) -> str:
    return repr(header[:100].decode("latin-1"))
