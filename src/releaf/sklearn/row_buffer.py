"""Buffer of the first rows of a stream, from which its columns are inferred."""

from __future__ import annotations

import numpy as np

from releaf.arrays import Array

MAX_BUFFERED_ROWS = 1024  # rows after which the columns are fixed


class RowBuffer:
    """Keeps the first rows, so that columns can be inferred again and all rows learnt again.

    This happens each time their number has doubled, since a first batch of one row has no range. A row is learnt three
    times on average, and eleven times at most.

    Parameters
    ----------
    *parts
        The rows from which the columns were inferred, and arrays of the same length that belong to them.
    """

    def __init__(self, *parts: Array) -> None:
        self._inferred_from = len(parts[0])
        self._parts = tuple(part.copy() for part in parts) if self._inferred_from < MAX_BUFFERED_ROWS else ()

    @property
    def settled(self) -> bool:
        """Whether the columns are fixed."""
        return self._inferred_from >= MAX_BUFFERED_ROWS

    def add(self, *parts: Array, at_once: bool = False) -> tuple[Array, ...] | None:
        """Add rows; returns all rows so far if the columns must be inferred again (now, if ``at_once``), else None."""
        if self.settled:
            return None
        self._parts = tuple(np.concatenate(pair) for pair in zip(self._parts, parts, strict=True))
        everything = self._parts
        if len(everything[0]) < 2 * self._inferred_from and not at_once:
            return None
        self._inferred_from = len(everything[0])
        self._parts = () if self._inferred_from >= MAX_BUFFERED_ROWS else everything
        return everything
