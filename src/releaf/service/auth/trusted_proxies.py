"""Trusted proxies: the only peers whose ``X-Forwarded-For`` and ``X-Forwarded-Proto`` headers the service believes."""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from releaf.service.settings import parse_network

WITH_PORT = re.compile(r"\[(?P<v6>[^\]]*)\](?::\d+)?|(?P<v4>[0-9.]+):\d+")
MAX_HOPS = 50  # of a header that are read


class TrustedProxies:
    """Networks of proxies; it replaces the address and scheme of their requests by those of the client.

    Each proxy appends the address of its own peer to ``X-Forwarded-For``, so the client is the last address in it that
    is no trusted proxy. What stands before it was sent by the client and may be forged.

    Parameters
    ----------
    networks
        Addresses and networks, such as ``10.0.0.7`` and ``10.1.0.0/16``.
    """

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [parse_network(text) for text in networks]
        self.contains = lru_cache(maxsize=4096)(self._contains)

    def _contains(self, address: str) -> bool:
        """Whether an address is that of a trusted proxy."""
        known = _parse_address(address)
        return known is not None and any(known in network for network in self._networks)

    def resolve_client(self, scope: MutableMapping[str, Any]) -> None:
        """Set the client and scheme of a request to what a trusted proxy says; ignore the headers of others."""
        peer = scope.get("client")
        if not self._networks or not peer or not self.contains(peer[0]):
            return
        forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
        scope["client"] = (self._client(peer[0], b",".join(forwarded).decode("latin-1")), 0)
        protocols = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
        if protocols:  # the first is the browser's; a forged one does harm to its own cookie only
            scheme = protocols[0].split(b",")[0].strip().lower()
            scope["scheme"] = "https" if scheme == b"https" else "http"

    def _client(self, peer: str, forwarded: str) -> str:
        client = peer
        for entry in reversed(forwarded.split(",")[-MAX_HOPS:]):
            address = _parse_address(_without_port(entry.strip()))
            if address is None:
                break
            client = str(address)
            if not self.contains(client):
                break
        return client


def _without_port(entry: str) -> str:
    match = WITH_PORT.fullmatch(entry)
    return (match["v6"] or match["v4"]) if match else entry


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """An address, IPv4 if it is one in the form of IPv6; None if it is none."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
