"""The `Experiment` protocol of the paper's experiments, and helpers to build their tables and charts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from releaf.evaluate import Ledger, Run
from releaf.report.figures import Column, Figures, Line, Picture

Results = Mapping[str, list[Ledger]]  # the ledgers of each label's runs, one for each seed


class Experiment(Protocol):
    """One of the paper's experiments."""

    name: str
    title: str

    def runs(self, seeds: int, quick: bool) -> list[Run]:
        """All that is to be run; ``quick`` takes fewer steps."""
        ...

    def figures(self, results: Results) -> list[Figures]:
        """The tables."""
        ...

    def pictures(self, results: Results) -> list[Picture]:
        """The pictures."""
        ...


def seeded_runs(
    seeds: int, label: str, policy: str, arguments: dict[str, Any], stream: str, about: dict[str, Any]
) -> list[Run]:
    """Runs of a policy with the seeds 0, 1, …, which are the stream's too."""
    return [
        Run(
            label=label,
            policy=policy,
            policy_arguments=arguments,
            stream=stream,
            stream_arguments={**about, "seed": seed},
            seed=seed,
        )
        for seed in range(seeds)
    ]


def curves(results: Results, labels: Iterable[str], of: str) -> list[dict[str, Any]]:
    """Running totals over time, averaged over the seeds, as rows of a picture."""
    rows = []
    for label in labels:
        ledgers = results.get(label, [])
        if ledgers:
            totals = np.mean([ledger.curves[of] for ledger in ledgers], axis=0)
            steps = ledgers[0].curves["steps"]
            rows += [{"series": label, "x": x, "y": float(y)} for x, y in zip(steps, totals, strict=True)]
    return rows


def shares(results: Results, label: str) -> Any:
    """For each action the share of exploitations in which each feature was relevant, averaged over the seeds."""
    return np.mean([np.array(ledger.relevance) for ledger in results[label]], axis=0)


def line(label: str, columns: tuple[Column, ...], results: Results, paper: tuple[float | None, ...] = ()) -> Line:
    """The figures of one label's runs."""
    ours = []
    for column in columns:
        found = [column.find(ledger) for ledger in results.get(label, [])]
        ours.append([value for value in found if value is not None and value == value])
    return Line(label, (*paper, *(None,) * (len(columns) - len(paper))), tuple(ours))
