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
from releaf.action_table import ActionTable
from releaf.datetimes import DateTime
from releaf.decision import Decision
from releaf.decision_batch import Decisions
from releaf.features import Boolean, Categorical, Continuous, Quantile
from releaf.policy import Policy, Trace, replay
from releaf.schema import Schema

if TYPE_CHECKING:
    from releaf import ensembles as ensembles
    from releaf import evaluate as evaluate
    from releaf import executors as executors
    from releaf import mlflow as mlflow
    from releaf import plot as plot
    from releaf import river as river
    from releaf import sklearn as sklearn
    from releaf import streams as streams
    from releaf.core.runtime.state_file import StateError
    from releaf.ensembles import from_bytes, load
    from releaf.frozen import FrozenPolicy, load_policy
    from releaf.policies import (
        CMABRL,
        UCB1,
        AdaptiveReleaf,
        Apprentice,
        ContextualZooming,
        EpsilonGreedy,
        GreedyReleaf,
        HybridEpsilon,
        HybridLinUCB,
        JointReleaf,
        LinearEpsilonGreedy,
        LinTS,
        LinUCB,
        Random,
        Releaf,
    )
    from releaf.train import fit_log

__all__ = [
    "CMABRL",
    "UCB1",
    "ActionTable",
    "AdaptiveReleaf",
    "Apprentice",
    "Boolean",
    "Categorical",
    "ContextualZooming",
    "Continuous",
    "DateTime",
    "Decision",
    "Decisions",
    "EpsilonGreedy",
    "FrozenPolicy",
    "GreedyReleaf",
    "HybridEpsilon",
    "HybridLinUCB",
    "JointReleaf",
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
    "load_policy",
    "plot",
    "replay",
    "theory",
]

# Imported on first use, policies too: kernels need Numba, which takes longer to import than all the rest.
_LATER = {
    "FrozenPolicy": "releaf.frozen",
    "load_policy": "releaf.frozen",
    "StateError": "releaf.core.runtime.state_file",
    "fit_log": "releaf.train",
    "from_bytes": "releaf.ensembles",
    "load": "releaf.ensembles",  # the highest layer with policies: it knows all of them
}
# Modules that are reachable after `import releaf`, imported on first use too.
_MODULES = ("ensembles", "evaluate", "executors", "mlflow", "plot", "river", "sklearn", "streams")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"releaf.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'releaf' has no attribute {name!r}")
    value = getattr(import_module(_LATER.get(name, "releaf.policies")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
