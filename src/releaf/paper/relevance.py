"""Which features RELEAF found relevant: the paper's table for breast cancer, network intrusion and webpages."""

from __future__ import annotations

import numpy as np

from releaf.evaluate import Run
from releaf.paper import breast_cancer, intrusion, webpages
from releaf.paper.experiment import Experiment, Results, shares
from releaf.report.figures import Column, Figures, Line, Picture
from releaf.streams.clicks import ARTICLES, CLICK_RELEVANCE, USER_FEATURES
from releaf.streams.intrusion import ACTIONS as VERDICTS
from releaf.streams.intrusion import FEATURES

SHOWN = 6
PAGES = "generated click log"
SHARE = (Column("share of exploitations %", digits=1),)
NAMES = {
    "breast cancer": (
        *("clump thickness", "cell size uniformity", "cell shape uniformity", "marginal adhesion"),
        *("epithelial cell size", "bare nuclei", "bland chromatin", "normal nucleoli", "mitoses"),
    ),
    "network intrusion": tuple(FEATURES),
    PAGES: USER_FEATURES,
}
ACTIONS = {"breast cancer": ("benign", "malignant"), "network intrusion": VERDICTS, PAGES: ARTICLES}
# For each action of a table, counted from 0: the shares that the paper tells, in percent, by feature from 1 on.
PAPER: dict[str, dict[int, dict[int, float]]] = {
    "breast cancer": {0: breast_cancer.PAPER_RELEVANCE},
    "network intrusion": {0: intrusion.PAPER_RELEVANCE},
    PAGES: {0: {3: 46.0, 1: 44.0, 2: 8.0, 4: 1.0}, 1: {2: 57.0, 1: 32.0, 5: 9.0, 4: 1.0}},
}
RUNS: dict[str, tuple[Experiment, str]] = {
    "breast cancer": (breast_cancer.BreastCancer(), "RELEAF"),
    "network intrusion": (intrusion.Intrusion(), "RELEAF"),
    PAGES: (webpages.Webpages(), "RELEAF-ALL"),
}


class RelevanceOfFeatures:
    """Table of the highest rates of relevance."""

    name = "relevance"
    title = "Identifying the relevant features"

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        return [
            Run(**{**run.to_dict(), "label": name})
            for name, (experiment, label) in RUNS.items()
            for run in experiment.runs(seeds, quick)
            if run.label == label
        ]

    def figures(self, results: Results) -> list[Figures]:
        return [self._table(name, action, results) for name in results for action in PAPER[name]]

    def _table(self, name: str, action: int, results: Results) -> Figures:
        """The features that were relevant to an action most often, ours and the paper's."""
        found = [np.array(ledger.relevance)[action] for ledger in results[name] if ledger.relevance]
        ours, printed = np.mean(found, axis=0), PAPER[name][action]
        paper = printed if name == "breast cancer" else {}
        order = [int(index) for index in np.argsort(-ours)[:SHOWN]]
        order += [feature - 1 for feature in paper if feature - 1 not in order]
        lines = []
        for index in order:
            shares_found = [100 * float(share[index]) for share in found]
            lines.append(Line(f"{index + 1} {NAMES[name][index]}", (paper.get(index + 1),), (shares_found,)))
        title = f"Relevance to “{ACTIONS[name][action]}”, {name}"
        return Figures(title, SHARE, lines, _caption(name, action, printed))

    def pictures(self, results: Results) -> list[Picture]:
        pictures = []
        for name in results:
            table = shares(results, name)
            rows = [
                {"x": NAMES[name][feature], "y": action, "value": float(table[index][feature])}
                for index, action in enumerate(ACTIONS[name])
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


def _caption(name: str, action: int, paper: dict[int, float]) -> str:
    shares_text = ", ".join(f"{feature} ({share:g} %)" for feature, share in paper.items())
    if name == "network intrusion":
        return f"The paper names its features {shares_text}, but not which ones they are; nothing can be compared."
    if name != PAGES:
        return "The paper names the four highest only."
    planted = " and ".join(str(feature + 1) for feature in CLICK_RELEVANCE[action])
    return (
        f"RELEAF-ALL on the {PAGES}, whose click rate for this article depends on the features {planted}, "
        f"chosen after the two that the paper has first for its webpage {'ab'[action]} of Yahoo!'s log "
        f"({shares_text}); it looks for one feature (γ_rel = 1), so that the shares can't be compared."
    )
