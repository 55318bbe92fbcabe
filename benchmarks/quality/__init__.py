"""How well releaf decides, next to other packages: every method over every data set, several shuffles each.

``make bench-quality``, or ``python -m benchmarks quality``. Finished runs are kept in build/quality, so that a run that
was interrupted goes on where it stopped; those of code that has changed since are done again.

Environment variables:

- ``RELEAF_QUALITY_SPLIT``: ``development``, ``validation`` or ``sealed``; the first two by default. The results of one
  part have its name in their file's. The sealed part is run for a commit only, and its results name it.
- ``RELEAF_QUALITY_SEEDS``: the number of shuffles, 10 by default.
- ``RELEAF_QUALITY_METHODS``, ``RELEAF_QUALITY_DATA``: names between semicolons, to run some methods or data sets only.
  Their results have "some" in their file's name, and are no part of the repository.
- ``RELEAF_QUALITY_WORKERS``: the number of processes.
"""

from __future__ import annotations

import sys

from rich.console import Console

from benchmarks.measure import Finding, Say
from benchmarks.quality import settings


def run(say: Say) -> list[Finding]:
    settings.one_thread()
    from benchmarks.quality import methods, pictures, suite, summary
    from benchmarks.quality.runs import execute
    from benchmarks.quality.sweep import Store, failures, sweep

    say("quality: looking at the data")
    names, absent = methods.present(settings.names("RELEAF_QUALITY_METHODS"))
    sizes, absent_data = suite.present(settings.splits(), settings.names("RELEAF_QUALITY_DATA"))
    settings.report([*absent_data, *absent])
    rounds = [methods.plan(sizes, names, seed) for seed in range(settings.seeds())]
    try:
        store = Store(settings.KEPT / "runs.jsonl")
        results = sweep(rounds, execute, store, settings.workers(), settings.progress(say, "quality"))
    except KeyboardInterrupt:
        sys.exit("Stopped. Finished runs are kept; the same command goes on from them.")
    settings.report(failures(results))
    findings = summary.findings(sizes, results)
    pictures.save(findings, settings.pictures(), settings.suffix())
    return findings


def result_name() -> str:
    """The name of the results' file."""
    return f"quality{settings.suffix()}"


def show(findings: list[Finding], console: Console) -> None:
    """Print the tables."""
    from benchmarks.quality.tables import tables

    for table in tables(findings):
        console.print(table)
