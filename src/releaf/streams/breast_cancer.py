"""The Wisconsin breast-cancer table as a stream of diagnoses to make, embedded in the package."""

from __future__ import annotations

import csv
from importlib import resources
from typing import Literal

import numpy as np

from releaf.streams.stream import Matrix, Stream

ACTIONS = ("benign", "malignant")
SET_ASIDE = 200  # rows at the top of the table that the paper trained base classifiers on
Rows = Literal["paper", "training", "complete"]


def breast_cancer(steps: int = 50_000, seed: int = 0, rows: Rows = "paper") -> Stream:
    """A stream of cases, drawn from rows of the table by repetition and shuffling, as in the paper.

    The right diagnosis earns 1, the wrong one 0. One minimum and maximum scales all nine features to [0, 1].

    Parameters
    ----------
    steps
        How many cases (T). All rows come equally often, up to one.
    seed
        For the order of the cases.
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
    names, grades, diagnoses = _table()
    chosen, lowest = _chosen(rows, grades)
    contexts = (np.nan_to_num(grades[chosen]) - lowest) / (10.0 - lowest)
    rewards = np.array([[diagnosis == action for action in ACTIONS] for diagnosis in diagnoses[chosen]], dtype=float)
    order = np.random.default_rng(seed).permutation(np.arange(steps) % len(contexts))
    return Stream(contexts[order], rewards[order], names, ACTIONS)


def _table() -> tuple[tuple[str, ...], Matrix, np.ndarray[tuple[int, ...], np.dtype[np.str_]]]:
    """The names of the features, all 699 rows with NaN for a missing grade, and their diagnoses."""
    text = resources.files("releaf").joinpath("data/breast_cancer.csv").read_text(encoding="utf-8")
    names, *rows = csv.reader(text.splitlines())
    grades = np.array([[float(grade or "nan") for grade in row[:-1]] for row in rows])
    return tuple(names[:-1]), grades, np.array([row[-1] for row in rows])


def _chosen(rows: Rows, grades: Matrix) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.intp]], float]:
    """The rows to take, and the lowest grade among them: 0 stands for a missing one."""
    every = np.arange(len(grades))
    if rows == "paper":
        return every[SET_ASIDE:], 0.0
    if rows == "training":
        return every[:SET_ASIDE], 0.0
    if rows == "complete":
        return every[~np.isnan(grades).any(axis=1)], 1.0
    raise ValueError(f"rows must be 'paper', 'training' or 'complete', got rows={rows!r}")
