"""The table of verdicts that docs/evidence.md opens with: what the paper claims, and what came out here.

Figures are those of docs/results/figures.json; verdicts follow from them by one rule, so none is typed in.
"""

from __future__ import annotations

from typing import Any, NamedTuple

HEADINGS = ["claim", "in the paper", "the paper", "here", "verdict", "why, or what to know"]
REPRODUCED, NEAR = 0.10, 0.25  # of the paper's figure: what counts as the same, and as near
CANCER, BASELINES, INTRUSION = (
    "Breast cancer: RELEAF",
    "Breast cancer: baselines and AdaptiveReleaf",
    "Network intrusion",
)
DRAFT = "Synthetic stream of the draft: 12 features, 5 actions"
FOUND = "How often RELEAF finds the relevant feature, share of exploitations"
LABELS = "labels, their cost at c_O = 1"
EXPLOITING = "exploitation error %"
SHARE = "share of exploitations %"


class Claim(NamedTuple):
    """One claim: where the paper makes it, and the cell of our tables that speaks to it.

    ``rule`` is "same" where our figure must be the paper's within a tenth, "at most" where less is better, "at least"
    where more is, and "untestable" where the data is not at hand. ``paper`` is the paper's figure where the table has
    none; ``over`` names a line whose figure ours is divided by.
    """

    text: str
    where: str
    table: str
    line: str
    column: str
    rule: str = "same"
    note: str = ""
    paper: float | None = None
    over: str = ""


CLAIMS = (
    Claim("RELEAF asks for few labels: breast cancer", "`tab:schemes`", CANCER, "RELEAF", LABELS),
    Claim("its error while it exploits, %", "`tab:schemes`", CANCER, "RELEAF", "error %", "at most"),
    Claim(
        *("RELEAF-ALL's error, %", "`tab:schemes`", CANCER, "RELEAF-ALL", "error %", "at most"),
        "with intervals [a, b): see the table",
    ),
    Claim(
        *("RELEAF-FO's error, %", "`tab:schemes`", CANCER, "RELEAF-FO", "error %", "at most"),
        "open: goes with labels that the rule does not ask for",
    ),
    Claim(
        *("RELEAF-FO's labels", "`tab:schemes`", CANCER, "RELEAF-FO", LABELS, "same"),
        "open: each label serves both actions, so half as many are needed",
    ),
    Claim(
        *("LinUCB's error, %", "`tab:schemes`", BASELINES, "LinUCB, no constant feature", "error %", "same"),
        "without a constant feature; with one it is far lower",
        10.67,
    ),
    Claim(
        *("relevance of cell shape to “benign”, %", "`tab:relevancefreq`"),
        *("Relevance to “benign”, breast cancer", "3 cell shape uniformity", SHARE),
    ),
    Claim(
        *("… of clump thickness, %", "`tab:relevancefreq`"),
        *("Relevance to “benign”, breast cancer", "1 clump thickness", SHARE),
    ),
    Claim("network intrusion: RELEAF's labels", "`tab:schemeintrusion`", INTRUSION, "RELEAF", "labels"),
    Claim("its error, %", "`tab:schemeintrusion`", INTRUSION, "RELEAF", "error %", "at most"),
    Claim("its error while it exploits, %", "`tab:schemeintrusion`", INTRUSION, "RELEAF", EXPLOITING, "at most"),
    Claim("RELEAF-FO's labels", "`tab:schemeintrusion`", INTRUSION, "RELEAF-FO", "labels"),
    Claim("RELEAF-FO's error, %", "`tab:schemeintrusion`", INTRUSION, "RELEAF-FO", "error %", "at most"),
    Claim("LinUCB has the lowest error, %", "`tab:schemeintrusion`", INTRUSION, "LinUCB", "error %", "at most"),
    Claim("CZ's error, %", "`tab:schemeintrusion`", INTRUSION, "CZ", "error %", "same", "unexplained"),
    Claim(
        *("RELEAF-ALL has the highest click-through rate, %", "`tab:schemeyahoo`"),
        *("Webpage recommendation: a generated click log", "RELEAF-ALL", "expected click-through rate %", "untestable"),
        "Yahoo!'s log is not at hand; on the generated one LinUCB and AdaptiveReleaf are ahead",
        6.62,
    ),
    Claim(
        "draft's stream: regret a step", "Section on the synthetic dataset", DRAFT, "RELEAF", "regret a step", "at most"
    ),
    Claim("relevant feature found, action 1", "`tab:ORLrelevancy`", FOUND, "action 1, feature 3", "RELEAF"),
    Claim("… action 4", "`tab:ORLrelevancy`", FOUND, "action 4, feature 9", "RELEAF"),
    Claim(
        *("judging features one by one loses 0.1 a step for ever", "Lemma 1"),
        *("Lemma 1", "Greedy-RELEAF", "in the last half", "same", "", 0.1),
    ),
    Claim(
        *("regret grows at most as T to the 0.83, d = 1", "Theorem 5"),
        *("Growth of the regret", "RELEAF, d = 1, D = 50", "exponent of T", "at most"),
        "control numbers divided by 5000, for which no theorem speaks",
    ),
    Claim(
        *(
            "… to the 0.87, d = 2",
            "Theorem 5",
            "Growth of the regret",
            "RELEAF, d = 2, D = 6",
            "exponent of T",
            "at most",
        ),
        "likewise",
    ),
    Claim(
        *("regret is independent of D: D = 200 over D = 5", "Abstract, Theorem 5"),
        *("Regret against the number of features D", "RELEAF, D = 200", "regret a step", "same"),
        "the exponent is; the constants have D² and ln D, and regret grows slowly with D",
        1.0,
        "RELEAF, D = 5",
    ),
    Claim(
        *("bad actions are not exploited: runs within 8L(s + s′), %", "Theorem 1"),
        *("Exploitations within 8·L·(s + s′)", "L = 0.05, divisor 1", "runs within, %", "at least"),
    ),
    Claim(
        *("exploring and exploiting balance at ρ*", "Theorem 3"),
        *("Where exploring costs as much as exploiting", "divisor 1000", "R_O = R_I at ρ", "same"),
        "depends on the divisor: see the table",
    ),
)


