"""Altair charts of learners and runs: relevance, regret, labels and partitions; and of off-policy evaluation.

Notebooks display them, and ``chart.save("x.png")``, ``"x.svg"`` or ``"x.html"`` writes a file that needs no network.
They are Altair charts, so ``chart.properties(title="Clicks")`` and the like work.

Functions take one result, a list of results, or a mapping from names to results, in which a list holds several runs of
one policy, for example with different seeds. Results of a list are named by their policy.

>>> import releaf
>>> from releaf.evaluate import run
>>> from releaf.streams import breast_cancer
>>> cases = breast_cancer(2_000)
>>> bandit = releaf.Releaf(cases.actions, cases.features, seed=0)
>>> ledger = run(bandit, cases)
>>> chart = releaf.plot.relevance(bandit)
>>> chart = releaf.plot.regret({"RELEAF": ledger})
"""

from __future__ import annotations

from releaf.plot.curves import labels, regret
from releaf.plot.heat_map import relevance
from releaf.plot.off_policy import calibration, estimates, overlap, sensitivity, weights
from releaf.plot.partitions import partition

__all__ = [
    "calibration",
    "estimates",
    "labels",
    "overlap",
    "partition",
    "regret",
    "relevance",
    "sensitivity",
    "weights",
]
