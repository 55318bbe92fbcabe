"""The clients: `Client` and `AsyncClient` share everything but their transport."""

from __future__ import annotations

from typing import Self

from releaf.client.api_methods import ApiMethods
from releaf.client.transports import ASYNC, BLOCKING


class Client(ApiMethods):
    """A thread-safe client of a decision service.

    If the connection breaks or the service is unavailable, the client retries with growing pauses for ``retry_for``
    seconds, and :meth:`decide` for ``decide_timeout`` seconds. Retries are idempotent: nothing happens twice. Changes
    of an experiment are retried only if they can't have arrived. A rejected request raises a :class:`ServiceError`.
    Threads share up to 100 connections, which stay open for 30 seconds after their last request.

    Parameters
    ----------
    url
        URL of the service; by default the environment variable ``RELEAF_URL``, or ``http://127.0.0.1:8000``.
    key
        API key; by default the environment variable ``RELEAF_KEY``.
    timeout
        Time-out of one attempt, in seconds. Methods that decide or reward take a ``timeout`` of their own, which is
        that of the whole call: all attempts and the pauses between them.
    retry_for
        Seconds for which a call is retried; 0 for a single attempt.
    decide_timeout
        Time-out of :meth:`decide`, in seconds, for the whole call. None for the same as other calls.
    circuit_breaker
        When to stop sending requests to a service that fails, and for how long; None for never. While the circuit is
        open, a call that would end before it closes fails at once, with an :class:`Unavailable` or its ``default``; a
        call with more time waits.

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
        """Report the last calls that ended in a default, and close the connections."""
        self._defaults.close()
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
        """Report the last calls that ended in a default, and close the connections."""
        await self._transport.call(self._defaults.close)
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self.close()
