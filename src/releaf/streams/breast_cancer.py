"""The Wisconsin breast-cancer table as a stream of diagnoses to make, embedded in the package."""

from __future__ import annotations

import csv
from importlib import resources

import numpy as np

from releaf.streams.stream import Stream

ACTIONS = ("benign", "malignant")


def breast_cancer(steps: int = 50_000, seed: int = 0) -> Stream:
    """A stream of cases, drawn from the 683 complete rows by repetition and shuffling, as in the paper.

    The nine features are scaled by their minimum and maximum. The right diagnosis earns 1, the wrong one 0.
    The paper tells 69 % of the cases to be benign; in the table 65 % of the complete rows are.

    Parameters
    ----------
    steps
        How many cases. All rows come equally often, up to one.
    seed
        For the order of the cases.

    Examples
    --------
    >>> stream = breast_cancer(steps=683)
    >>> stream.contexts.shape, int(stream.rewards[:, 0].sum())
    ((683, 9), 444)
    """
    text = resources.files("releaf").joinpath("data/breast_cancer.csv").read_text(encoding="utf-8")
    names, *rows = csv.reader(text.splitlines())
    complete = [row for row in rows if all(row)]
    grades = np.array([row[:-1] for row in complete], dtype=np.float64)
    contexts = (grades - grades.min(axis=0)) / (grades.max(axis=0) - grades.min(axis=0))
    rewards = np.array([[row[-1] == action for action in ACTIONS] for row in complete], dtype=np.float64)
    order = np.random.default_rng(seed).permutation(np.arange(steps) % len(complete))
    return Stream(contexts[order], rewards[order], tuple(names[:-1]), ACTIONS)
