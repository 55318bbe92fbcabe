"""Times of several sides taken in turn, and what they amount to."""

from __future__ import annotations

import gc
import hashlib
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numba
import numpy as np

import releaf

Say = Callable[[str], None]  # tells whoever waits what is being done
REPETITIONS = 9


def _digest_of_sources() -> str:
    """Tells results of one state of the package from those of another with the same version."""
    folder = Path(releaf.__file__).parent
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.rglob("*.py")))).hexdigest()[:12]


def _commit() -> str:
    """The commit that is checked out, with a "+" if the package or benchmarks have changed since; or nothing."""
    folder = Path(__file__).parent
    try:
        head, changes = (
            subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain", ".", "../src", ":!results"])
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head + "+" * bool(changes)


_SOURCES, _COMMIT = _digest_of_sources(), _commit()  # now, before anything runs


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One measured number and what it should be; without a bound it is for information."""

    what: str
    value: float
    unit: str = "×"
    at_most: float | None = None
    at_least: float | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        if self.at_most is not None:
            return self.value <= self.at_most
        return None if self.at_least is None else self.value >= self.at_least

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"≤ {self.at_most:g} {self.unit}"
        return "" if self.at_least is None else f"≥ {self.at_least:g} {self.unit}"

    def to_dict(self) -> dict[str, Any]:
        row = {"what": self.what, "value": self.value, "unit": self.unit, "target": self.target, "met": self.met}
        rounded: dict[str, Any] = _rounded({**row, "detail": dict(self.detail)})
        return rounded


def in_turn(
    sides: Mapping[str, Callable[[], Any]],
    *,
    repetitions: int = REPETITIONS,
    before: Callable[[], Any] = lambda: None,
    say: Say = lambda text: None,
) -> dict[str, float]:
    """The median seconds of each side. All run once to warm up, then in turn, so that noise falls on all alike."""
    for side in sides.values():
        before()
        side()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    gc.disable()
    try:
        for repetition in range(repetitions):
            say(f"repetition {repetition + 1} of {repetitions}")
            for name, side in sides.items():
                before()
                start = time.perf_counter()
                side()
                seconds[name].append(time.perf_counter() - start)
    finally:
        gc.enable()
    return {name: median(taken) for name, taken in seconds.items()}


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "releaf": releaf.__version__,
        "sources": _SOURCES,
        "commit": _COMMIT,
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _rounded(value: Any) -> Any:
    """Floats with five significant digits, at any depth."""
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value
