"""The first rows of a stream, by which its columns are found."""

from __future__ import annotations

import numpy as np

from releaf.arrays import Array

MAX_BUFFERED_ROWS = 1024  # rows by which the columns are settled


class RowBuffer:
    """Keeps rows while they are few, so that what the columns are can be found anew, and all be learnt again.

    That is each time their number has doubled: a first batch of one row tells no range. So a row is learnt three times
    on average, and eleven times at most.

    Parameters
    ----------
    *parts
        The rows by which the columns were found already, and what belongs to them: arrays of the same length.
    """

    def __init__(self, *parts: Array) -> None:
        self._inferred_from = len(parts[0])
        self._parts = tuple(part.copy() for part in parts) if self._inferred_from < MAX_BUFFERED_ROWS else ()

    @property
    def settled(self) -> bool:
        """Whether the columns stay what they are."""
        return self._inferred_from >= MAX_BUFFERED_ROWS

    def add(self, *parts: Array, at_once: bool = False) -> tuple[Array, ...] | None:
        """Take in some more; all rows so far where it is time to find the columns anew, or ``at_once``, else None."""
        if self.settled:
            return None
        self._parts = tuple(np.concatenate(pair) for pair in zip(self._parts, parts, strict=True))
        everything = self._parts
        if len(everything[0]) < 2 * self._inferred_from and not at_once:
            return None
        self._inferred_from = len(everything[0])
        self._parts = () if self._inferred_from >= MAX_BUFFERED_ROWS else everything
        return everything
