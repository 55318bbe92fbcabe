"""Fits of models in a thread that holds no lock of Python, so that decisions go on meanwhile.

A fit starts at one number of rewards and takes effect at a later one. In between it runs on the rows that the sample
had at its start, so its result does not depend on when it ran; and a learner that is saved in between starts it again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_owner = 0  # process that made the pool: its threads do not survive a fork


def _pool_of_this_process() -> ThreadPoolExecutor:
    global _pool, _owner
    with _lock:
        if _pool is None or _owner != os.getpid():
            _pool, _owner = ThreadPoolExecutor(1, thread_name_prefix="releaf-fit"), os.getpid()
        return _pool


class FitJob:
    """A fit under way. ``result`` waits for it; a process that was forked meanwhile does it anew."""

    def __init__(self, fit: Callable[[], Any]) -> None:
        self._fit, self._process = fit, os.getpid()
        self._future: Future[Any] = _pool_of_this_process().submit(fit)

    def result(self) -> Any:
        if self._process != os.getpid():
            return self._fit()
        return self._future.result()
