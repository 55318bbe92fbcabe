"""How long a fresh process waits for releaf."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from statistics import median

from benchmarks.measure import Finding, Say

_TIMED = "import time; start = time.perf_counter(); {body}; print(time.perf_counter() - start)"
IMPORT = _TIMED.format(body="import releaf")
LEARNER = _TIMED.format(body="import releaf; releaf.Releaf")
DECIDE = _TIMED.format(body="import releaf; releaf.Releaf(actions=2, features=15, seed=0).decide([0.5] * 15)")


def run(say: Say) -> list[Finding]:
    say("start: warming the caches")
    _seconds(DECIDE)
    imports, learner, decided = [], [], []
    for repetition in range(7):
        say(f"start: repetition {repetition + 1} of 7")
        imports.append(_seconds(IMPORT))
        learner.append(_seconds(LEARNER))
        decided.append(_seconds(DECIDE))
    compiled = []
    for repetition in range(3):
        say(f"start: compiling all kernels anew, repetition {repetition + 1} of 3")
        with tempfile.TemporaryDirectory() as empty:
            compiled.append(_seconds(DECIDE, NUMBA_CACHE_DIR=empty))
    return [
        _finding("start: import releaf", imports, at_most=0.5),
        _finding("start: import releaf and its learner (Numba)", learner),
        _finding("start: import, make a learner, first decision", decided),
        _finding("start: the same with an empty kernel cache", compiled),
    ]


def _finding(what: str, seconds: list[float], at_most: float | None = None) -> Finding:
    detail = {"repetitions": len(seconds), "lowest": min(seconds), "highest": max(seconds)}
    return Finding(what=what, value=median(seconds), unit="s", at_most=at_most, detail=detail)


def _seconds(program: str, **environment: str) -> float:
    """What a program prints, run by a fresh interpreter."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    return float(done.stdout)
