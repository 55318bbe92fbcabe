"""The paper's webpage recommendations: on Yahoo!'s log where it is at hand, and on the Open Bandit Dataset."""

from __future__ import annotations

from typing import Any

import numpy as np

from releaf.evaluate import Run
from releaf.paper.experiment import Column, Figures, Picture, Results, line
from releaf.streams.files import find
from releaf.streams.webpages import CAMPAIGNS

YAHOO = "ydata-fp-td-clicks-v1_0.20090501.gz"  # the first day of the R6A data set

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
    Column("from", lambda ledger: 100.0 * ledger.reward_interval[0] if ledger.reward_interval else None),
    Column("to", lambda ledger: 100.0 * ledger.reward_interval[1] if ledger.reward_interval else None),
    Column("displays matched", lambda ledger: float(ledger.steps), 0),
)


class Webpages:
    """Table of the webpage recommendations."""

    name = "webpages"
    title = "Webpage recommendation"

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        return [
            Run(
                label=f"{name}, {where}",
                stream=stream,
                stream_arguments=arguments,
                policy=policy,
                policy_arguments=given,
                seed=seed,
            )
            for where, (stream, arguments) in self._logs(quick).items()
            for name, (policy, given) in POLICIES.items()
            for seed in range(seeds)
        ]

    def _logs(self, quick: bool) -> dict[str, tuple[str, dict[str, Any]]]:
        """Yahoo!'s log where it is at hand, and the campaigns of the Open Bandit Dataset."""
        logs: dict[str, tuple[str, dict[str, Any]]] = {}
        licensed = find(YAHOO)
        if licensed is not None:
            logs["Yahoo!"] = ("yahoo", {"path": str(licensed), "steps": 10_000, "articles": 5})
        for campaign in CAMPAIGNS[:1] if quick else CAMPAIGNS:
            logs[campaign] = ("open_bandit", {"campaign": campaign})
        return logs

    def figures(self, results: Results) -> list[Figures]:
        lines = []
        for label in results:
            paper = (PAPER.get(label.split(", ")[0]),) if label.endswith("Yahoo!") else ()
            measured = line(label, COLUMNS, results, paper)
            lines.append(measured._replace(ours=tuple([float(np.mean(values))] for values in measured.ours if values)))
        told = ", ".join(f"{name} {rate}" for name, rate in PAPER.items())
        return [
            Figures(
                "Webpage recommendation: 5 items of each log",
                COLUMNS,
                lines,
                "Unbiased replay of displays by chance; means over the runs of the rate and of its 95 % interval. "
                "“all”, “men” and “women” are campaigns of the Open Bandit Dataset. The paper's rates are of Yahoo!'s "
                f"front page, and can't be compared with those: {told} (%). Clicks in the campaigns are so few that no "
                "difference between policies means anything.",
            )
        ]

    def pictures(self, results: Results) -> list[Picture]:
        return []
