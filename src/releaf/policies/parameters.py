"""Parameters of a policy, read off its constructor's signature."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

PROBLEM = ("actions", "features")  # arguments that describe the problem, not the policy
# Where it differs from the parameter's name: observe() is a method, and cost_weight the current weight.
ATTRIBUTE_OF = {"observe": "observation_mode", "cost_weight": "_weight_given"}


@cache
def parameter_defaults(policy: type[Any]) -> Mapping[str, Any]:
    """Parameters of a policy class and their defaults, in the order of its constructor.

    Without the actions, the features, and what a state file holds as arrays, such as the base classifiers of an
    ensemble.

    Examples
    --------
    >>> import releaf
    >>> list(parameter_defaults(releaf.UCB1))[:4]
    ['seed', 'confidence', 'reward_range', 'max_pending']
    """
    signature = inspect.signature(policy).parameters
    excluded = (*PROBLEM, *policy._array_arguments)
    return MappingProxyType({name: entry.default for name, entry in signature.items() if name not in excluded})


def parameters_of(policy: Any) -> dict[str, Any]:
    """Parameters of a policy and their values: with its actions and features, they build a new one like it.

    Examples
    --------
    >>> import releaf
    >>> parameters_of(releaf.UCB1(actions=2, features=1, confidence=0.5))["confidence"]
    0.5
    """
    return {name: getattr(policy, ATTRIBUTE_OF.get(name, name)) for name in parameter_defaults(policy.__class__)}
