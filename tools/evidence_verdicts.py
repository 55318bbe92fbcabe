"""The table of verdicts that docs/evidence.md opens with: what the paper claims, and what came out here.

Figures are those of docs/results/figures.json; verdicts follow from them by one rule, so none is typed in.
"""

from __future__ import annotations

from typing import Any, NamedTuple

HEADINGS = ["claim", "in the paper", "the paper", "here", "verdict", "why, or what to know"]
REPRODUCED, NEAR = 0.10, 0.25  # of the paper's figure: what counts as the same, and as near


class Claim(NamedTuple):
    """One claim: where the paper makes it, and the cell of our tables that speaks to it.

    ``rule`` is "same" where our figure must be the paper's within a tenth, "at most" where less is better, and "below"
    where it must be below the bound that stands beside it.
    """

    text: str
    where: str
    table: str
    line: str
    column: str
    rule: str = "same"
    note: str = ""


def verdict(rule: str, ours: float, theirs: float) -> str:
    """Reproduced, near or not reproduced."""
    if rule == "below":
        return "reproduced" if ours < theirs else "not reproduced"
    excess = ours / theirs - 1.0 if theirs else float(ours > 0)
    off = max(excess, 0.0) if rule == "at most" else abs(excess)
    return "reproduced" if off <= REPRODUCED else "near" if off <= NEAR else "not reproduced"


def cell_of(tables: list[dict[str, Any]], claim: Claim) -> tuple[dict[str, Any], int]:
    """Our figure and the paper's for a claim, and the digits that they are shown with."""
    for table in tables:
        if table["title"] != claim.table:
            continue
        for line in table["lines"]:
            if line["label"] == claim.line:
                for cell, column in zip(line["cells"], table["columns"], strict=True):
                    if column["name"] == claim.column and cell is not None:
                        return cell, column["digits"]
    raise SystemExit(f"figures.json has no “{claim.column}” of “{claim.line}” in “{claim.table}”")


def rows(tables: list[dict[str, Any]], claims: tuple[Claim, ...]) -> list[list[str]]:
    """A row for each claim."""
    made = []
    for claim in claims:
        cell, digits = cell_of(tables, claim)
        ours = f"{cell['mean']:,.{digits}f}" + (f" ±{cell['margin']:,.{digits}f}" if cell["margin"] else "")
        judged = verdict(claim.rule, cell["mean"], cell["paper"])
        made.append([claim.text, claim.where, f"{cell['paper']:,.{digits}f}", ours, f"**{judged}**", claim.note])
    return made
