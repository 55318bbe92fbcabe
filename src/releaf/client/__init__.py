"""Clients of a decision service: :class:`Client`, and :class:`AsyncClient` for asyncio.

>>> from releaf.client import Client
>>> client = Client("http://127.0.0.1:8000")
>>> client
Client('http://127.0.0.1:8000')
>>> client.close()
"""

from releaf.client.circuit_breaker import CircuitBreaker
from releaf.client.clients import AsyncClient, Client
from releaf.client.responses import Conflict, Decision, Event, PolicyVersion, ServiceError, Unavailable

__all__ = [
    "AsyncClient",
    "CircuitBreaker",
    "Client",
    "Conflict",
    "Decision",
    "Event",
    "PolicyVersion",
    "ServiceError",
    "Unavailable",
]
