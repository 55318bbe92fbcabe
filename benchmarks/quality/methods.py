"""The compared methods and their settings, which are the same on all data sets.

Settings are the packages' defaults, also for releaf, with two exceptions in favour of baselines: the encoding of the
problem for VowpalWabbit and MABWiser's neighbourhoods were the best of a few on some of the data sets, with seed 0.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import releaf
from benchmarks.quality import adapters
from releaf.evaluate.runs import _sources


@dataclass(frozen=True)
class Method:
    """A policy of releaf by its class name, or a baseline by its adapter's name, and its settings.

    With ``first_labels``, a policy of releaf learns the rewards of so many steps to begin with, and no others.
    """

    name: str
    package: str
    maker: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    first_labels: int | None = None

    @property
    def is_ours(self) -> bool:
        return self.package == "releaf"

    @property
    def absence(self) -> str:
        """Why it can't take part here; empty when it can."""
        if self.is_ours:
            return "" if hasattr(releaf, self.maker) else f"releaf has no {self.maker}"
        return "" if find_spec(self.package) else f"{self.package} is not installed"

    @property
    def version(self) -> str:
        return _version(self.package)

    def make(self, actions: int, features: Any, seed: int) -> Any:
        package = releaf if self.is_ours else adapters
        return getattr(package, self.maker)(actions, features, seed=seed, **self.settings)

    @property
    def digest(self) -> str:
        """Names all that its decisions come from, so that a change to it is run again and nothing else is."""
        if self.is_ours:
            code = _sources()
        else:
            code = inspect.getsource(getattr(adapters, self.maker)) + self.version
        described = json.dumps([self.maker, dict(self.settings), self.first_labels, code], sort_keys=True)
        return hashlib.sha256(described.encode()).hexdigest()[:12]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _ours(maker: str, name: str = "", **settings: Any) -> Method:
    return Method(name or maker, "releaf", maker, settings)


# 2²⁰ weights, so that products of 64 features, for ten actions, don't share them. With products, what is the same for
# all actions is left out, which did better where both were tried.
_LINEAR = "-b 20 --cb_min_cost -1 --cb_max_cost 0 -q SA"
_SQUARES = f"{_LINEAR} --interactions SSA --ignore_linear S"
# Each way to explore with its defaults, and five policies where a number is asked for.
_EXPLORATIONS = {
    "ε": "--epsilon 0.05",
    "squarecb": "--squarecb",
    "squarecb elim": "--squarecb --elim",
    "cover": "--cover 5",
    "bag": "--bag 5",
    "regcb": "--regcb",
    "regcbopt": "--regcbopt",
}
# With one neighbour, its default, or one sample of each action to begin with, it tends to take the same action for
# ever; alpha = 0.1 did better than its default of 1.
_TEN_NEAREST = {
    "policy": "UCB1",
    "policy_settings": {"alpha": 0.1},
    "neighbourhood": "KNearest",
    "neighbourhood_settings": {"k": 10},
    "first": 10,
}
_TREE = {"policy": "UCB1", "neighbourhood": "TreeBandit", "first": 5}
# Fitting at every step would take hours.
_REFITTED = {"refit": 50, "growth": 0.05}


def _vowpal_wabbit() -> list[Method]:
    models = {"": _LINEAR, "²": _SQUARES}
    return [
        Method(f"VW {way}{mark}", "vowpalwabbit", "VowpalWabbit", {"options": f"{model} {options}"})
        for way, options in _EXPLORATIONS.items()
        for mark, model in models.items()
    ]


METHODS = (
    _ours("AdaptiveReleaf"),
    _ours("Releaf"),
    _ours("Releaf", "Releaf, always", observe="always"),
    _ours("GreedyReleaf"),
    _ours("ContextualZooming"),
    _ours("HybridEpsilon"),
    _ours("LinUCB"),
    _ours("LinTS"),
    _ours("LinearEpsilonGreedy"),
    _ours("CMABRL"),
    _ours("UCB1"),
    _ours("EpsilonGreedy"),
    _ours("Random"),
    *_vowpal_wabbit(),
    Method("MABWiser LinUCB", "mabwiser", "MabWiser", {"policy": "LinUCB"}),
    Method("MABWiser LinTS", "mabwiser", "MabWiser", {"policy": "LinTS"}),
    Method("MABWiser LinGreedy", "mabwiser", "MabWiser", {"policy": "LinGreedy"}),
    Method("MABWiser KNN", "mabwiser", "MabWiser", _TEN_NEAREST),
    Method("MABWiser tree", "mabwiser", "MabWiser", _TREE),
    Method("CB LinUCB", "contextualbandits", "ContextualBandits", {"policy": "LinUCB"}),
    Method(
        "CB BootstrappedUCB",
        "contextualbandits",
        "ContextualBandits",
        {"policy": "BootstrappedUCB", "njobs_arms": 1, **_REFITTED},
    ),
    Method(
        "CB AdaptiveGreedy",
        "contextualbandits",
        "ContextualBandits",
        {"policy": "AdaptiveGreedy", "njobs": 1, **_REFITTED},
    ),
    Method("river LinUCB", "river", "River"),
)

# How error falls with the number of labels that are paid for: on these data sets only.
FRUGAL_ON = ("breast cancer", "intrusion")
BUDGETS = (50, 100, 200, 500, 1_000, 2_000)
FRUGAL = (
    *(_ours("AdaptiveReleaf", f"AdaptiveReleaf, {budget:,} labels", label_budget=budget) for budget in BUDGETS),
    *(Method(f"LinUCB, first {budget:,} labels", "releaf", "LinUCB", {}, budget) for budget in BUDGETS),
)
NEXT_TO_FRUGAL = ("AdaptiveReleaf", "Releaf", "Releaf, always", "GreedyReleaf", "LinUCB")
BY_NAME = {method.name: method for method in (*METHODS, *FRUGAL)}


def present() -> tuple[list[str], list[str]]:
    """The names of those that can take part, and a line for each reason why others can't."""
    here = [name for name, method in BY_NAME.items() if not method.absence]
    reasons: dict[str, int] = {}
    for method in BY_NAME.values():
        if method.absence:
            reasons[method.absence] = reasons.get(method.absence, 0) + 1
    return here, [f"{reason}: {count} methods are left out" for reason, count in reasons.items()]
