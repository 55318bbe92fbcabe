"""Write the tables of docs/policies.md: what each policy needs and does, and how it did when last measured.

python tools/make_policy_tables.py           write them
python tools/make_policy_tables.py --check   fail where they are not what they should be
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import releaf
from releaf import ensembles, policies

ROOT = Path(__file__).parents[1]
PAGE, MEASURED = ROOT / "docs" / "policies.md", ROOT / "benchmarks" / "results" / "policies.json"
ORDER = (
    *("Releaf", "GreedyReleaf", "CMABRL", "ContextualZooming", "HybridEpsilon", "LinUCB", "LinTS"),
    *("LinearEpsilonGreedy", "UCB1", "EpsilonGreedy", "Random"),
    *("AverageMajority", "AdaBoost", "OnlineAdaBoost", "Blum", "WeightedMajority", "FixedShare"),
)
HEADINGS = ("base classifiers", "prior training", "learns online", "learns actively", "uses context", "finds relevance")


def policy(name: str) -> Any:
    return getattr(policies, name, None) or getattr(ensembles, name)


def full_name(name: str) -> str:
    return f"releaf.{name}" if name in releaf.__all__ else f"releaf.ensembles.{name}"


def properties() -> str:
    rows = []
    for name in ORDER:
        title, source, *facts, observes = policy(name).traits
        marks = ["required" if fact and place < 2 else "yes" if fact else "no" for place, fact in enumerate(facts)]
        rows.append([f"**{title}**", f"`{full_name(name)}`", *marks, observes, source])
    return _table(["policy", "class", *HEADINGS, "what is observed", "from"], rows)


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


def _table(headings: list[str], rows: list[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page() -> str:
    """The page with its tables as they should be."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in (("properties", properties()), ("errors", errors())):
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        before, _, rest = text.partition(begin)
        text = before + begin + table + "\n" + end + rest.partition(end)[2]
    return text


def main() -> None:
    wanted = page()
    if "--check" not in sys.argv:
        PAGE.write_text(wanted, encoding="utf-8")
    elif wanted != PAGE.read_text(encoding="utf-8"):
        raise SystemExit(f"{PAGE.name} is behind: run python tools/make_policy_tables.py")


if __name__ == "__main__":
    main()
