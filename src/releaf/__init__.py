"""releaf: decide well while learning which information matters.

>>> import releaf
>>> bandit = releaf.Releaf(actions=["benign", "malignant"], features=9, seed=0)
>>> choice = bandit.decide([0.1] * 9)
>>> if choice.wants_reward:
...     bandit.learn(choice, 1.0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from releaf import theory
from releaf._version import __version__
from releaf.decision import Decision
from releaf.features import Boolean, Categorical, Continuous, Quantile
from releaf.policy import Policy, Trace, replay
from releaf.schema import Schema

if TYPE_CHECKING:
    from releaf.core.state import StateError
    from releaf.policies.base import load
    from releaf.policies.greedy import GreedyReleaf
    from releaf.policies.releaf import Releaf

__all__ = [
    "Boolean",
    "Categorical",
    "Continuous",
    "Decision",
    "GreedyReleaf",
    "Policy",
    "Quantile",
    "Releaf",
    "Schema",
    "StateError",
    "Trace",
    "__version__",
    "load",
    "replay",
    "theory",
]

# Imported when first used: compiling needs Numba, which takes longer to import than all the rest.
_LATER = {
    "GreedyReleaf": "releaf.policies.greedy",
    "Releaf": "releaf.policies.releaf",
    "StateError": "releaf.core.state",
    "load": "releaf.policies",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'releaf' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
