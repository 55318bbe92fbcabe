"""Both clients, used in the same way, so that tests are written once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np

import releaf
from releaf.client import AsyncClient, Client

FEATURES = releaf.Schema(age=releaf.Continuous(0, 120), pulse=releaf.Quantile(missing=True), smoker=releaf.Boolean())
ACTIONS = ["home", "ward"]
PATIENT = {"age": 31, "pulse": 80.5, "smoker": False}


def patients(number: int) -> Iterator[dict[str, Any]]:
    random = np.random.default_rng(0)
    for _ in range(number):
        yield {"age": random.integers(0, 100), "pulse": random.normal(80, 10), "smoker": bool(random.random() < 0.3)}


class Awaited:
    """An AsyncClient that is used as the other one is, so that tests are written once."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._client = AsyncClient(*args, **options)
        self._runner = asyncio.Runner()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            given = method(*args, **kwargs)
            return self._iterate(given) if hasattr(given, "__aiter__") else self._run(given)

        return call

    def _run(self, awaitable: Any) -> Any:
        async def wait() -> Any:
            return await awaitable

        return self._runner.run(wait())

    def _iterate(self, items: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    item = self._run(anext(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            self._run(items.aclose())

    def __enter__(self) -> Awaited:
        return self

    def __exit__(self, *problem: object) -> None:
        self._run(self._client.close())
        self._runner.close()


# Decisions may take long on a busy machine; tests of the time-out set it.
patient_client = partial(Client, decide_timeout=None)
KINDS = {"blocking": patient_client, "asynchronous": partial(Awaited, decide_timeout=None)}


def new_experiment(service: str) -> str:
    """The name of a fresh experiment that wants every reward."""
    made = f"triage-{uuid4().hex[:8]}"
    with Client(service) as client:
        client.create(made, ACTIONS, FEATURES, policy="LinUCB")
    return made
