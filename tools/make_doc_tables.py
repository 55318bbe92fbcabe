"""Write the tables of the README and the documentation from what was measured.

python tools/make_doc_tables.py           write them
python tools/make_doc_tables.py --check   fail where they are not what they should be

docs/results/figures.json, which the evidence is made from, is what ``releaf reproduce`` writes beside its report.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import capacity_tables
import comparison_table
import evidence_verdicts
import numpy as np
import scale_tables

import releaf
from releaf import ensembles, policies

ROOT = Path(__file__).parents[1]
MEASURED, REPRODUCED = ROOT / "benchmarks" / "results" / "policies.json", ROOT / "docs" / "results" / "figures.json"
ORDER = (
    *("AdaptiveReleaf", "Releaf", "GreedyReleaf", "CMABRL", "ContextualZooming", "HybridEpsilon", "LinUCB", "LinTS"),
    *("LinearEpsilonGreedy", "UCB1", "EpsilonGreedy", "Random"),
    *("AverageMajority", "AdaBoost", "OnlineAdaBoost", "Blum", "WeightedMajority", "FixedShare"),
)
OF_ACTION_TABLES = ("JointReleaf", "HybridLinUCB")  # python -m benchmarks actions measures them
INTERVALS = ROOT / "benchmarks" / "results" / "coverage.json"
QUALITY, LABELS = (ROOT / "benchmarks" / "results" / f"{name}.json" for name in ("quality-sealed", "labels"))
SHOWN = (
    "AdaptiveReleaf",
    "LinUCB",
    "river LinUCB",
    "CB BootstrappedUCB",
    "MABWiser KNN",
    "VW squarecb elim²",
    "VW regcbopt²",
)
OFF_POLICY = ROOT / "benchmarks" / "results" / "off_policy.json"
HEADINGS = ("base classifiers", "prior training", "learns online", "learns actively", "uses context", "finds relevance")


def policy(name: str) -> Any:
    return getattr(policies, name, None) or getattr(ensembles, name)


def full_name(name: str) -> str:
    return f"releaf.{name}" if name in releaf.__all__ else f"releaf.ensembles.{name}"


def properties() -> dict[str, str]:
    """What each policy needs and does, and what it observes."""
    does, observes = [], []
    for name in (ORDER[0], *OF_ACTION_TABLES, *ORDER[1:]):
        traits = policy(name).traits
        facts = [getattr(traits, heading.replace(" ", "_")) for heading in HEADINGS]
        marks = ["required" if fact and place < 2 else "yes" if fact else "–" for place, fact in enumerate(facts)]
        does.append([f"**{traits.name}**", *marks])
        observes.append([f"**{traits.name}**", f"`{full_name(name)}`", traits.observes, traits.source])
    return {
        "properties": _table(["policy", *HEADINGS], does),
        "observed": _table(["policy", "class", "observes", "from"], observes),
    }


def errors() -> str:
    findings = json.loads(MEASURED.read_text())["findings"]
    found = {finding["detail"]["policy"]: finding for finding in findings if "policy" in finding["detail"]}
    rows = []
    for name in ORDER:
        error, detail = found[name]["value"], found[name]["detail"]
        spread, paper = f"{detail['least']:.2f} – {detail['most']:.2f}", detail["paper"]
        labels = f"{detail['labels']:,.0f}"
        rows.append([policy(name).traits.name, f"{error:.2f}", spread, f"{paper:.2f}" if paper else "", labels])
    return _table(["policy", "error %", "least – most", "the paper %", "labels"], rows)


def coverage() -> dict[str, str]:
    """How often the intervals of off-policy estimates held the truth: a row per kind of log."""
    kinds = ("ips", "snips", "dm", "dr", "sndr", "switch-dr", "ips, normal", "dr, normal")
    worlds: dict[tuple[float, ...], dict[str, Any]] = {}
    for finding in json.loads(OFF_POLICY.read_text())["findings"]:
        detail = finding["detail"]
        if "rate" in detail:
            world = worlds.setdefault((detail["strength"], detail["rate"], detail["rows"]), detail | {"held": {}})
            world["held"][detail["estimator"]] = finding["value"]
    rows = [
        [
            f"{strength:g}",
            "often" if rate == 1 else "rare",
            f"{count:,}",
            f"{world['effective_rows']:,.0f}",
            *(f"{100 * world['held'][kind]:.0f} %" for kind in kinds),
        ]
        for (strength, rate, count), world in worlds.items()
    ]
    names = [kind.upper().replace(", NORMAL", ", normal") for kind in kinds]
    return {"coverage": _table(["strength", "rewards", "rows", "effective", *names], rows)}


def intervals() -> dict[str, str]:
    """How often the intervals of explanations held the expected reward: a row per planted stream."""
    rows: dict[str, dict[str, Any]] = {}
    for finding in json.loads(INTERVALS.read_text())["findings"]:
        rows.setdefault(finding["detail"]["stream"], {})[finding["detail"]["way"]] = finding["detail"]
    lines = []
    for stream, ways in rows.items():
        cells = [_percents(ways[way]["coverage of each action"]) for way in ("log", "online")]
        lines.append([stream, cells[0], f"{np.mean(ways['log']['mean width']):.2f}", cells[1]])
    headings = ["stream", "from a log: each action, the last is rare", "mean width", "online: each action"]
    return {"intervals": _table(headings, lines)}


def _percents(shares: list[float]) -> str:
    return ", ".join(f"{100 * share:.0f}" for share in shares) + " %"


def _table(headings: list[str], rows: list[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def evidence() -> dict[str, str]:
    """Each table of the reproduction, by its title."""
    kept = json.loads(REPRODUCED.read_text(encoding="utf-8"))["tables"]
    tables = {"verdicts": _table(evidence_verdicts.HEADINGS, evidence_verdicts.rows(kept))}
    for table in kept:
        rows = []
        for line in table["lines"]:
            cells = [
                _cell(cell, column["digits"]) for cell, column in zip(line["cells"], table["columns"], strict=True)
            ]
            rows.append([line["label"], *cells])
        names = [column["name"] for column in table["columns"]]
        tables[table["title"]] = _table(["", *names], rows) + f"\n\n{table['caption']}".rstrip()
    return tables


def _cell(cell: Any, digits: int) -> str:
    if cell is None:
        return "–"
    ours = f"{cell['mean']:,.{digits}f}" + (f" ±{cell['margin']:,.{digits}f}" if cell["margin"] else "")
    paper = "" if cell["paper"] is None else f" *({cell['paper']:,.{digits}f})*"
    return ours + paper


def quality() -> dict[str, str]:
    """How AdaptiveReleaf and others did on many data sets, and with few labels."""
    findings = [finding["detail"] for finding in json.loads(QUALITY.read_text(encoding="utf-8"))["findings"]]
    standings = [detail | {"relative": _geometric(detail)} for detail in findings if "ratios" in detail]
    standings.sort(key=lambda standing: standing["relative"])
    ranked = [
        [name, f"{each['relative']:.2f}", f"{each['mean_rank']:.1f}", f"{each['worst']:.1f} ({each['worst_on']})"]
        for each in standings
        for name in [_own(each)]
    ]
    problems = [detail for detail in findings if "best" in detail]
    shown = [each for each in standings if each["method"] in SHOWN]
    losses = [
        [problem["data"], f"{problem['features']}, {problem['actions']}"]
        + [_loss(each["losses"].get(problem["data"])) for each in shown]
        for problem in problems
    ]
    tables = {
        "ranks": _table(["policy", "loss, × the best's", "mean rank", "worst"], ranked),
        "losses": _table(["data set", "D, A", *(_own(each) for each in shown)], losses),
    }
    return tables | ({"labels": _labels()} if LABELS.exists() else {})


def _labels() -> str:
    """Loss by policy and budget: geometric means over data sets."""
    found = json.loads(LABELS.read_text(encoding="utf-8"))["findings"]
    losses: dict[tuple[str, str], dict[int, float]] = {}
    for finding in found:
        detail = finding["detail"]
        losses.setdefault((detail["order"], detail["policy"]), {})[detail["budget"]] = finding["value"]
    budgets = sorted({budget for each in losses.values() for budget in each}, key=lambda budget: budget or math.inf)
    rows = [
        [*key, *(f"{each[budget]:.2f}" if budget in each else "" for budget in budgets)] for key, each in losses.items()
    ]
    return _table(["order", "policy", *(f"{budget:,}" if budget else "all" for budget in budgets)], rows)


def _geometric(detail: dict[str, Any]) -> float:
    return float(np.exp(np.mean(np.log(list(detail["ratios"].values())))))


def _own(standing: dict[str, Any]) -> str:
    name = standing["method"]
    return f"**{name}**" if standing["package"] == "releaf" else str(name)


def _loss(loss: dict[str, float] | None) -> str:
    return "–" if loss is None or loss["mean"] is None else f"{100 * loss['mean']:.2f}"


def pages() -> dict[Path, str]:
    """The pages with their tables as they should be."""
    wanted = {ROOT / "docs" / "policies.md": {**properties(), "errors": errors()}}
    wanted[ROOT / "README.md"] = {"comparison": comparison_table.comparison()}
    wanted |= _by_page(evidence(), [ROOT / "docs" / "evidence.md", *sorted((ROOT / "docs" / "evidence").glob("*.md"))])
    wanted[ROOT / "docs" / "adaptive.md"] = quality()
    wanted[ROOT / "docs" / "explanation" / "off-policy-evaluation.md"] = coverage()
    wanted[ROOT / "docs" / "explanation" / "explanations.md"] = intervals()
    scale = {name: _table(headings, lines) for name, (headings, lines) in scale_tables.tables().items()}
    wanted[ROOT / "docs" / "explanation" / "scale.md"] = scale
    capacity = {name: _table(headings, lines) for name, (headings, lines) in capacity_tables.tables().items()}
    wanted[ROOT / "docs" / "how-to" / "capacity.md"] = capacity
    return {path: _with_tables(path, tables) for path, tables in wanted.items()}


def _by_page(tables: dict[str, str], paths: list[Path]) -> dict[Path, dict[str, str]]:
    """The tables of each page; each table has its place on one of them."""
    wanted: dict[Path, dict[str, str]] = {path: {} for path in paths}
    for name, table in tables.items():
        places = [path for path in paths if f"<!-- {name}: begin -->" in path.read_text(encoding="utf-8")]
        if len(places) != 1:
            raise SystemExit(f"the table “{name}” has its place on {len(places)} of the pages: expected one")
        wanted[places[0]][name] = table
    return wanted


def _with_tables(path: Path, tables: dict[str, str]) -> str:
    text = path.read_text(encoding="utf-8")
    for name, table in tables.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        if begin not in text:
            raise SystemExit(f"{path.name} has no place for the table “{name}”")
        before, _, rest = text.partition(begin)
        text = before + begin + table + "\n" + end + rest.partition(end)[2]
    return text


def main() -> None:
    for path, wanted in pages().items():
        if "--check" not in sys.argv:
            path.write_text(wanted, encoding="utf-8")
        elif wanted != path.read_text(encoding="utf-8"):
            raise SystemExit(f"{path.name} is behind: run python tools/make_doc_tables.py")


if __name__ == "__main__":
    main()
