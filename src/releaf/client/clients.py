"""The clients: `Client` and `AsyncClient` share everything but their transport."""

from __future__ import annotations

from typing import Self

from releaf.client.api_methods import ApiMethods
from releaf.client.transports import ASYNC, BLOCKING


class Client(ApiMethods):
    """A thread-safe client of a decision service.

    If the connection breaks or the service is unavailable, the client retries with growing pauses for ``retry_for``
    seconds. Retries are idempotent: nothing happens twice. Changes of an experiment are retried only if they can't have
    arrived. A rejected request raises a :class:`ServiceError`.

    Parameters
    ----------
    url
        URL of the service; by default the environment variable ``RELEAF_URL``, or ``http://127.0.0.1:8000``.
    key
        API key; by default the environment variable ``RELEAF_KEY``.
    timeout
        Time-out of one attempt, in seconds.
    retry_for
        Seconds for which a call is retried; 0 for a single attempt.

    Examples
    --------
    .. code-block:: python

        with Client("http://127.0.0.1:8000") as client:
            decision = client.decide("triage", {"age": 31, "pulse": 80})
            if decision.wants_reward:
                client.reward("triage", decision, 1.0)
    """

    _transport = BLOCKING

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


class AsyncClient(ApiMethods):
    """A client for asyncio, with the parameters and methods of :class:`Client`.

    Its methods are coroutines, and its iterators are asynchronous.

    Examples
    --------
    .. code-block:: python

        async with AsyncClient() as client:
            decision = await client.decide("triage", {"age": 31, "pulse": 80})
            async for answer in client.decide_stream("triage", contexts):
                ...
    """

    _transport = ASYNC

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self.close()
