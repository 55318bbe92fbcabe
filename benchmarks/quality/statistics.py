"""Statistics of the comparison: significant wins, mean ranks, cliques of a critical-difference diagram, ratios.

Wins are those of A. Bietti, A. Agarwal and J. Langford, "A contextual bandit bake-off" (JMLR 22, 2021). Ranks over
data sets are J. Demšar's (JMLR 7, 2006); cliques are of Wilcoxon's signed-rank test with Holm's correction, as
A. Benavoli, G. Corani and F. Mangili advise (JMLR 17, 2016), since Nemenyi's test of two methods depends on the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import NormalDist

import numpy as np

from benchmarks.quality.problems import Array

LEVEL = 0.05
Losses = Mapping[str, Mapping[str, Sequence[float]]]  # by method and data set, one for each seed


def is_better(first: float, second: float, examples: int, level: float = LEVEL) -> bool:
    """Whether a loss is significantly less than another, by the approximate Z test of Bietti et al.

    Both are means over ``examples`` steps of losses in [0, 1], whose variance is loss · (1 - loss) at most.
    """
    variance = (first * (1 - first) + second * (1 - second)) / examples
    if variance <= 0:
        return first < second
    return 1 - NormalDist().cdf((second - first) / math.sqrt(variance)) < level


def wins(losses: Losses, examples: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """On how many data sets each method is significantly better than each other, by method and other method.

    Two methods are compared on the data sets and shuffles that both ran on. Shuffles are averaged but do not count as
    more examples, and neither do repeated rows.
    """
    counts = {name: dict.fromkeys(losses, 0) for name in losses}
    for first, second in combinations(losses, 2):
        for data in losses[first].keys() & losses[second].keys():
            mine, other = paired(losses[first][data], losses[second][data])
            counts[first][second] += is_better(mine, other, examples[data])
            counts[second][first] += is_better(other, mine, examples[data])
    return counts


def paired(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """The means over the seeds that both have."""
    seeds = min(len(first), len(second))
    return float(np.mean(first[:seeds])), float(np.mean(second[:seeds]))


def mean_ranks(losses: Losses, data_sets: Sequence[str]) -> dict[str, float]:
    """The mean place of each method, among those that ran on the same data set; equals share a place."""
    table = _table(losses, data_sets)
    below = (table[:, None, :] < table[None, :, :]).sum(axis=0)
    equal = (table[:, None, :] == table[None, :, :]).sum(axis=0)
    ranks = np.where(np.isnan(table), np.nan, 1 + below + (equal - 1) / 2)
    return dict(zip(losses, np.nanmean(ranks, axis=1).tolist(), strict=True))


def _table(losses: Losses, data_sets: Sequence[str]) -> Array:
    """Methods × data sets: mean losses, NaN where a method did not run."""
    return np.array([[np.mean(each.get(data, [math.nan])) for data in data_sets] for each in losses.values()])


def holm(values: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Which of several p values are significant together, by Holm's step-down procedure."""
    order = np.argsort(values)
    rejected = [False] * len(values)
    for place, index in enumerate(order):
        if values[index] > level / (len(values) - place):
            break
        rejected[index] = True
    return rejected


def cliques(losses: Losses, data_sets: Sequence[str]) -> list[list[str]]:
    """Groups of methods, the best first, no two of which differ significantly: the bars of the diagram.

    All must have run on all of the data sets. A group holds methods that follow each other by mean rank; a group inside
    another is left out.
    """
    from scipy.stats import wilcoxon

    ranks = mean_ranks(losses, data_sets)
    names = sorted(losses, key=lambda name: ranks[name])
    table = dict(zip(losses, _table(losses, data_sets), strict=True))
    pairs = list(combinations(names, 2))
    values = [
        1.0 if np.array_equal(table[first], table[second]) else float(wilcoxon(table[first], table[second]).pvalue)
        for first, second in pairs
    ]
    differ = {pair for pair, significant in zip(pairs, holm(values), strict=True) if significant}
    groups: list[list[str]] = []
    for start in range(len(names)):
        end = start + 1
        while end < len(names) and not any((names[inside], names[end]) in differ for inside in range(start, end)):
            end += 1
        if end - start > 1 and not (groups and names[end - 1] in groups[-1]):
            groups.append(names[start:end])
    return groups


def ratio(loss: float, other: float, steps: int) -> float:
    """A loss over another. Half a wrong action in the whole stream stands for none."""
    none = 0.5 / steps
    return max(loss, none) / max(other, none)


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(float(np.mean(np.log(values))))
