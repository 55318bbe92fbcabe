"""Python's search for cycles of garbage, kept from looking through what stays for good.

It goes through all objects again and again. A service has some 200,000 of them that never go, mostly modules and
kernels, and a look at them takes a tenth of a second in which no request is answered.
"""

from __future__ import annotations

import gc

YOUNG = 20_000  # objects more than there were, before the young ones are looked through


def look_less_often() -> None:
    """Be patient with a process whose requests leave no cycles behind."""
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])


def settle() -> None:
    """Leave out, from here on, all objects that there are now."""
    gc.collect()
    gc.freeze()
