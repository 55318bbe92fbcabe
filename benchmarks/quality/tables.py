"""The findings as tables that a person reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rich.table import Table

from benchmarks.measure import Finding
from releaf.report.terminal import table

Row = Mapping[str, Any]  # the details of a finding
ALWAYS = ("AdaptiveReleaf", "Releaf, always")  # shown in full whatever their place
BEST_OF: dict[str, int] = {}  # how many of a package are shown in full, where it is not one


def tables(findings: list[Finding]) -> list[Table]:
    ranked = [finding for finding in findings if "method" in finding.detail]
    standings: list[Row] = [{**finding.detail, "mean_ratio": finding.value} for finding in ranked]
    problems = [finding.detail for finding in findings if "best" in finding.detail]
    points = [finding.detail for finding in findings if "frugal" in finding.detail]
    return [_standings(standings), _losses(main(standings), problems), _labels(points)]


def main(standings: list[Row]) -> list[Row]:
    """Those to show in full: ours, and the best of each package, but the same algorithm once only, the best first."""
    shown: list[Row] = []
    remaining = dict(BEST_OF)
    algorithms: set[str] = set()
    for standing in standings:
        package, algorithm = standing["package"], standing["method"].split()[-1]
        wanted = remaining.get(package, 1) > 0 and algorithm not in algorithms
        if standing["method"] in ALWAYS:
            shown.append(standing)
        elif wanted:
            shown.append(standing)
            algorithms.add(algorithm)
            remaining[package] = remaining.get(package, 1) - 1
    return shown


def _standings(standings: list[Row]) -> Table:
    seeds = max(loss["seeds"] for standing in standings for loss in standing["losses"].values())
    made = table(
        f"Who decides best: {len(standings[0]['ratios'])} data sets, {seeds} seed{'s' * (seeds > 1)}",
        "× best: the loss divided by that of the best method on the same data set, as a geometric mean over all "
        "data sets, and where it is largest. ran: on how many data sets; on others it would take over three minutes. "
        "VW is VowpalWabbit, ² with products of two features; CB is contextualbandits.",
    )
    made.add_column("", justify="right", style="dim")
    made.add_column("method", no_wrap=True)
    for name in ("× best", "mean rank", "worst ×"):
        made.add_column(name, justify="right")
    made.add_column("on", no_wrap=True)
    made.add_column("ran", justify="right")
    for place, standing in enumerate(standings, 1):
        made.add_row(
            str(place),
            _ours(standing),
            f"{standing['mean_ratio']:.2f}",
            f"{standing['mean_rank']:.1f}",
            f"{standing['worst']:.1f}",
            standing["worst_on"],
            str(standing["data_sets"]),
        )
    return made


def _ours(standing: Row) -> str:
    name = standing["method"]
    return f"[bold]{name}[/]" if standing["package"] == "releaf" else name


def _losses(shown: list[Row], problems: list[Row]) -> Table:
    made = table(
        "Wrong actions in percent of all steps, learning included, ± standard error; the best in green",
        "* regret in percent of a full reward, since expected rewards are known. † the same rows several times. "
        "– left out: too slow.",
    )
    made.add_column("", no_wrap=True)
    for name in ("steps", "D", "A"):
        made.add_column(name, justify="right", style="dim", no_wrap=True)
    for standing in shown:
        made.add_column(_heading(standing["method"]), justify="right", no_wrap=True)
    for problem in problems:
        marks = "*" * problem["regret"] + "†" * problem["passes"]
        size = (f"{problem['steps']:,}", str(problem["features"]), str(problem["actions"]))
        made.add_row(problem["data"] + marks, *size, *(_cell(standing, problem) for standing in shown))
    return made


def _cell(standing: Row, problem: Row) -> str:
    loss = standing["losses"].get(problem["data"])
    if loss is None:
        return "–"
    text = f"{100 * loss['mean']:.1f}"
    if loss["seeds"] > 1:
        text += f" ±{100 * loss['standard_error']:.1f}"
    return f"[bold green]{text}[/]" if standing["ratios"][problem["data"]] == 1.0 else text


def _heading(name: str) -> str:
    """On several lines, since it is longer than what stands below."""
    words = [re.sub(r"(?<=[a-z])(?=[A-Z])", "\n", word) if len(word) > 9 else word for word in name.split()]
    return "\n".join(words)


def _labels(points: list[Row]) -> Table:
    made = table("Error against the number of labels", "Labels: observed rewards. Error in percent of all steps.")
    for name in ("data set", "policy"):
        made.add_column(name, no_wrap=True)
    for name in ("labels", "error %", "±"):
        made.add_column(name, justify="right")
    for place, point in enumerate(points):
        last = place + 1 == len(points) or points[place + 1]["data"] != point["data"]
        numbers = (f"{point['labels']:,.0f}", f"{100 * point['mean']:.2f}", f"{100 * point['standard_error']:.2f}")
        made.add_row(point["data"], point["frugal"], *numbers, end_section=last)
    return made
