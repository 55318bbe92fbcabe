"""The split of the data sets into development, validation and sealed ones: a fixed rule that no result enters.

A data set's part follows from a hash of its family's name; a family is a data set and those made by the same people in
the same way. Methods may be designed with development sets in view, and choices confirmed on validation sets. Sealed
sets are run once, for a result that is published. Data sets that constants of releaf were chosen with in view are never
sealed; so that the parts have about the same size, others are sealed more often.
"""

from __future__ import annotations

import hashlib

SPLITS = ("development", "validation", "sealed")
# The data sets of the suite before it was split.
SEEN = frozenset(
    (
        *("iris", "wine", "WDBC", "digits", "phishing", "segments", "bananas", "Agrawal 0", "Agrawal 6", "SEA", "LED"),
        *("waveform", "RBF", "hyperplane", "breast cancer", "intrusion", "1 relevant", "2 relevant", "20 actions"),
        "draft",
    )
)
_SEALED, _DEVELOPMENT = 0.42, 0.71  # upper ends of their intervals, for what was not seen


def split_of(family: str) -> str:
    """The part that a family of data sets belongs to."""
    place = int.from_bytes(hashlib.sha256(family.encode()).digest()[:8], "big") / 2**64
    if family in SEEN:
        return "development" if place < 0.5 else "validation"
    if place < _SEALED:
        return "sealed"
    return "development" if place < _DEVELOPMENT else "validation"
