"""The Wisconsin breast-cancer data set, bundled with the package, as a stream of diagnoses."""

from __future__ import annotations

import csv
from importlib import resources
from typing import Literal

import numpy as np

from releaf.arrays import Matrix
from releaf.streams.stream import Stream

ACTIONS = ("benign", "malignant")
TRAINING_ROWS = 200  # first rows of the table, on which the paper trained base classifiers
RowSelection = Literal["paper", "training", "complete"]


def breast_cancer(steps: int = 50_000, seed: int = 0, rows: RowSelection = "paper") -> Stream:
    """A stream of patients: rows of the table, repeated and shuffled, as in the paper.

    The right diagnosis earns 1, the wrong one 0. One minimum and maximum scales all nine features to [0, 1].

    Parameters
    ----------
    steps
        Number of steps (T). The frequencies of rows differ by one at most.
    seed
        Seed of the order.
    rows
        "paper": the 499 rows that the paper's percentages are fractions of, rows 200 to 698 counted from 0, of which
        157 are malignant; a missing value is 0, so grades are scaled to x / 10. "training": the 200 rows before
        them, scaled alike, which base classifiers may be trained on. "complete": the 683 rows of the whole table
        without a missing value, scaled to (x - 1) / 9.

    Examples
    --------
    >>> stream = breast_cancer(steps=499)
    >>> stream.contexts.shape, int(stream.rewards[:, 1].sum())
    ((499, 9), 157)
    """
    if steps < 1:
        raise ValueError(f"steps={steps}: expected at least one case")
    names, grades, diagnoses = _table()
    chosen, lowest = _chosen(rows, grades)
    contexts = (np.nan_to_num(grades[chosen]) - lowest) / (10.0 - lowest)
    rewards = np.array([[diagnosis == action for action in ACTIONS] for diagnosis in diagnoses[chosen]], dtype=float)
    order = np.random.default_rng(seed).permutation(np.arange(steps) % len(contexts))
    return Stream(contexts[order], rewards[order], names, ACTIONS)


def _table() -> tuple[tuple[str, ...], Matrix, np.ndarray[tuple[int, ...], np.dtype[np.str_]]]:
    """Feature names, all 699 rows with NaN for a missing grade, and their diagnoses."""
    text = resources.files("releaf").joinpath("data/breast_cancer.csv").read_text(encoding="utf-8")
    names, *rows = csv.reader(text.splitlines())
    grades = np.array([[float(grade or "nan") for grade in row[:-1]] for row in rows])
    return tuple(names[:-1]), grades, np.array([row[-1] for row in rows])


def _chosen(rows: RowSelection, grades: Matrix) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.intp]], float]:
    """The selected rows, and the lowest grade for scaling; a missing grade counts as 0."""
    every = np.arange(len(grades))
    if rows == "paper":
        return every[TRAINING_ROWS:], 0.0
    if rows == "training":
        return every[:TRAINING_ROWS], 0.0
    if rows == "complete":
        return every[~np.isnan(grades).any(axis=1)], 1.0
    raise ValueError(f"rows must be 'paper', 'training' or 'complete', got rows={rows!r}")
