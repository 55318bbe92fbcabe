"""The compared methods and their settings, which are the same on all data sets.

Settings are the packages' defaults, also for releaf, with exceptions in favour of baselines: the encoding of the
problem for VowpalWabbit, MABWiser's neighbourhoods, and the width of the bounds and size of leaves of tree ensembles
were the best of a few on some of the development sets, with seed 0.

Policies of releaf that use categories and missing values get the table's schema; linear policies and all baselines get
one-hot columns. Costly methods run on at most three shuffles; the costliest only on small data sets.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import releaf
from benchmarks.quality import adapters, regressors
from benchmarks.quality.problems import Problem
from benchmarks.quality.suite import Size
from benchmarks.quality.tasks import Task
from releaf.evaluate.runs import _sources

COSTLY_SEEDS = 3
SMALL_STEPS, SMALL_COLUMNS = 10_000, 100  # steps times actions, and one-hot columns, of a small data set
_MODULES = {"scikit-learn": "sklearn"}  # names of what is imported, where a package is called otherwise


@dataclass(frozen=True)
class Method:
    """A policy of releaf by its class name, or a baseline by its adapter's name, and its settings.

    Attributes
    ----------
    onehot
        Whether it gets one-hot columns instead of the schema.
    costly
        Whether it runs on at most three shuffles.
    small_only
        Whether it runs on small data sets only.
    """

    name: str
    package: str
    maker: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    onehot: bool = True
    costly: bool = False
    small_only: bool = False

    @property
    def is_ours(self) -> bool:
        return self.package == "releaf"

    @property
    def absence(self) -> str:
        """Why it can't take part here; empty when it can."""
        if self.is_ours:
            return "" if hasattr(releaf, self.maker) else f"releaf has no {self.maker}"
        return "" if find_spec(_MODULES.get(self.package, self.package)) else f"{self.package} is not installed"

    @property
    def version(self) -> str:
        try:
            return version(self.package)
        except PackageNotFoundError:
            return ""

    def runs_on(self, size: Size, seed: int) -> bool:
        """Whether it runs on a data set of this size with this seed."""
        small = size.steps * size.actions <= SMALL_STEPS and size.columns <= SMALL_COLUMNS
        return (small or not self.small_only) and (seed < COSTLY_SEEDS or not self.costly)

    def make(self, problem: Problem, seed: int) -> Any:
        actions = len(problem.actions)
        features = problem.onehot.shape[1] if self.onehot else problem.schema
        return self._class()(actions, features, seed=seed, **self.settings)

    def contexts(self, problem: Problem) -> Any:
        return problem.onehot if self.onehot else problem.contexts

    def _class(self) -> Any:
        modules = (releaf,) if self.is_ours else (adapters, regressors)
        return next(getattr(module, self.maker) for module in modules if hasattr(module, self.maker))

    @property
    def digest(self) -> str:
        """Names all that its decisions come from, so that a change to it is run again and nothing else is."""
        if self.is_ours:
            code = _sources()
        else:
            bases = [base for base in self._class().__mro__ if base.__module__.startswith("benchmarks")]
            code = "".join(inspect.getsource(base) for base in bases) + self.version
        described = json.dumps([self.maker, dict(self.settings), self.onehot, code], sort_keys=True)
        return hashlib.sha256(described.encode()).hexdigest()[:12]


def _ours(maker: str, name: str = "", **settings: Any) -> Method:
    return Method(name or maker, "releaf", maker, settings, onehot=False)


def _linear(maker: str) -> Method:
    return Method(maker, "releaf", maker)


# 2²⁰ weights, so that products of 64 features, for ten actions, don't share them. With products, what is the same for
# all actions is left out, which did better where both were tried.
_WEIGHTS = "-b 20 --cb_min_cost -1 --cb_max_cost 0"
_LINEAR = f"{_WEIGHTS} -q SA"
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
_FOREST = {"policy": "BootstrappedUCB", "nsamples": 5, "trees": 20, "refit": 50, "growth": 0.3, "njobs_arms": 1}


