"""All runs in parallel, with finished ones kept so that none is done twice."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks.quality.tasks import Outcome, Task
from releaf.executors import Local

Results = dict[tuple[str, str], list[Outcome]]  # of a data set and a method, one for each seed
Told = Callable[[int, int, float], None]  # how many runs are done, of how many, and the seconds that are left
Execute = Callable[[Task], Outcome]


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


def in_random_order(tasks: list[Task], seed: int) -> list[Task]:
    """Data set by data set, in an order drawn once, so that the time left can be told early."""
    generator = random.Random(seed)
    turns = {data: generator.random() for data in dict.fromkeys(task.data for task in tasks)}
    shuffled = generator.sample(tasks, len(tasks))
    return sorted(shuffled, key=lambda task: turns[task.data])


def sweep(rounds: list[list[Task]], execute: Execute, store: Store, workers: int | None, told: Told) -> Results:
    """Do all runs that are not kept; who takes too long in the first round is not tried in the others.

    Parameters
    ----------
    rounds
        The runs of each seed.
    """
    results: Results = {}
    slow: set[tuple[str, str]] = set()
    everything = [task for tasks in rounds for task in tasks]
    progress = _Progress(everything, told)
    progress.pass_over(task for task in everything if task.key in store.kept)
    for seed, tasks in enumerate(rounds):
        found = {task: store.kept[task.key] for task in tasks if task.key in store.kept}
        hopeless = [task for task in tasks if (task.data, task.method) in slow and task not in found]
        progress.pass_over(hopeless)
        found |= dict.fromkeys(hopeless, Outcome())
        for task, outcome in _done(in_random_order([t for t in tasks if t not in found], seed), execute, workers):
            if not outcome.failure:
                store.put(task, outcome)
            found[task] = outcome
            progress.count(task)
        for task in tasks:
            results.setdefault((task.data, task.method), []).append(found[task])
        slow |= {pair for pair, outcomes in results.items() if outcomes[0].loss is None}
    return results


def failures(results: Results) -> list[str]:
    """A line for each method that an error ended on a data set."""
    return [
        f"{name} failed on {data}: {outcome.failure}"
        for (data, name), outcomes in results.items()
        if (outcome := next((each for each in outcomes if each.failure), None))
    ]


def _done(tasks: list[Task], execute: Execute, workers: int | None) -> Iterator[tuple[Task, Outcome]]:
    for place, outcome in Local(workers).map(execute, tasks):
        yield tasks[place], outcome


class _Progress:
    """Counts runs, and tells how long the rest will take going by the steps of those that were done."""

    def __init__(self, tasks: list[Task], told: Told) -> None:
        self.told = told
        self.total, self.done = len(tasks), 0
        self.ahead, self.behind = sum(task.steps for task in tasks), 0
        self.begin = time.monotonic()

    def pass_over(self, tasks: Iterable[Task]) -> None:
        """Runs that need not be done."""
        for task in tasks:
            self.done += 1
            self.ahead -= task.steps

    def count(self, task: Task) -> None:
        self.done += 1
        self.ahead -= task.steps
        self.behind += task.steps
        self.told(self.done, self.total, (time.monotonic() - self.begin) / self.behind * self.ahead)
