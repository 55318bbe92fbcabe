"""The runs: every asking policy with every budget, on each long data set, shuffled and in its own order."""

from __future__ import annotations

import hashlib
import inspect
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

from benchmarks.labels import policies
from benchmarks.labels.policies import ALL, ActiveClassifier, Taken
from benchmarks.quality import catalogue, suite
from benchmarks.quality.problems import Problem
from benchmarks.quality.runs import loss, small_problem
from benchmarks.quality.tasks import Outcome, Task
from releaf.evaluate.runs import _sources

BUDGETS = (50, 100, 200, 500, 2_000)
OWN_ORDER = ", own order"  # after the name of a data set
_WARMUP_BUDGET = 50  # labels
_AT = " @ "  # between a policy's name and its budget


@dataclass(frozen=True)
class Asking:
    """A policy that asks for labels.

    Attributes
    ----------
    bandit
        Whether it is told rewards of actions taken, rather than right actions.
    budgets
        Of labels.
    seeds
        At most so many shuffles, for what is slow.
    """

    name: str
    run: Callable[[Problem, int, int], Taken]
    bandit: bool = True
    budgets: tuple[int, ...] = BUDGETS
    seeds: int = 100
    package: str = "releaf"


ASKING = (
    Asking("AdaptiveReleaf", policies.adaptive, budgets=(*BUDGETS, ALL)),
    Asking("AdaptiveReleaf, random", policies.adaptive_random),
    Asking("LinUCB", policies.linucb_all, budgets=(ALL,)),
    Asking("LinUCB, random", policies.linucb_random),
    Asking("LinUCB, uncertainty", policies.linucb_uncertain),
    *(
        Asking(f"logistic, {name}", ActiveClassifier(name), bandit=False, seeds=1, package="skactiveml")
        for name in ("VariableUncertainty", "Split", "FixedUncertainty")
    ),
)
BY_NAME = {asking.name: asking for asking in ASKING}


def method_name(asking: Asking, budget: int) -> str:
    return f"{asking.name}{_AT}{budget}"


def parsed(method: str) -> tuple[Asking, int]:
    """The policy and budget of a method's name."""
    name, _, budget = method.partition(_AT)
    return BY_NAME[name], int(budget)


def data_sets(splits: tuple[str, ...], wanted: list[str] | None) -> tuple[dict[str, suite.Size], list[str]]:
    """Those with more steps than the largest budget, so that all budgets are compared on the same."""
    sizes, absent = suite.present(splits, wanted)
    return {data: size for data, size in sizes.items() if size.steps > BUDGETS[-1]}, absent


def present(wanted: list[str] | None) -> tuple[list[Asking], list[str]]:
    """The policies that can take part, of all or of some names, and a line for each other."""
    for name in wanted or ():
        if name not in BY_NAME:
            raise SystemExit(f"RELEAF_QUALITY_METHODS: {name!r} is not a policy: expected any of {'; '.join(BY_NAME)}")
    chosen = [asking for asking in ASKING if wanted is None or asking.name in wanted]
    absent = [asking for asking in chosen if not find_spec(asking.package)]
    lines = [f"{asking.name} is left out: {asking.package} is not installed" for asking in absent]
    return [asking for asking in chosen if asking not in absent], lines


def plan(sizes: dict[str, suite.Size], askings: list[Asking], seed: int) -> list[Task]:
    """All runs of one seed. What is generated has no order of its own."""
    return [
        Task(name, method_name(asking, budget), seed, size.steps, f"{size.digest}-{_digest(asking)}")
        for data, size in sizes.items()
        for name in ([data] if catalogue.BY_NAME[data].draw else [data, data + OWN_ORDER])
        for asking in askings
        for budget in asking.budgets
        if seed < asking.seeds
    ]


def _digest(asking: Asking) -> str:
    code = inspect.getsource(policies) + _sources()
    return hashlib.sha256(f"{asking.name} {code}".encode()).hexdigest()[:12]


def execute(task: Task) -> Outcome:
    """Do a run, in this process. An error ends the run, not the benchmark."""
    name = task.data.removesuffix(OWN_ORDER)
    problem = suite.stream(name, task.seed, shuffled=name == task.data)
    asking, budget = parsed(task.method)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warm_up(asking)
            begin = time.process_time()
            actions, labels = asking.run(problem, budget, task.seed)
    except Exception as error:
        return Outcome(failure=f"{type(error).__name__}: {error}")
    lost = None if actions is None else loss(problem, actions)
    return Outcome(lost, None, labels, round(time.process_time() - begin, 3))


@cache
def warm_up(asking: Asking) -> None:
    """A short run, so that no other pays for imports and compilation."""
    asking.run(small_problem(), _WARMUP_BUDGET, 0)
