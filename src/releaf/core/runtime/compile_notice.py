"""Notice in a terminal or a notebook that kernels are being compiled, for which the first use of a learner waits."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import Any

from numba.core import event

from releaf.progress import in_notebook

_DELAY_SECONDS = 2.0  # seconds
_TEXT = (
    "releaf: compiling kernels, once: the next program reads the machine code from a cache "
    "(RELEAF_QUIET=1 silences this line)"
)


class CompileNotice(event.Listener):
    """Prints one line to standard error of a terminal or a notebook, once kernels have compiled for two seconds."""

    def __init__(self) -> None:
        self._depth = 0  # kernels compile the kernels that they call
        self._started, self._seconds = 0.0, 0.0
        self._timer: threading.Timer | None = None
        self._is_said = False

    def on_start(self, happened: Any) -> None:
        self._depth += 1
        if self._depth == 1 and not self._is_said and _is_ours(happened) and _is_wanted():
            self._started = time.monotonic()
            self._timer = threading.Timer(max(_DELAY_SECONDS - self._seconds, 0.0), self._say)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, happened: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._seconds += time.monotonic() - self._started

    def _say(self) -> None:
        self._is_said = True
        with contextlib.suppress(Exception):  # a closed terminal is no reason to fail
            print(_TEXT, file=sys.stderr, flush=True)


def _is_ours(happened: Any) -> bool:
    function = getattr(happened.data.get("dispatcher"), "py_func", None)
    return str(getattr(function, "__module__", "")).startswith("releaf.")


def _is_wanted() -> bool:
    try:
        return os.environ.get("RELEAF_QUIET", "0") in ("", "0") and (sys.stderr.isatty() or in_notebook())
    except Exception:  # no standard error, or one of another kind
        return False


def install() -> None:
    """Watch all compilations of this process."""
    event.register("numba:compile", CompileNotice())
