"""Parameters of the theory's functions: the meaning and the valid range of each, stated once."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
T = TypeVar("T")


class BoundedNumber(NamedTuple):
    """Meaning of a number, and its range: positive, at least a number, or a probability."""

    meaning: str
    least: float | None = None
    probability: bool = False

    def check(self, name: str, value: Any) -> None:
        if self.least is not None:
            require_at_least(self.least, **{name: value})
        elif not (_is_finite(value) and 0 < value < (1 if self.probability else math.inf)):
            expected = "above 0 and below 1" if self.probability else "a positive number"
            raise ValueError(f"{name} must be {expected}, got {name}={value!r}")


PARAMETERS = {
    "t": BoundedNumber("The step, counted from 1."),
    "horizon": BoundedNumber("T, the number of steps."),
    "actions": BoundedNumber("A, the number of actions."),
    "features": BoundedNumber("D, the number of features."),
    "lipschitz": BoundedNumber("L, the Lipschitz constant of the expected rewards."),
    "rho": BoundedNumber("ρ, the duration parameter of the partitions."),
    "delta": BoundedNumber("δ, the probability with which the bounds may fail.", probability=True),
    "epsilon": BoundedNumber("ε, the accuracy of estimates from the first exploitation on."),
    "gamma_rel": BoundedNumber("γ_rel of the learner.", least=1),
    "d_rel": BoundedNumber(
        "D_rel, how many features an action's reward depends on; the learner's γ_rel must equal it."
    ),
    "control_divisor": BoundedNumber("Divisor of all control numbers; 5000 in the paper's experiments."),
    "observation_cost": BoundedNumber("c_O, the cost of observing a reward.", least=0),
    "base": BoundedNumber("Into how many parts an interval splits.", least=2),
    "start_level": BoundedNumber("The level of the first intervals.", least=0),
    "length": BoundedNumber("s(p), the length of the interval of a relevant feature."),
    "chosen_length": BoundedNumber("Length of the interval of the feature that is relevant to the chosen action."),
    "best_length": BoundedNumber("Length of the interval of the feature that is relevant to the best action."),
    "longest": BoundedNumber("s, the longest of the current intervals of all D features."),
    "estimated_length": BoundedNumber(
        "ŝ, the longest interval of the features that are estimated to be relevant, ĉ_t(a)."
    ),
    "containing_length": BoundedNumber("s_w, the longest interval of D_rel features that contain the relevant ones."),
    "relevant_length": BoundedNumber("s, the longest interval of the relevant features, ℛ(a); s_w at most."),
}


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Check the arguments of a function by their names, and add the meaning of each to its docstring."""
    called = signature(function)
    optional = {name for name, parameter in called.parameters.items() if parameter.default is None}
    known = [name for name in called.parameters if name in PARAMETERS]

    @wraps(function)
    def check_and_call(*args: P.args, **kwargs: P.kwargs) -> T:
        arguments = called.bind(*args, **kwargs).arguments
        for name in known:
            if name in arguments and not (arguments[name] is None and name in optional):
                PARAMETERS[name].check(name, arguments[name])
        return function(*args, **kwargs)

    check_and_call.__doc__ = _with_parameters(function.__doc__ or "", known)
    return check_and_call


def _with_parameters(text: str, names: list[str]) -> str:
    """Add entries for these parameters to a docstring, before its examples."""
    above, examples, below = text.partition("    Examples\n")
    header = "" if "    Parameters\n" in above else "\n    Parameters\n    ----------\n"
    entries = "".join(f"    {name}\n        {PARAMETERS[name].meaning}\n" for name in names)
    return f"{above.rstrip()}\n{header}{entries}" + (f"\n{examples}{below}" if examples else "    ")


def require_at_least(least: float, **numbers: float) -> None:
    for name, value in numbers.items():
        if not (_is_finite(value) and value >= least):
            raise ValueError(f"{name} must be at least {least}, got {name}={value!r}")


def tuple_count(features: int, gamma_rel: int) -> int:
    """D* = C(D-1, 2γ-1): how many tuples of 2γ features contain one of them."""
    require_at_least(2 * gamma_rel, features=features)
    return math.comb(features - 1, 2 * gamma_rel - 1)


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float | np.number) and math.isfinite(value)
