"""Parameters of a policy, read off its constructor's signature."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

PROBLEM = ("actions", "features")  # arguments that describe the problem, not the policy
ATTRIBUTE_OF = {"observe": "observation_mode"}  # where it differs from the parameter's name: observe() is a method


@cache
def parameter_defaults(policy: type[Any]) -> Mapping[str, Any]:
    """Parameters of a policy class and their defaults, in the order of its constructor.

    Without the actions, the features, and what a state file holds as arrays, such as the base classifiers of an
    ensemble.

    Examples
    --------
    >>> import releaf
    >>> dict(parameter_defaults(releaf.UCB1))
    {'seed': None, 'confidence': 2.0, 'reward_range': (0.0, 1.0), 'max_pending': 100000}
    """
    signature = inspect.signature(policy).parameters
    excluded = (*PROBLEM, *policy._array_arguments)
    return MappingProxyType({name: entry.default for name, entry in signature.items() if name not in excluded})


def parameters_of(policy: Any) -> dict[str, Any]:
    """Parameters of a policy and their values: with its actions and features, they build a new one like it.

    Examples
    --------
    >>> import releaf
    >>> parameters_of(releaf.UCB1(actions=2, features=1, confidence=0.5))
    {'seed': None, 'confidence': 0.5, 'reward_range': (0.0, 1.0), 'max_pending': 100000}
    """
    return {name: getattr(policy, ATTRIBUTE_OF.get(name, name)) for name in parameter_defaults(policy.__class__)}
