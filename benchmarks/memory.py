"""Peak memory of a process in which a learner takes in every reward of 20,000 different contexts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from benchmarks.measure import Finding, Say

ARRIVALS = 20_000
CASES = ((200, 1, 5, 2.0), (20, 2, 2, 4.0))  # features, gamma_rel, actions, gigabytes
# A process begins with the peak of the one that started it. A small shell in between makes that a small one.
_SHELL = ("sh", "-c", '"$@"; exit $?', "sh")


def run(say: Say) -> list[Finding]:
    findings = []
    for features, gamma, actions, most in CASES:
        name = f"memory, D={features}, γ={gamma}, A={actions}, {ARRIVALS:,} arrivals"
        say(f"{name}: in a process of its own")
        report = _in_a_process(features, gamma, actions)
        findings.append(Finding(what=name, value=report["peak"] / 1e9, unit="GB", at_most=most, detail=report))
    return findings


def _in_a_process(*case: int) -> dict[str, Any]:
    command = [*_SHELL, sys.executable, "-m", "benchmarks.memory", *map(str, case)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def peak_bytes() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def measure_replay(features: int, gamma: int, actions: int) -> dict[str, Any]:
    """What ``python -m benchmarks.memory`` does: replay a stream, and report the memory of the learner."""
    from benchmarks.workload import experienced
    from releaf.core.releaf.state import HASHED, ROWS

    before = peak_bytes()
    engine = experienced(ARRIVALS, features, actions, gamma_rel=gamma, observe="always")._engine
    return {
        "peak": peak_bytes(),
        "peak_of_imports": before,
        "hashed": engine.clock(HASHED),
        "rows": engine.clock(ROWS),
        "cells_bytes": engine.state.cells.nbytes,
        "counts_and_sums_bytes": engine.state.counts.nbytes + engine.state.sums.nbytes,
        "table_and_keys_bytes": engine.state.table.nbytes + engine.state.keys.nbytes,
    }


if __name__ == "__main__":
    print(json.dumps(measure_replay(*map(int, sys.argv[1:]))))
