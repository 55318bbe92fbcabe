"""Event feed of an experiment as server-sent events."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from releaf.service.auth.access_control import client_address
from releaf.service.experiments.event_feeds import Feed
from releaf.service.experiments.served_experiment import ServedExperiment
from releaf.service.http.asgi import RawResponse
from releaf.service.http.operation import ApiRequest

KEEPALIVE_SECONDS = 15.0


def open_feed(request: ApiRequest, experiment: ServedExperiment) -> RawResponse:
    experiment.live()
    feed = request.registry.feeds.open(request.identity.id or client_address(request.scope))
    headers = [(b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
    return RawResponse(_stream(request, experiment, feed), b"text/event-stream", headers)


async def _stream(request: ApiRequest, experiment: ServedExperiment, feed: Feed) -> AsyncIterator[bytes]:
    feeds = request.registry.feeds
    experiment.feeds.add(feed)
    try:
        yield b": watching\n\n"
        last_sent = time.monotonic()
        while True:
            told = await feeds.next_messages(
                feed, lambda: request.access.is_still_valid(request.identity, request.scope)
            )
            if told:
                yield told
            elif time.monotonic() - last_sent >= KEEPALIVE_SECONDS:
                yield b": still here\n\n"
            else:
                continue
            last_sent = time.monotonic()
    except EOFError:
        return
    finally:
        experiment.feeds.discard(feed)
        feeds.close(feed)
