"""The tables of docs/explanation/scale.md, from what was measured and from prices that are assumptions."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
PEAK, EVENTS = 100_000, 10**9  # decisions a second; events a day, half of them decisions and half rewards
LOAD = 0.5  # of what a process can do at most
TOGETHER = 20  # decisions in a group commit
DAYS_IN_STORE, DAYS_IN_FILES = 7, 90
HOURS, VCPUS_A_PROCESS, VCPUS_OF_DATABASE, VCPUS_OF_WRITER = 730, 2, 32, 8
VCPU_HOUR, SSD_MONTH, OBJECT_MONTH = 0.04, 0.10, 0.02  # money; GB-months on fast disks, and in a store of objects
ONE = "one learner"
Lines = list[list[str]]


def findings(name: str) -> dict[str, dict[str, Any]]:
    content = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return {finding["what"]: finding for finding in content["findings"]}


def tables() -> dict[str, tuple[list[str], Lines]]:
    """Headings and lines of each table."""
    return {
        "process": _process(),
        "staleness": _staleness(),
        "merging": _merging(),
        "storage": _storage(),
        "training": _training(),
        "cost": _cost(),
    }


# --- one process --------------------------------------------------------------------------------------------


def _rates() -> dict[str, float]:
    found = findings("service")
    sides = {
        "one at a time, embedded store": "SQLite",
        "one at a time, PostgreSQL": "PostgreSQL",
        "in batches of 100, embedded store": "SQLite, batches",
        "in batches of 100, PostgreSQL": "PostgreSQL, batches",
    }
    named = {how: f"service: {side}: decisions a second" for how, side in sides.items()}
    return {how: found[what]["value"] for how, what in named.items() if what in found}


def processes(rate: float) -> int:
    """How many it takes at the peak, loaded to a half."""
    return math.ceil(PEAK / (LOAD * rate))


def _process() -> tuple[list[str], Lines]:
    lines = [[how, f"{rate:,.0f}", f"{processes(rate):,}"] for how, rate in _rates().items()]
    return ["durable decisions", "a second, at most", f"processes for {PEAK:,}/s at half load"], lines


# --- training from files ------------------------------------------------------------------------------------


def _training() -> tuple[list[str], Lines]:
    found = {what.removeprefix("scale: "): finding for what, finding in findings("scale").items()}
    sides = {"one worker": "one", "two workers": "two", "two workers of Ray": "ray"}
    lines = []
    for policy, what in (("Releaf", ""), ("AdaptiveReleaf", "AdaptiveReleaf, ")):
        if f"{what}two workers over one" not in found:
            continue
        detail = found[f"{what}two workers over one"]["detail"]
        seconds, rates = detail["seconds"], detail["rows_per_second"]
        for name, side in sides.items():
            faster = median(one / own for one, own in zip(seconds["one"], seconds[side], strict=True))
            lines.append([policy, name, f"{rates[side]:,.0f}", f"{faster:.2f} ×"])
        in_ray, memory = (
            found[f"{what}{name}"]["value"]
            for name in ("share of the time that Ray takes", "memory of the largest worker")
        )
        lines += [
            [policy, "share of the time that Ray itself takes", f"{in_ray:.1%}", ""],
            [policy, "memory of the largest worker", f"{memory:.2f} GB", ""],
        ]
    return ["20 million rows, 10 features, 4 actions", "", "rows a second", "over one worker"], lines


# --- staleness ----------------------------------------------------------------------------------------------


def _runs(rate: int, stream: str) -> list[dict[str, Any]]:
    details = [finding["detail"] for finding in findings("staleness").values()]
    return [detail for detail in details if detail["rate"] == rate and detail["stream"] == stream]


def _staleness() -> tuple[list[str], Lines]:
    lines = []
    details = [finding["detail"] for finding in findings("staleness").values()]
    for stream, rate in sorted({(detail["stream"], detail["rate"]) for detail in details}, reverse=True):
        runs = [run for run in _runs(rate, stream) if run["learns"] == ONE]
        for policy in dict.fromkeys(run["policy"] for run in runs):
            own = {run["age"]: run for run in runs if run["policy"] == policy}
            asked = f"{own[0]['labels']['mean']:,.0f} → {own[60]['labels']['mean']:,.0f}"
            values = [_spread(own[age]["regret"]) for age in sorted(own)]
            lines.append([stream, f"{rate:,}/s", policy, *values, asked])
    return ["world", "rate", "learner", "0 s", "1 s", "10 s", "60 s", "labels, 0 s → 60 s"], lines


def _merging() -> tuple[list[str], Lines]:
    rate = next(f["detail"]["rate"] for f in findings("staleness").values() if f["detail"]["learns"] != ONE)
    runs = [run for run in _runs(rate, "steady") if run["policy"] == "Releaf"]
    ages = sorted({run["age"] for run in runs if run["learns"] != ONE})
    found = {(run["learns"], run["age"]): run for run in runs}
    lines = []
    for learns in dict.fromkeys(run["learns"] for run in runs):
        own = [found[learns, age] for age in ages]
        told = [f"{_spread(run['regret'])}; {run['explored']['mean']:.0%}" for run in own]
        lines.append([learns, *told])
    return ["how the writer learns", *(f"copies {age} s old: regret; explored" for age in ages)], lines


def _spread(found: dict[str, Any]) -> str:
    return f"{found['mean']:.3g}" + ("" if found["margin"] is None else f" ±{found['margin']:.2g}")


# --- storage and cost ---------------------------------------------------------------------------------------


def _bytes(store: str, together: int, what: str) -> float:
    return float(findings("storage")[f"storage: {store}, {together} together: a {what}"]["value"])


def _parquet() -> float:
    return float(findings("storage")["storage: Parquet: a decision and its reward"]["value"])


def _storage() -> tuple[list[str], Lines]:
    stored = [f["detail"] for f in findings("storage").values() if f["detail"]]
    lines = []
    for store, together in dict.fromkeys((each["store"], each["together"]) for each in stored):
        decision, reward = (_bytes(store, together, what) for what in ("decision", "reward"))
        a_day = EVENTS / 2 * (decision + reward) / 1e9
        lines.append([f"{store}, {together} in a commit", f"{decision:,.0f}", f"{reward:,.0f}", f"{a_day:,.0f}"])
    both = _parquet()
    lines.append(["exported as Parquet", f"{both:,.0f}", "with it", f"{EVENTS / 2 * both / 1e9:,.0f}"])
    return ["", "bytes, a decision", "bytes, its reward", "GB a day"], lines


def _cost() -> tuple[list[str], Lines]:
    serving = processes(_rates()["one at a time, PostgreSQL"]) * VCPUS_A_PROCESS
    a_day = EVENTS / 2 * sum(_bytes("PostgreSQL", TOGETHER, what) for what in ("decision", "reward")) / 1e9
    disk, files = 2 * DAYS_IN_STORE * a_day, DAYS_IN_FILES * EVENTS / 2 * _parquet() / 1e9
    what = [
        (f"processes that decide, {VCPUS_A_PROCESS} vCPU each", f"{serving:,} vCPU", serving * HOURS * VCPU_HOUR),
        ("the writer, and one that stands by", f"{VCPUS_OF_WRITER} vCPU", VCPUS_OF_WRITER * HOURS * VCPU_HOUR),
        ("PostgreSQL and its standby", f"{VCPUS_OF_DATABASE} vCPU", VCPUS_OF_DATABASE * HOURS * VCPU_HOUR),
        (f"{DAYS_IN_STORE} days in PostgreSQL, twice", f"{disk:,.0f} GB", disk * SSD_MONTH),
        (f"{DAYS_IN_FILES} days as Parquet", f"{files:,.0f} GB", files * OBJECT_MONTH),
    ]
    total = sum(money for *_, money in what)
    lines = [[name, size, f"{money:,.0f}", f"{money / total:.0%}"] for name, size, money in what]
    return ["what", "how much", "a month", "share"], [*lines, ["together", "", f"{total:,.0f}", ""]]
