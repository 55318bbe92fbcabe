"""Relevance on real tables of several classes, next to yardsticks that know all labels."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.evaluate import Run
from releaf.paper.bundled import available, load
from releaf.paper.experiment import Results, seeded_runs
from releaf.report.figures import Column, Figures, Line, Picture

TOP = 3  # features that are compared
MOST_ROWS = 1_000  # of a table, for the yardsticks
TREES, REPEATS = 30, 3
STEPS = {"wine": 5_000, "segments": 5_000}
QUICK_STEPS, MOST_SEEDS = 1_000, 5
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "RELEAF": ("Releaf", {}),
    "AdaptiveReleaf": ("AdaptiveReleaf", {}),
    "AdaptiveReleaf, uniform": ("AdaptiveReleaf", {"least_probability": 0.5}),  # counts as 1/A
}
INFORMATION, IMPORTANCE = "mutual information", "permutation importance"
COLUMNS = (
    Column(f"with {INFORMATION} %", digits=0),
    Column(f"with {IMPORTANCE} %", digits=0),
    Column("by chance %", digits=0),
)
CAPTION = (
    f"Of the {TOP} features with the highest relevance to a class, the share that are also the {TOP} highest of a "
    f"yardstick, averaged over the classes. Yardsticks see all labels of {MOST_ROWS:,} rows at most: the mutual "
    "information of each feature by itself with “is it this class”, and the permutation importance to a one-vs-rest "
    f"forest. Learners see the rewards of their own actions only, over {STEPS['wine']:,} steps, in which rows recur; "
    f"{MOST_SEEDS} seeds at most."
)


class Agreement:
    """Tables in which every class has relevant features of its own."""

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        runs = []
        for table in ("wine",) if quick else available():
            stream = {"name": table, "steps": QUICK_STEPS if quick else STEPS[table]}
            for name, learner in LEARNERS.items():
                label, seeds = f"{name}; {table}", min(seeds, MOST_SEEDS)
                runs += seeded_runs(seeds, label, *learner, "releaf.paper.bundled:bundled", stream)
        return runs

    def figures(self, results: Results) -> list[Figures]:
        lines = []
        for table in _tables(results):
            information, importance = yardsticks(table)
            chance = 100.0 * TOP / information.shape[1]
            for name in LEARNERS:
                found = [np.array(ledger.relevance) for ledger in results[f"{name}; {table}"]]
                agreed = [[100.0 * overlap(one, other) for one in found] for other in (information, importance)]
                lines.append(Line(f"{table}: {name}", (None,) * len(COLUMNS), (*agreed, [chance])))
            between = 100.0 * overlap(information, importance)
            lines.append(Line(f"{table}: {INFORMATION}", (None,) * len(COLUMNS), ([], [between], [chance])))
        return [Figures("Relevant features of real classes: agreement with yardsticks", COLUMNS, lines, CAPTION)]

    def pictures(self, results: Results) -> list[Picture]:
        return [self._map(table, results) for table in _tables(results)]

    def _map(self, table: str, results: Results) -> Picture:
        """For each class what learners and the yardstick find, and how many of the yardstick's highest are the same."""
        _, classes, features = load(table)
        _, importance = yardsticks(table)
        found = {
            name: np.mean([np.array(ledger.relevance) for ledger in results[f"{name}; {table}"]], axis=0)
            for name in LEARNERS
        }
        rows = []
        for index, action in enumerate(sorted(set(classes.tolist()))):
            for name, shares in {IMPORTANCE: importance, **found}.items():
                same = len(top(shares[index]) & top(importance[index]))
                row = f"{action}: {name}" + ("" if name == IMPORTANCE else f" ({same} of {TOP})")
                values = shares[index] / (shares[index].sum() or 1.0)
                rows += [{"x": x, "y": row, "value": v} for x, v in zip(features, values.tolist(), strict=True)]
        caption = (
            f"Shares of a row sum to 100 %. In brackets: how many of the {TOP} highest are those of the {IMPORTANCE}."
        )
        return Picture(f"Which features matter to which class: {table}", "heat", rows, "", "", "share", caption=caption)


def top(shares: Array) -> set[int]:
    """The features with the highest shares, none where all are 0."""
    return {int(index) for index in np.argsort(-shares, kind="stable")[:TOP] if shares[index] > 0}


def overlap(one: Array, other: Array) -> float:
    """The share of the highest features of each action that two tables (A × D) have in common."""
    return float(np.mean([len(top(mine) & top(theirs)) / TOP for mine, theirs in zip(one, other, strict=True)]))


@cache
def yardsticks(table: str) -> tuple[Array, Array]:
    """Mutual information and permutation importance of each feature, for each class against the others (A × D)."""
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.feature_selection import mutual_info_classif
    from sklearn.inspection import permutation_importance

    values, classes, _ = load(table)
    order = np.random.default_rng(0).permutation(len(values))[:MOST_ROWS]
    values, classes = values[order], classes[order]
    fitted, held_out = slice(len(order) // 2), slice(len(order) // 2, None)
    information, importance = [], []
    for action in sorted(set(classes.tolist())):
        right = classes == action
        information.append(mutual_info_classif(values, right, random_state=0))
        forest = ExtraTreesClassifier(TREES, random_state=0).fit(values[fitted], right[fitted])
        measured = {"n_repeats": REPEATS, "random_state": 0, "scoring": "neg_brier_score"}
        found = permutation_importance(forest, values[held_out], right[held_out], **measured)
        importance.append(np.maximum(found.importances_mean, 0.0))
    return np.array(information), np.array(importance)


def _tables(results: Results) -> list[str]:
    return list(dict.fromkeys(label.split("; ")[1] for label in results if label.split("; ")[1] in STEPS))
