"""Which features RELEAF found relevant: the paper's table for breast cancer and network intrusion."""

from __future__ import annotations

import numpy as np

from releaf.evaluate import Run
from releaf.paper import breast_cancer, intrusion
from releaf.paper.experiment import Column, Experiment, Figures, Line, Picture, Results, shares
from releaf.streams.intrusion import FEATURES

SHOWN = 6
SHARE = (Column("share of exploitations %", lambda ledger: None, 1),)
NAMES = {
    "breast cancer": (
        *("clump thickness", "cell size uniformity", "cell shape uniformity", "marginal adhesion"),
        *("epithelial cell size", "bare nuclei", "bland chromatin", "normal nucleoli", "mitoses"),
    ),
    "network intrusion": tuple(FEATURES),
}
PAPER = {"breast cancer": breast_cancer.PAPER_RELEVANCE, "network intrusion": intrusion.PAPER_RELEVANCE}
ACTIONS = {"breast cancer": "benign", "network intrusion": "attack"}


class Relevance:
    """Table of the highest rates of relevance."""

    name = "relevance"
    title = "Identifying the relevant features"

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        cases: dict[str, Experiment] = {
            "breast cancer": breast_cancer.BreastCancer(),
            "network intrusion": intrusion.Intrusion(),
        }
        return [
            Run(**{**run.to_dict(), "label": name})
            for name, experiment in cases.items()
            for run in experiment.runs(seeds, quick)
            if run.label == "RELEAF"
        ]

    def figures(self, results: Results) -> list[Figures]:
        return [self._table(name, results) for name in results]

    def _table(self, name: str, results: Results) -> Figures:
        """The features that were relevant most often, ours and the paper's."""
        found = [np.array(ledger.relevance)[0] for ledger in results[name] if ledger.relevance]
        ours, paper = np.mean(found, axis=0), PAPER[name]
        order = [int(place) for place in np.argsort(-ours)[:SHOWN]]
        caption = "The paper names the four highest only."
        if name == "network intrusion":
            told = ", ".join(f"{feature} ({share:g} %)" for feature, share in paper.items())
            caption = (
                f"The paper names its features {told}, but not which ones they are, so there is nothing to compare."
            )
            paper = {}
        order += [feature - 1 for feature in paper if feature - 1 not in order]
        lines = []
        for place in order:
            shares_found = [100 * float(share[place]) for share in found]
            lines.append(Line(f"{place + 1} {NAMES[name][place]}", (paper.get(place + 1),), (shares_found,)))
        return Figures(f"Relevance to “{ACTIONS[name]}”, {name}", SHARE, lines, caption)

    def pictures(self, results: Results) -> list[Picture]:
        pictures = []
        for name in results:
            table = shares(results, name)
            actions = ("benign", "malignant") if name == "breast cancer" else ("attack", "no attack")
            rows = [
                {"x": NAMES[name][feature], "y": action, "value": float(table[place][feature])}
                for place, action in enumerate(actions)
                for feature in range(table.shape[1])
            ]
            pictures.append(Picture(f"Relevance, {name}", "heat", rows, "feature", "", "share"))
            cuts = [
                {"y": NAMES[name][feature], "low": low, "high": high, "value": arrivals}
                for feature, parts in enumerate(results[name][0].partition or [])
                for low, high, arrivals in parts
            ]
            caption = "The intervals at the end of one run; the darker, the more contexts came since it is there."
            title = f"Partition of each feature, {name}"
            pictures.append(Picture(title, "intervals", cuts, "value, scaled to [0, 1]", "", caption=caption))
        return pictures
