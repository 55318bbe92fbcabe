"""Tables of docs/how-to/capacity.md: memory, disk and rate, from benchmarks/results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
MILLION = 1_000_000
MEMORY = re.compile(r"AdaptiveReleaf, D = ([\d,]+), A = (\d+): memory after 20,000 steps")
RATES = {
    "service: SQLite: decisions a second": "single requests of many connections, embedded store",
    "service: PostgreSQL: decisions a second": "single requests of many connections, PostgreSQL",
    "service: SQLite, batches: decisions a second": "in batches of 100, embedded store",
    "service: PostgreSQL, batches: decisions a second": "in batches of 100, PostgreSQL",
}
RESTART = "service: start with 1,000,000 events after the snapshot"


def tables() -> dict[str, tuple[list[str], list[list[str]]]]:
    """Headings and rows of each table."""
    return {"memory": _memory(), "disk": _disk(), "rate": _rate()}


def _memory() -> tuple[list[str], list[list[str]]]:
    named = ((MEMORY.fullmatch(finding["what"]), finding["value"]) for finding in _findings("adaptive"))
    rows = [[*found.groups(), f"{value:.0f} MB"] for found, value in named if found]
    return ["features", "actions", "memory"], rows


def _disk() -> tuple[list[str], list[list[str]]]:
    """Megabytes of a million decisions with their rewards."""
    size = {finding["what"].removeprefix("storage: "): finding["value"] for finding in _findings("storage")}
    rows = []
    for store in ("SQLite", "PostgreSQL"):
        for together in (1, 20, 500):
            total = sum(size[f"{store}, {together} together: a {what}"] for what in ("decision", "reward"))
            rows.append([f"{store}, {together} at a time", f"{total * MILLION / 1e6:,.0f} MB"])
    exported = size["Parquet: a decision and its reward"]
    rows.append(["export as Parquet", f"{exported * MILLION / 1e6:,.0f} MB"])
    return ["store", "a million decisions with rewards"], rows


def _rate() -> tuple[list[str], list[list[str]]]:
    values = {finding["what"]: finding["value"] for finding in _findings("service")}
    rows = [[name, f"{values[what]:,.0f} a second"] for what, name in RATES.items() if what in values]
    return ["durable decisions", "measured"], [
        *rows,
        ["restart with a million events to replay", f"{values[RESTART]:.0f} s"],
    ]


def _findings(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["findings"]
    return found
