"""How well releaf decides, next to other packages: every method over every data set, several seeds each.

``make bench-quality``, or ``python -m benchmarks quality``. Finished runs are kept in build/quality, so that a run that
was interrupted goes on where it stopped; those of code that has changed since are done again. The environment
variables ``RELEAF_QUALITY_SEEDS`` and ``RELEAF_QUALITY_WORKERS`` say how many seeds and processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from benchmarks.measure import Finding, Say

SEEDS = 5
ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "quality" / "runs.jsonl"
PICTURES = ROOT / "docs" / "results"


def run(say: Say) -> list[Finding]:
    from benchmarks.quality import methods, pictures, suite, summary
    from benchmarks.quality.runs import Store, sweep

    say("quality: looking at the data")
    sizes, absent_data = suite.present()
    names, absent = methods.present()
    for line in (*absent_data, *absent):
        print(line, file=sys.stderr)
    seeds = int(os.environ.get("RELEAF_QUALITY_SEEDS", SEEDS))
    workers = int(os.environ["RELEAF_QUALITY_WORKERS"]) if "RELEAF_QUALITY_WORKERS" in os.environ else None
    try:
        results = sweep(sizes, names, seeds, Store(KEPT), workers, _progress(say))
    except KeyboardInterrupt:
        sys.exit("Stopped. Finished runs are kept; the same command goes on from them.")
    for failure in summary.failures(results):
        print(failure, file=sys.stderr)
    findings = summary.findings(sizes, results)
    pictures.save(findings, PICTURES)
    return findings


def show(findings: list[Finding], console: Console) -> None:
    """Print the tables."""
    from benchmarks.quality.tables import tables

    for table in tables(findings):
        console.print(table)


def _progress(say: Say) -> Callable[[int, int, float], None]:
    """Tells how far it is: a bar for a terminal; what stands before the colon, for a log, changes with every tenth."""
    tenth, subject = 0, "quality"

    def tell(done: int, total: int, seconds: float) -> None:
        nonlocal tenth, subject
        if 10 * done // total != tenth:
            tenth = 10 * done // total
            subject = f"quality, {10 * tenth} % done, about {_duration(seconds)} left"
        bar = "━" * round(30 * done / total)
        say(f"{subject}: {bar:╌<30} {done:,} of {total:,} runs, {_duration(seconds)} left")

    return tell


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"
