"""Garbage-collector settings of a service process.

Python's cyclic collector scans all objects again and again. A service has about 200,000 objects that live as long as
the process, mostly modules and kernels, and a full scan takes a tenth of a second, during which no request is answered.
"""

from __future__ import annotations

import gc

YOUNG_THRESHOLD = 20_000  # allocations minus deallocations that trigger a collection of the youngest generation


def raise_threshold() -> None:
    """Collect less often: requests of the service leave no reference cycles behind."""
    gc.set_threshold(YOUNG_THRESHOLD, *gc.get_threshold()[1:])


def freeze_objects() -> None:
    """Exclude all objects that exist now from later collections."""
    gc.collect()
    gc.freeze()
