"""The findings as tables that a person reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rich.table import Table

from benchmarks.measure import Finding
from releaf.report.terminal import table

Row = Mapping[str, Any]  # the details of a finding
# Shown in full whatever their place.
ALWAYS = ("AdaptiveReleaf", "Releaf, always", "LinUCB", "extra-trees", "LightGBM")
SHOWN_DEFEATS = 40


def tables(findings: list[Finding]) -> list[Table]:
    standings = of_kind(findings, "method")
    problems = of_kind(findings, "best")
    wins = of_kind(findings, "wins")[0]["wins"]
    return [
        _standings(standings, wins),
        _wins(main(standings), wins),
        _losses(main(standings), problems),
        _defeats([{**finding.detail, "ratio": finding.value} for finding in findings if "defeat" in finding.detail]),
    ]


def of_kind(findings: list[Finding], key: str) -> list[Row]:
    """The details of those findings that have such a key."""
    return [finding.detail for finding in findings if key in finding.detail]


def main(standings: list[Row]) -> list[Row]:
    """Those to show in full: ours, tree ensembles, and the best of each package, but the same algorithm once only."""
    shown: list[Row] = []
    packages: set[str] = set()
    algorithms = {name.split()[-1] for name in ALWAYS}
    for standing in standings:
        package, algorithm = standing["package"], standing["method"].split()[-1]
        if standing["method"] in ALWAYS:
            shown.append(standing)
        elif package not in packages and package != "releaf" and algorithm not in algorithms:
            shown.append(standing)
            packages.add(package)
            algorithms.add(algorithm)
    return shown


def _standings(standings: list[Row], wins: Mapping[str, Mapping[str, int]]) -> Table:
    data_sets, seeds = max(row["data_sets"] for row in standings), max(row["seeds"] for row in standings)
    made = table(
        f"Who decides best: {data_sets} data sets, {seeds} seed{'s' * (seeds > 1)}",
        "× best, × LinUCB: the loss divided by that of the best method, or of LinUCB, on the same data set; geometric "
        "means over the data sets that it ran on. 1st pass: × best before any row comes again. rank: mean place among "
        "those that ran on the same data set. won, lost: against AdaptiveReleaf, at 5 %. µs, MB: computing time of a "
        "step and growth of memory, medians over data sets. ran: on how many data sets; on others it would take over "
        "three minutes, or they are not small. VW is VowpalWabbit, ² with products of two features; CB is "
        "contextualbandits.",
    )
    made.add_column("", justify="right", style="dim")
    made.add_column("method", no_wrap=True)
    for name in ("× best", "1st pass", "× LinUCB", "rank", "won", "lost", "worst ×"):
        made.add_column(name, justify="right")
    made.add_column("on", no_wrap=True)
    for name in ("µs", "MB", "ran"):
        made.add_column(name, justify="right")
    for place, standing in enumerate(standings, 1):
        made.add_row(str(place), _ours(standing), *_numbers(standing, wins))
    return made


def _numbers(standing: Row, wins: Mapping[str, Mapping[str, int]]) -> list[str]:
    name, ours = standing["method"], ALWAYS[0]
    against = ["", ""] if name == ours or ours not in wins else [str(wins[name][ours]), str(wins[ours][name])]
    over = standing["over_linucb"]
    return [
        f"{standing['over_best']:.2f}",
        f"{standing['over_best_in_first_pass']:.2f}",
        "–" if over is None else f"{over:.2f}",
        f"{standing['mean_rank']:.1f}",
        *against,
        f"{standing['worst']:.1f}",
        standing["worst_on"],
        f"{standing['microseconds']:,.0f}",
        f"{standing['megabytes']:,.1f}",
        str(standing["data_sets"]),
    ]


def _ours(standing: Row) -> str:
    name: str = standing["method"]
    return f"[bold]{name}[/]" if standing["package"] == "releaf" else name


def _wins(shown: list[Row], wins: Mapping[str, Mapping[str, int]]) -> Table:
    made = table(
        "Significant wins less losses of the row's method against the column's, at 5 %",
        "By the approximate Z test of Bietti, Agarwal and Langford (2021), on the data sets that both ran on.",
    )
    made.add_column("", no_wrap=True)
    for standing in shown:
        made.add_column(_heading(standing["method"]), justify="right", no_wrap=True)
    for row in shown:
        name = row["method"]
        others = [other["method"] for other in shown]
        cells = ["" if other == name else f"{wins[name][other] - wins[other][name]:+d}" for other in others]
        made.add_row(_ours(row), *cells)
    return made


def _losses(shown: list[Row], problems: list[Row]) -> Table:
    made = table(
        "Lost reward in percent of all steps, learning included, ± standard error; the best of all methods in green",
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


def _defeats(defeats: list[Row]) -> Table:
    made = table(
        f"Where AdaptiveReleaf loses: {len(defeats)} data sets",
        "Every data set on which some method has a lower loss, in percent; the results' file has the whole list. "
        "ahead: how many methods have, and how many of them significantly, at 5 %.",
    )
    made.add_column("data set", no_wrap=True)
    made.add_column("to", no_wrap=True)
    for name in ("ours", "theirs", "×", "ahead", "significantly"):
        made.add_column(name, justify="right")
    for row in defeats[:SHOWN_DEFEATS]:
        percents = (f"{100 * row['ours']:.2f}", f"{100 * row['theirs']:.2f}")
        counts = (str(row["ahead"]), str(len(row["significant"])))
        made.add_row(row["defeat"], row["by"], *percents, f"{row['ratio']:.2f}", *counts)
    return made
