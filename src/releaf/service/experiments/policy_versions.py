"""Frozen policy of an experiment: exported in another thread, and again only if its learner has changed."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from typing import NamedTuple

from releaf.policy import ServedPolicy
from releaf.service.errors import ApiError

LEAST_SECONDS = 1.0  # between two exports: a learner with traffic changes with every decision


class ExportedPolicy(NamedTuple):
    """A frozen policy as JSON, with its entity tag."""

    content: bytes
    etag: str


class PolicyVersions:
    """The latest version of an experiment's frozen policy, for clients that poll it.

    Parameters
    ----------
    current
        Returns the learner in charge, and the number of the latest event.
    clock
        Seconds, for the time between two exports.
    """

    def __init__(
        self, current: Callable[[], tuple[ServedPolicy, int]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._current, self._clock = current, clock
        self._version: ExportedPolicy | None = None
        self._learner: ServedPolicy | None = None
        self._event, self._at = 0, 0.0
        self._lock = asyncio.Lock()

    async def latest(self) -> ExportedPolicy:
        """The frozen policy as it is now, or was `LEAST_SECONDS` ago; one export serves all that wait for it."""
        async with self._lock:
            learner, event = self._current()
            if not learner.traits.exportable:
                name = type(learner).__name__
                message = f"the policy in charge is {name}, which can't be exported: promote a shadow that can"
                raise ApiError(409, "not_exportable", message)
            is_recent = event == self._event or self._clock() < self._at + LEAST_SECONDS
            if self._version is None or learner is not self._learner or not is_recent:
                self._event, self._at = event, self._clock()
                content = await asyncio.to_thread(_frozen(learner))
                etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
                self._version, self._learner = ExportedPolicy(content, etag), learner
            return self._version


def _frozen(learner: ServedPolicy) -> Callable[[], bytes]:
    """What makes the file of a policy; raises where its costs or its control group can't be exported."""
    try:
        return learner.freeze_policy()
    except ValueError as error:
        raise ApiError(409, "not_exportable", str(error)) from None


def is_known(etag: str, header: str | None) -> bool:
    """Whether an ``If-None-Match`` header names an entity tag."""
    if header is None:
        return False
    return header.strip() == "*" or etag in [tag.strip().removeprefix("W/") for tag in header.split(",")]
