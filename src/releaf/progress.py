"""Progress of long calls: a bar in a notebook or a terminal, or calls of a function."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from html import escape
from typing import Any

Progress = bool | Callable[..., Any] | None  # True for a bar, or a function that is called with the steps done
_SECONDS_BETWEEN = 0.2  # draws
_WIDTH = 24  # of a bar in a terminal, in characters


class ProgressBar:
    """A bar with the rate and the remaining time.

    In a Jupyter notebook it is one output that changes in place, and remains when the work is done. In a terminal it is
    a line of standard error that disappears then. Elsewhere, as in a log file, nothing is written.

    Parameters
    ----------
    title
        Text before the bar.
    unit
        What is counted.

    Examples
    --------
    >>> from releaf.progress import ProgressBar
    >>> bar = ProgressBar("working")
    >>> for step in range(3):
    ...     bar(step + 1, 3)
    """

    def __init__(self, title: str, unit: str = "steps") -> None:
        self.title, self.unit = title, unit
        self._write = _notebook_writer() if in_notebook() else _write_to_terminal if _has_terminal() else None
        self._started, self._drawn, self._done = time.monotonic(), 0.0, 0

    def __call__(self, done: int, total: int | None = None) -> None:
        """Show that so many steps are done, of so many in total where that is known."""
        self._done, now, ends = done, time.monotonic(), done == total
        if self._write is not None and (ends or now - self._drawn >= _SECONDS_BETWEEN):
            self._drawn = now
            self._write(self.title, self._share(done, total), self._text(done, total, now - self._started), ends)

    def show(self, title: str, done: int, total: int | None = None) -> None:
        """Show the progress of a part of the work, with a title of its own."""
        if title != self.title:
            self.title, self._started, self._drawn = title, time.monotonic(), 0.0
        self(done, total)

    def end(self) -> None:
        """Show that the work is done, where its total was unknown."""
        self(self._done, self._done)

    @staticmethod
    def _share(done: int, total: int | None) -> float | None:
        return None if total is None else 1.0 if total <= 0 else min(max(done / total, 0.0), 1.0)

    def _text(self, done: int, total: int | None, seconds: float) -> str:
        count = f"{done:,} {self.unit}" if total is None else f"{done:,} of {total:,} {self.unit}"
        if done == total:
            return f"{done:,} {self.unit} in {_duration(seconds)}"
        if not done or seconds <= 0.0:
            return count
        rate = done / seconds
        speed = f"{rate:,.0f}/s" if rate >= 1.0 else f"{1.0 / rate:,.1f} s each"
        left = "" if total is None else f", {_duration((total - done) / rate)} left"
        return f"{count}, {speed}{left}"


def report_progress(progress: Progress, title: str, unit: str = "steps") -> Callable[..., Any]:
    """Return what to call with the steps done: a bar for True, nothing for False or None, else the function given."""
    if progress is None or progress is False:
        return lambda *steps: None
    if progress is True:
        return ProgressBar(title, unit)
    if callable(progress):
        return progress
    raise TypeError(f"progress is {progress!r}: expected True for a bar, a function, or None")


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which shows HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def _has_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except Exception:  # no standard error, or one of another kind
        return False


def _duration(seconds: float) -> str:
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def _write_to_terminal(title: str, share: float | None, text: str, ends: bool) -> None:
    full = 0 if share is None else round(share * _WIDTH)
    bar = "" if share is None else "█" * full + "░" * (_WIDTH - full) + f" {share:4.0%}  "
    sys.stderr.write("\r\x1b[2K" if ends else f"\r\x1b[2K{title}  {bar}{text}")
    sys.stderr.flush()


class _Drawing:
    """What a notebook shows: HTML in its own colours, or text where it can't show HTML."""

    def __init__(self, title: str, share: float | None, text: str) -> None:
        self._title, self._share, self._text = title, share, text

    def _repr_html_(self) -> str:
        value = "" if self._share is None else f' value="{self._share:.4f}" max="1"'
        style = "width: 16em; vertical-align: middle; margin: 0 0.8em"
        bar = f'<progress{value} style="{style}"></progress>'
        return f"<div>{escape(self._title)}{bar}<small>{escape(self._text)}</small></div>"

    def __repr__(self) -> str:
        return f"{self._title}: {self._text}"


def _notebook_writer() -> Callable[[str, float | None, str, bool], None]:
    """Return a function that shows a bar, always in the same output."""
    from IPython.display import display

    handles: list[Any] = []

    def write(title: str, share: float | None, text: str, ends: bool) -> None:
        drawing = _Drawing(title, 1.0 if ends else share, text)
        if handles:
            handles[0].update(drawing)
        else:
            handles.append(display(drawing, display_id=True))  # type: ignore[no-untyped-call]

    return write
