"""Memory that this process may use: the machine's, or the limit of its container."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # version 2, and 1


@cache
def usable_memory() -> int:
    """Bytes of memory."""
    return min([_physical_memory(), *(limit for path in CGROUP_LIMITS if (limit := read_limit(Path(path))))])


def read_limit(path: Path) -> int | None:
    """The limit in a file of a control group; None if there is no file or no limit."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # version 2 says "max" where there is none
        return None


def _physical_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
