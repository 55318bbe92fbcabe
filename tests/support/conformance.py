"""All policies of the package with the same arguments, for the conformance suite."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from learner_comparison import full_state, stream

import releaf
from releaf import ensembles, policies
from releaf.ensembles.ensemble import Ensemble
from releaf.policies.base import OnlinePolicy
from releaf.policies.parameters import parameter_defaults
from releaf.policy import action_names

assert ensembles
assert policies


def _concrete(policy: type[Any]) -> Iterator[type[Any]]:
    if "traits" in vars(policy) and policy.__module__.startswith("releaf."):
        yield policy
    for subclass in policy.__subclasses__():
        yield from _concrete(subclass)


# A new policy is here by itself; LinearEpsilonGreedy has two parents.
POLICIES: list[type[Any]] = sorted(set(_concrete(OnlinePolicy)), key=lambda policy: policy.__name__)
NAMES = [policy.__name__ for policy in POLICIES]
LOGGED = [policy for policy in POLICIES if policy.traits.learns_from_logs]
# Nothing that they do depends on what happens, so nothing is learnt.
FIXED = ("AdaBoost", "AverageMajority", "Random")
RANDOMISED = (
    *("AdaptiveReleaf", "CMABRL", "ContextualZooming", "EpsilonGreedy", "GreedyReleaf", "HybridEpsilon"),
    *("HybridLinUCB", "JointReleaf"),  # the former in ties
    *("LinTS", "LinearEpsilonGreedy", "Random", "Releaf"),
)


class Observing:
    """A policy that observes other rewards than by default, for the suite to run over as over a class."""

    def __init__(self, policy: type[Any], observe: str) -> None:
        self.policy, self.observe = policy, observe
        self.__name__ = policy.__name__

    def __call__(self, actions: Any, features: Any, **further: Any) -> Any:
        return self.policy(actions, features, observe=self.observe, **further)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.policy, name)


VARIANTS = [
    *(Observing(releaf.Releaf, observe) for observe in ("always", "all-actions", "labels")),
    Observing(releaf.GreedyReleaf, "labels"),
    Observing(releaf.AdaptiveReleaf, "labels"),
]
VARIANT_NAMES = [f"{variant.__name__}-{variant.observe}" for variant in VARIANTS]


def takes(policy: Any, parameter: str) -> bool:
    """Whether a policy's constructor has this parameter."""
    made: Any = policy.policy if isinstance(policy, Observing) else policy
    return parameter in parameter_defaults(made)


def is_ensemble(policy: Any) -> bool:
    return isinstance(policy, type) and issubclass(policy, Ensemble)


def is_randomised(policy: Any) -> bool:
    """Whether decisions depend on the seed: AdaptiveReleaf with labels has nothing left to try."""
    greedy = policy.__name__ == "AdaptiveReleaf" and getattr(policy, "observe", None) == "labels"
    return policy.__name__ in RANDOMISED and not greedy


_TRAINED: dict[str, ensembles.Experts] = {}


def _experts(actions: Any, schema: releaf.Schema) -> ensembles.Experts:
    key = f"{actions!r} {schema.to_dict()!r}"
    if key not in _TRAINED:
        contexts, rewards = stream(400, len(schema.inputs), len(action_names(actions)), seed=99)
        given = {"actions": actions, "features": schema, "count": 5, "size": 40}
        _TRAINED[key] = ensembles.train_experts(in_own_terms(contexts, schema), rewards, **given)
    return _TRAINED[key]


def in_own_terms(contexts: Any, schema: releaf.Schema) -> Any:
    """Contexts with values in [0, 1] as values of the schema's features."""
    if all(feature == releaf.Continuous() for feature in schema.features):
        return contexts
    kinds = list(schema.inputs.values())
    return [[feature_value(kind, value) for kind, value in zip(kinds, row, strict=True)] for row in contexts]


def feature_value(feature: Any, unit: float) -> Any:
    """A value of the feature at about this place of its range."""
    if isinstance(feature, releaf.Categorical):
        return feature.values[int(unit * len(feature.values))]
    if isinstance(feature, releaf.Boolean):
        return unit > 0.5
    if isinstance(feature, releaf.DateTime):
        return datetime(2024, 1, 1) + timedelta(days=1_000 * float(unit))
    return feature.low + unit * (feature.high - feature.low)


def make(policy: Any, actions: Any = 2, features: Any = 3, seed: int | None = 6, **further: Any) -> Any:
    """A policy that knows nothing yet; ensembles with base classifiers that know the twins' stream."""
    if is_ensemble(policy):
        further = {"experts": _experts(actions, releaf.Schema.of(features)), **further}
    return policy(actions, features, seed=seed, **further)


def wanted(bandit: Any, rewards: Any, choice: Any) -> Any:
    """What to tell a policy of the rewards of all actions."""
    if bandit.observation_mode in ("all-actions", "labels"):
        return rewards
    return float(np.asarray(rewards)[choice.index])


def refused(bandit: Any, call: Any, text: str, error: type[Exception] = ValueError) -> None:
    """The call fails with this text and changes nothing."""
    before = full_state(bandit)
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
    assert full_state(bandit) == before
