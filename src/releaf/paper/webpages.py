"""The paper's webpage recommendations: on the Open Bandit Dataset, since Yahoo!'s log may not be passed on."""

from __future__ import annotations

from releaf.evaluate import Run
from releaf.paper.experiment import Column, Figures, Picture, Results, line
from releaf.streams.webpages import CAMPAIGNS

POLICIES = {
    "CZ": ("ContextualZooming", {}),
    "Hybrid-ε": ("HybridEpsilon", {}),
    "LinUCB": ("LinUCB", {}),
    "RELEAF-ALL": ("Releaf", {"observe": "always"}),
    "Random": ("Random", {}),
}
PAPER = {"CZ": 3.79, "Hybrid-ε": 6.41, "LinUCB": 6.06, "RELEAF-ALL": 6.62}
COLUMNS = (
    Column("click-through rate %", lambda ledger: 100.0 * ledger.reward),
    Column("displays matched", lambda ledger: float(ledger.steps), 0),
)


class Webpages:
    """Table of the webpage recommendations."""

    name = "webpages"
    title = "Webpage recommendation"

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        return [
            Run(
                label=f"{name}, {campaign}",
                stream="open_bandit",
                stream_arguments={"campaign": campaign},
                policy=policy,
                policy_arguments=given,
                seed=seed,
            )
            for campaign in (CAMPAIGNS[:1] if quick else CAMPAIGNS)
            for name, (policy, given) in POLICIES.items()
            for seed in range(seeds)
        ]

    def figures(self, results: Results) -> list[Figures]:
        lines = [
            line(f"{name}, {campaign}", COLUMNS, results)
            for campaign in CAMPAIGNS
            for name in POLICIES
            if f"{name}, {campaign}" in results
        ]
        told = ", ".join(f"{name} {rate}" for name, rate in PAPER.items())
        return [
            Figures(
                "Webpage recommendation: Open Bandit Dataset, 5 items of each campaign",
                COLUMNS,
                lines,
                "Unbiased replay of displays by chance. The paper's rates are of Yahoo!'s front page and can't be "
                f"compared: {told} (%). Clicks here are so few that no difference between policies means anything.",
            )
        ]

    def pictures(self, results: Results) -> list[Picture]:
        return []
