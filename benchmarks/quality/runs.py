"""One method over one data set, all of them in parallel, and finished runs kept so that none is done twice."""

from __future__ import annotations

import json
import os
import random
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import releaf
from benchmarks.quality import methods, suite
from benchmarks.quality.problems import Array, Problem
from releaf.executors import Local

RUN_TIMEOUT = 180.0  # seconds of computing that a run may take
_FIRST_LOOK = 10.0  # seconds after which the rest is estimated
_LOOK_EVERY = 50  # steps


@dataclass(frozen=True)
class Task:
    """A run to do; the digest tells what it depends on, beside the names."""

    data: str
    method: str
    seed: int
    digest: str

    @property
    def key(self) -> str:
        return f"{self.data} | {self.method} | {self.seed} | {self.digest}"


@dataclass(frozen=True)
class Outcome:
    """What a run gave.

    Attributes
    ----------
    loss
        Share of wrong actions, or regret for each step where expected rewards are known; None when it took too long.
    labels
        Number of observed rewards.
    seconds
        Of computing.
    failure
        The error that ended it.
    """

    loss: float | None = None
    labels: int = 0
    seconds: float = 0.0
    failure: str = ""


def execute(task: Task) -> Outcome:
    """Do a run, in this process. An error ends the run, not the benchmark."""
    cases = suite.stream(task.data, task.seed)
    begin = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            actions, labels = _run_method(methods.BY_NAME[task.method], cases, task.seed)
    except Exception as error:
        return Outcome(failure=f"{type(error).__name__}: {error}")
    seconds = round(time.process_time() - begin, 3)
    return Outcome(None if actions is None else loss(cases, actions), labels, seconds)


def loss(cases: Problem, actions: Array) -> float:
    """What each step lost on average: against the best expected reward, or against the right action."""
    steps = np.arange(len(cases))
    if cases.expected is None:
        return float(np.mean(1.0 - cases.rewards[steps, actions]))
    return float(np.mean(cases.expected.max(axis=1) - cases.expected[steps, actions]))


def _run_method(method: methods.Method, cases: Problem, seed: int) -> tuple[Array | None, int]:
    """The actions taken, and the number of observed rewards."""
    if method.is_ours:
        made = method.make(len(cases.actions), cases.schema, seed)
        taught = slice(method.first_labels)
        trace = releaf.replay(made, cases.contexts[taught], cases.rewards[taught])
        untaught = [choice.index for choice in made.decide_many(cases.contexts[len(trace) :])]
        return np.array([*trace.actions, *untaught]), int(trace.observed.sum())
    made = method.make(len(cases.actions), cases.onehot.shape[1], seed)
    return _step_by_step(made, cases), len(cases)


def _step_by_step(baseline: Any, cases: Problem) -> Array | None:
    """The actions taken; None as soon as it can be told that the time will not do.

    A step seldom gets cheaper later, so what the steps so far took is a lower bound for the others.
    """
    actions = np.empty(len(cases), dtype=np.int64)
    begin = time.process_time()
    for step, context in enumerate(cases.onehot):
        action = actions[step] = baseline.decide(context)
        baseline.learn(context, action, float(cases.rewards[step, action]))
        if step % _LOOK_EVERY == 0:
            spent = time.process_time() - begin
            if spent > _FIRST_LOOK and spent / (step + 1) * len(cases) > RUN_TIMEOUT:
                return None
    return actions


class Store:
    """Finished runs, a line of JSON each, by what they depend on. A line that was cut off counts for nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept: dict[str, Outcome] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                row = json.loads(line)
                key = row.pop("key")
                self.kept[key] = Outcome(**row)
            except (ValueError, KeyError, TypeError):
                continue

    def put(self, task: Task, outcome: Outcome) -> None:
        self.kept[task.key] = outcome
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8") as file:
            # A line break at both ends: the line before may have been cut off.
            file.write("\n" + json.dumps({"key": task.key, **asdict(outcome)}, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())


def plan(sizes: dict[str, suite.Size], names: Iterable[str], seed: int) -> list[Task]:
    """All runs of one seed: data set by data set, in an order drawn once, so that the time left can be told early."""
    tasks = []
    for data, size in sizes.items():
        for name in names:
            method = methods.BY_NAME[name]
            if method not in methods.FRUGAL or data in methods.FRUGAL_ON:
                tasks.append(Task(data, name, seed, f"{size.digest}-{method.digest}"))
    generator = random.Random(seed)
    turns = {data: generator.random() for data in sizes}
    generator.shuffle(tasks)
    return sorted(tasks, key=lambda task: turns[task.data])


Results = dict[tuple[str, str], list[Outcome]]  # of a data set and a method, one for each seed
Told = Callable[[int, int, float], None]  # how many runs are done, of how many, and the seconds that are left


def sweep(
    sizes: dict[str, suite.Size], names: list[str], seeds: int, store: Store, workers: int | None, told: Told
) -> Results:
    """Do all runs that are not kept; who takes too long with the first seed is not tried with the others."""
    results: Results = {}
    slow: set[tuple[str, str]] = set()
    rounds = [plan(sizes, names, seed) for seed in range(seeds)]
    everything = [task for tasks in rounds for task in tasks]
    progress = _Progress(sizes, everything, told)
    progress.pass_over(task for task in everything if task.key in store.kept)
    for tasks in rounds:
        found = {task: store.kept[task.key] for task in tasks if task.key in store.kept}
        hopeless = [task for task in tasks if (task.data, task.method) in slow and task not in found]
        progress.pass_over(hopeless)
        found |= dict.fromkeys(hopeless, Outcome())
        for task, outcome in _done([task for task in tasks if task not in found], workers):
            if not outcome.failure:
                store.put(task, outcome)
            found[task] = outcome
            progress.count(task)
        for task in sorted(tasks, key=lambda task: (list(sizes).index(task.data), names.index(task.method))):
            results.setdefault((task.data, task.method), []).append(found[task])
        slow |= {pair for pair, outcomes in results.items() if outcomes[0].loss is None}
    return results


def _done(tasks: list[Task], workers: int | None) -> Iterator[tuple[Task, Outcome]]:
    for place, outcome in Local(workers).map(execute, tasks):
        yield tasks[place], outcome


class _Progress:
    """Counts runs, and tells how long the rest will take going by the steps of those that were done."""

    def __init__(self, sizes: dict[str, suite.Size], tasks: list[Task], told: Told) -> None:
        self.sizes, self.told = sizes, told
        self.total, self.done = len(tasks), 0
        self.ahead, self.behind = sum(map(self._steps, tasks)), 0
        self.begin = time.monotonic()

    def _steps(self, task: Task) -> int:
        return self.sizes[task.data].steps

    def pass_over(self, tasks: Iterable[Task]) -> None:
        """Runs that need not be done."""
        for task in tasks:
            self.done += 1
            self.ahead -= self._steps(task)

    def count(self, task: Task) -> None:
        self.done += 1
        self.ahead -= self._steps(task)
        self.behind += self._steps(task)
        self.told(self.done, self.total, (time.monotonic() - self.begin) / self.behind * self.ahead)
