"""releaf: contextual bandits that learn which features matter for each action, while they decide.

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
    from releaf import plot
    from releaf.core.runtime.state_file import StateError
    from releaf.policies.adaptive import AdaptiveReleaf
    from releaf.policies.cmab_rl import CMABRL
    from releaf.policies.epsilon_greedy import EpsilonGreedy
    from releaf.policies.greedy import GreedyReleaf
    from releaf.policies.hybrid import HybridEpsilon
    from releaf.policies.linear_epsilon import LinearEpsilonGreedy
    from releaf.policies.lints import LinTS
    from releaf.policies.linucb import LinUCB
    from releaf.policies.random import Random
    from releaf.policies.releaf import Releaf
    from releaf.policies.serialization import from_bytes, load
    from releaf.policies.ucb1 import UCB1
    from releaf.policies.zooming import ContextualZooming
    from releaf.train import fit_log

__all__ = [
    "CMABRL",
    "UCB1",
    "AdaptiveReleaf",
    "Boolean",
    "Categorical",
    "ContextualZooming",
    "Continuous",
    "Decision",
    "EpsilonGreedy",
    "GreedyReleaf",
    "HybridEpsilon",
    "LinTS",
    "LinUCB",
    "LinearEpsilonGreedy",
    "Policy",
    "Quantile",
    "Random",
    "Releaf",
    "Schema",
    "StateError",
    "Trace",
    "__version__",
    "fit_log",
    "from_bytes",
    "load",
    "plot",
    "replay",
    "theory",
]

# Imported on first use: kernels need Numba, which takes longer to import than all the rest.
_LATER = {
    "AdaptiveReleaf": "releaf.policies.adaptive",
    "CMABRL": "releaf.policies.cmab_rl",
    "ContextualZooming": "releaf.policies.zooming",
    "EpsilonGreedy": "releaf.policies.epsilon_greedy",
    "GreedyReleaf": "releaf.policies.greedy",
    "HybridEpsilon": "releaf.policies.hybrid",
    "LinTS": "releaf.policies.lints",
    "LinUCB": "releaf.policies.linucb",
    "LinearEpsilonGreedy": "releaf.policies.linear_epsilon",
    "Random": "releaf.policies.random",
    "Releaf": "releaf.policies.releaf",
    "UCB1": "releaf.policies.ucb1",
    "StateError": "releaf.core.runtime.state_file",
    "fit_log": "releaf.train",
    "from_bytes": "releaf.ensembles",
    "load": "releaf.ensembles",  # the highest layer with policies: it knows all of them
}


_LATER_MODULES = ("plot",)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _LATER_MODULES:
        return import_module(f"releaf.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'releaf' has no attribute {name!r}")
    value = getattr(import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