def _vowpal_wabbit() -> list[Method]:
    ways = {
        f"{way}{mark}": f"{model} {options}"
        for way, options in _EXPLORATIONS.items()
        for mark, model in {"": _LINEAR, "²": _SQUARES}.items()
    }
    ways["squarecb ::"] = f"{_WEIGHTS} -q :: --squarecb"
    ways["automl"] = f"{_WEIGHTS} --automl 4 --epsilon 0.05"
    return [Method(f"VW {way}", "vowpalwabbit", "VowpalWabbit", {"options": ways[way]}) for way in ways]


def _contextual_bandits() -> list[Method]:
    bootstrapped = {"policy": "BootstrappedUCB", "njobs_arms": 1, **_REFITTED}
    settings: dict[str, dict[str, Any]] = {
        "CB LinUCB": {"policy": "LinUCB"},
        "CB BootstrappedUCB": bootstrapped,
        "CB AdaptiveGreedy": {"policy": "AdaptiveGreedy", "njobs": 1, **_REFITTED},
    }
    found = [
        Method(name, "contextualbandits", "ContextualBandits", given, costly=True) for name, given in settings.items()
    ]
    forest = Method("CB forest", "contextualbandits", "ContextualBandits", _FOREST, costly=True, small_only=True)
    return [*found, forest]


METHODS = (
    _ours("AdaptiveReleaf"),
    _ours("Releaf"),
    _ours("Releaf", "Releaf, always", observe="always"),
    _ours("GreedyReleaf"),
    _ours("ContextualZooming"),
    _ours("CMABRL"),
    _linear("HybridEpsilon"),
    _linear("LinUCB"),
    _linear("LinTS"),
    _linear("LinearEpsilonGreedy"),
    _linear("UCB1"),
    _linear("EpsilonGreedy"),
    _linear("Random"),
    Method("extra-trees", "scikit-learn", "ExtraTrees", costly=True),
    Method("LightGBM", "lightgbm", "LightGBM", {"min_child_samples": 5}, costly=True),
    *_vowpal_wabbit(),
    Method("MABWiser LinUCB", "mabwiser", "MabWiser", {"policy": "LinUCB"}, costly=True),
    Method("MABWiser LinTS", "mabwiser", "MabWiser", {"policy": "LinTS"}, costly=True),
    Method("MABWiser LinGreedy", "mabwiser", "MabWiser", {"policy": "LinGreedy"}, costly=True),
    Method("MABWiser KNN", "mabwiser", "MabWiser", _TEN_NEAREST, costly=True),
    Method("MABWiser tree", "mabwiser", "MabWiser", _TREE, costly=True),
    *_contextual_bandits(),
    Method("river LinUCB", "river", "River", costly=True),
    Method("river AMF", "river", "RiverForest", {"forest": "AMFRegressor"}, costly=True),
    Method("river ARF", "river", "RiverForest", {"forest": "ARFRegressor"}, costly=True),
)
BY_NAME = {method.name: method for method in METHODS}


def present(wanted: Collection[str] | None = None) -> tuple[list[str], list[str]]:
    """The names of those that can take part, and a line for each reason why others can't.

    Parameters
    ----------
    wanted
        Names of some methods; all when None.
    """
    unknown = [name for name in wanted or () if name not in BY_NAME]
    if unknown:
        raise SystemExit(
            f"RELEAF_QUALITY_METHODS: {unknown[0]!r} is not a method: expected any of {', '.join(BY_NAME)}"
        )
    chosen = [method for method in METHODS if wanted is None or method.name in wanted]
    reasons: dict[str, list[str]] = {}
    for method in chosen:
        if method.absence:
            reasons.setdefault(method.absence, []).append(method.name)
    here = [method.name for method in chosen if not method.absence]
    return here, [f"{', '.join(names)} left out: {reason}" for reason, names in reasons.items()]


def plan(sizes: Mapping[str, Size], names: Sequence[str], seed: int) -> list[Task]:
    """All runs of one seed."""
    return [
        Task(data, name, seed, size.steps, f"{size.digest}-{BY_NAME[name].digest}")
        for data, size in sizes.items()
        for name in names
        if BY_NAME[name].runs_on(size, seed)
    ]
