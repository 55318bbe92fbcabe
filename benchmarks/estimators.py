"""The scikit-learn classifiers next to the learners they wrap: what checking, scaling and shuffling X costs.

Both sides learn the same 100,000 labelled rows of numbers, 10 features and 4 classes, from nothing. The learner is
handed features in [0, 1] and the rewards of all classes; the classifier is handed X and y.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import releaf
from benchmarks.measure import Finding, Say, in_turn
from benchmarks.workload import Array

ROWS, FEATURES, CLASSES = 100_000, 10, 4
REPETITIONS = 21  # the expected difference is a few hundredths, less than the noise of a busy machine
MOST = 1.2


def labelled_rows(seed: int) -> tuple[Array, Array]:
    """Rows of normal numbers; the class is the largest of the first few, give or take some noise."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(ROWS, FEATURES))
    return rows, np.argmax(rows[:, :CLASSES] + generator.gumbel(scale=0.3, size=(ROWS, CLASSES)), axis=1)


def run(say: Say) -> list[Finding]:
    from releaf.sklearn import AdaptiveReleafClassifier, ReleafClassifier

    rows, classes = labelled_rows(seed=0)
    fitted = AdaptiveReleafClassifier(random_state=0).fit(rows, classes)
    # In the order that the classifier takes, since the learner's work depends on it.
    order = np.random.RandomState(fitted._seed).permutation(ROWS)
    low, high = rows.min(axis=0), rows.max(axis=0)
    units, rewards = ((rows - low) / (high - low))[order], np.eye(CLASSES)[classes[order]]
    arrivals, taken = np.repeat(units, CLASSES, axis=0), np.tile(np.arange(CLASSES), ROWS)

    def adaptive() -> None:
        releaf.AdaptiveReleaf(CLASSES, FEATURES, observe="labels", seed=0).replay(units, rewards)

    def paper() -> None:
        learner = releaf.Releaf(CLASSES, FEATURES, observe="all-actions", seed=0)
        learner.learn_log(arrivals, taken, rewards.ravel())

    sides = {
        "AdaptiveReleafClassifier.fit": (lambda: AdaptiveReleafClassifier(random_state=0).fit(rows, classes), adaptive),
        "AdaptiveReleafClassifier.predict": (lambda: fitted.predict(rows), lambda: fitted.learner_.estimate(rows)),
        "ReleafClassifier.fit": (lambda: ReleafClassifier(random_state=0).fit(rows, classes), paper),
    }
    return [_compared(name, mine, bare, say) for name, (mine, bare) in sides.items()]


def _compared(name: str, mine: Callable[[], Any], bare: Callable[[], Any], say: Say) -> Finding:
    both = {"classifier": mine, "learner": bare}
    seconds = in_turn(both, repetitions=REPETITIONS, say=lambda text: say(f"{name}: {text}"))
    return Finding(
        what=f"{name}: its time over that of the bare learner",
        value=seconds["classifier"] / seconds["learner"],
        # RELEAF learns a row in 2 µs; next to that nothing is free, and its ranks least of all.
        at_most=MOST,
        detail={"seconds": seconds, "rows": ROWS, "repetitions": REPETITIONS, "features": FEATURES, "classes": CLASSES},
    )
