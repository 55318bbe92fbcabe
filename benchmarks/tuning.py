"""Whether each baseline's defaults are fair: its regret with them over that with the best of a grid.

Over three streams that differ as much as can be: breast cancer (labels), the draft's synthetic stream (noise), and
generated ones where two features matter together. The shuffles are others than those the policies are compared on.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

import releaf
from benchmarks.measure import Finding, Say
from releaf.streams import breast_cancer, draft, generate

STEPS = 20_000
GRIDS: dict[str, dict[str, list[Any]]] = {
    "UCB1": {"confidence": [0.1, 0.5, 2.0]},
    "EpsilonGreedy": {"exploration": [1.0, 5.0, 20.0]},
    "LinUCB": {"alpha": [0.1, 0.3, 1.0, 3.0]},
    "LinTS": {"spread": [0.1, 0.25, 0.5, 1.0]},
    "LinearEpsilonGreedy": {"exploration": [1.0, 5.0, 20.0, 60.0]},
    "HybridEpsilon": {"exploration": [0.3, 1.0, 3.0], "similarity": [0.7, 0.8, 0.9]},
    "ContextualZooming": {"lipschitz": [0.25, 0.35, 0.5, 1.0], "confidence": [0.1, 0.25, 0.5]},
    "CMABRL": {"confidence": [0.001, 0.003, 0.01, 0.03], "lipschitz": [0.5, 1.0]},
    "Releaf": {"rho": [3.0, 4.0, None], "control_divisor": [500, 5_000], "lipschitz": [1.0, 2.0]},
}


def streams() -> dict[str, Any]:
    return {
        "breast cancer": breast_cancer(STEPS, seed=101, rows="complete"),
        "draft": draft(STEPS, seed=101),
        "two features": generate(STEPS, features=10, actions=3, gamma_rel=2, lipschitz=2.0, noise=0.2, seed=101),
    }


def run(say: Say) -> list[Finding]:
    findings = []
    for name, grid in GRIDS.items():
        settings = [{}] + [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        losses: dict[str, list[float]] = {}
        for title, stream in streams().items():
            say(f"tuning: {name} on {title}")
            losses[title] = [_loss(name, setting, stream) for setting in settings]
        relative = np.array([np.array(found) / min(found) for found in losses.values()])
        overall = np.exp(np.log(relative).mean(axis=0))
        best = int(overall.argmin())
        findings.append(
            Finding(
                what=f"{name}: regret with its defaults over that with the best of {len(settings) - 1} settings",
                value=float(overall[0] / overall[best]),
                at_most=1.2,
                detail={"best": settings[best], "regret": {t: [f[0], f[best], min(f)] for t, f in losses.items()}},
            )
        )
    return findings


def _loss(name: str, setting: dict[str, Any], stream: Any) -> float:
    """The mean regret of a step, with the same seeds for all settings."""
    means = stream.rewards if stream.expected is None else stream.expected
    lost = []
    for seed in range(2):
        policy = getattr(releaf, name)(stream.actions, stream.features, seed=seed, **setting)
        taken = policy.replay(stream.contexts, stream.rewards).actions
        lost.append(np.mean(means.max(axis=1) - means[np.arange(len(stream)), taken]))
    return float(np.mean(lost))