def verdict(rule: str, ours: float, theirs: float) -> str:
    """Reproduced, near or not reproduced."""
    if rule == "untestable":
        return "not testable here"
    off = ours / theirs - 1.0
    if rule != "same":
        off = max(off if rule == "at most" else -off, 0.0)
    return "reproduced" if abs(off) <= REPRODUCED else "near" if abs(off) <= NEAR else "not reproduced"


def cell_of(tables: list[dict[str, Any]], claim: Claim, line: str) -> tuple[dict[str, Any], int]:
    """The cell of a line that a claim is about, and the digits that it is shown with."""
    for table in (table for table in tables if table["title"] == claim.table):
        for found in (found for found in table["lines"] if found["label"] == line):
            for cell, column in zip(found["cells"], table["columns"], strict=True):
                if column["name"] == claim.column and cell is not None:
                    return cell, column["digits"]
    raise SystemExit(f"figures.json has no “{claim.column}” of “{line}” in “{claim.table}”")


def rows(tables: list[dict[str, Any]], claims: tuple[Claim, ...] = CLAIMS) -> list[list[str]]:
    """A row for each claim."""
    made = []
    for claim in claims:
        cell, digits = cell_of(tables, claim, claim.line)
        theirs = cell["paper"] if claim.paper is None else claim.paper
        if claim.over:
            mean, shown = cell["mean"] / cell_of(tables, claim, claim.over)[0]["mean"], ""
            digits = 2
        else:
            mean, shown = cell["mean"], f" ±{cell['margin']:,.{digits}f}" if cell["margin"] else ""
        ours = f"{mean:,.{digits}f}{shown}"
        judged = verdict(claim.rule, mean, theirs)
        made.append([claim.text, claim.where, f"{theirs:,.{digits}f}", ours, f"**{judged}**", claim.note])
    return made
