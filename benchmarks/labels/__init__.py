"""How few labels releaf needs: loss at budgets of 50 to 2,000 labels, next to other ways to choose what to ask.

``make bench-quality``, or ``python -m benchmarks labels``: on the development sets with more than 2,000 steps, shuffled
and in their own order. The environment variables are those of the quality benchmark; ``RELEAF_QUALITY_METHODS`` names
policies of `benchmarks.labels.runs`. Three shuffles by default.
"""

from __future__ import annotations

import os
import sys

from rich.console import Console

from benchmarks.measure import Finding, Say
from benchmarks.quality import settings

SEEDS = 3


def run(say: Say) -> list[Finding]:
    settings.one_thread()
    from benchmarks.labels import summary
    from benchmarks.labels.runs import data_sets, execute, plan, present
    from benchmarks.quality.sweep import Store, failures, sweep

    say("labels: looking at the data")
    askings, absent = present(settings.names("RELEAF_QUALITY_METHODS"))
    asked = settings.splits() if "RELEAF_QUALITY_SPLIT" in os.environ else ("development",)
    sizes, absent_data = data_sets(asked, settings.names("RELEAF_QUALITY_DATA"))
    settings.report([*absent_data, *absent])
    rounds = [plan(sizes, askings, seed) for seed in range(settings.seeds(SEEDS))]
    try:
        store = Store(settings.KEPT / "labels.jsonl")
        results = sweep(rounds, execute, store, settings.workers(), settings.progress(say, "labels"))
    except KeyboardInterrupt:
        sys.exit("Stopped. Finished runs are kept; the same command goes on from them.")
    settings.report(failures(results))
    findings = summary.findings(sizes, results)
    summary.save(findings, settings.pictures(), settings.suffix())
    return findings


def result_name() -> str:
    """The name of the results' file."""
    return f"labels{settings.suffix()}"


def show(findings: list[Finding], console: Console) -> None:
    """Print the tables."""
    from benchmarks.labels.summary import tables

    for table in tables(findings):
        console.print(table)
