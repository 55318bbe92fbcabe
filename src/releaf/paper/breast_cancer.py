"""The paper's breast-cancer experiment: what it reports, and the settings under which ours comes nearest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from releaf.policies import Releaf
from releaf.policy import Trace
from releaf.streams import Stream, breast_cancer

# The paper names neither L nor ρ nor δ; from L = 1.5 on, the number of labels is near the paper's 2,630.
SETTINGS: dict[str, Any] = {"lipschitz": 1.5, "rho": None, "delta": 0.01, "control_divisor": 5000}
VARIANTS = {"RELEAF": "explored", "RELEAF-ALL": "always", "RELEAF-FO": "all-actions"}


class Figures(NamedTuple):
    """One row of the paper's table. Errors are of exploitations, in percent.

    ``missed`` are malignant cases called benign, as a share of the malignant; ``false`` alarms a share of the benign.
    """

    error: float
    missed: float
    false: float
    labels: float


PAPER = {
    "RELEAF": Figures(1.88, 1.93, 1.86, 2630),
    "RELEAF-ALL": Figures(1.24, 1.19, 1.36, 50_000),
    "RELEAF-FO": Figures(1.68, 1.34, 1.82, 2630),
}
# Share of exploitations in which a feature (counted from 1) was relevant to "predict benign".
PAPER_RELEVANCE = {3: 27.0, 1: 22.0, 7: 21.0, 2: 12.0}


class Result(NamedTuple):
    figures: Figures
    total_error: float  # of all decisions, in percent
    relevance: np.ndarray[Any, np.dtype[np.float64]]  # of each feature to "benign", in percent


def run(variant: str, seed: int, steps: int = 50_000, chunks: int = 1) -> Iterator[Result | None]:
    """Run one variant on one shuffle of the cases. Yields None after each chunk, to show progress, then the result."""
    stream = breast_cancer(steps, seed)
    bandit = Releaf(stream.actions, stream.features, seed=seed, observe=VARIANTS[variant], **SETTINGS)  # type: ignore[arg-type]
    traces = []
    for part in np.array_split(np.arange(steps), chunks):
        traces.append(bandit.replay(stream.contexts[part], stream.rewards[part]))
        yield None
    fields = ("actions", "explored", "observed", "rewards")
    trace = Trace(*(np.concatenate([getattr(part, field) for part in traces]) for field in fields))
    figures = summarise(trace, stream)
    yield Result(figures, 100 * float(np.mean(trace.rewards < 1)), 100 * bandit.relevance()[0])


def summarise(trace: Trace, stream: Stream) -> Figures:
    """The paper's figures for a run."""
    exploited = ~trace.explored
    wrong = trace.rewards < 1
    malignant = stream.rewards[:, 1] == 1

    def percent(of: np.ndarray[Any, np.dtype[np.bool_]]) -> float:
        return 100 * float(np.mean(wrong[of])) if of.any() else float("nan")

    labels = float(trace.observed.sum())
    return Figures(percent(exploited), percent(exploited & malignant), percent(exploited & ~malignant), labels)
