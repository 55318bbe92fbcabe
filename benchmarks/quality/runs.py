"""One method over one data set: its loss, the computing time of a step, and the growth of memory."""

from __future__ import annotations

import ctypes
import gc
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import releaf
from benchmarks.quality import methods, suite
from benchmarks.quality.problems import Array, Problem, Table, problem_of_table
from benchmarks.quality.tasks import Outcome, Task

RUN_TIMEOUT = 180.0  # seconds of computing that a run may take
_FIRST_LOOK = 10.0  # seconds after which the rest is estimated
_LOOK_EVERY = 50  # steps
_REPLAYED = 250  # steps at once
_WARMUP_STEPS = 100


def execute(task: Task) -> Outcome:
    """Do a run, in this process. An error ends the run, not the benchmark."""
    method = methods.BY_NAME[task.method]
    problem = suite.stream(task.data, task.seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _warm_up(task.method)
            with memory_growth() as megabytes:
                begin = time.process_time()
                actions, labels = run_method(method, problem, task.seed)
                seconds = time.process_time() - begin
    except Exception as error:
        return Outcome(failure=f"{type(error).__name__}: {error}")
    lost = first = None
    if actions is not None:
        lost, first = loss(problem, actions), loss(problem, actions[: suite.examples(task.data, len(problem))])
    return Outcome(lost, first, labels, round(seconds, 4), round(megabytes[0], 1))


def loss(problem: Problem, actions: Array) -> float:
    """What each step lost on average: against the best expected reward, or against the right action."""
    steps = np.arange(len(actions))
    if problem.expected is None:
        return float(np.mean(1.0 - problem.rewards[steps, actions]))
    expected = problem.expected[steps]
    return float(np.mean(expected.max(axis=1) - expected[steps, actions]))


def run_method(method: methods.Method, problem: Problem, seed: int) -> tuple[Array | None, int]:
    """The actions taken, and the number of observed rewards; None as soon as the time will not do."""
    made, contexts = method.make(problem, seed), method.contexts(problem)
    if method.is_ours:
        return replay(made, contexts, problem.rewards)
    return _step_by_step(made, contexts, problem.rewards), len(problem)


def replay(policy: Any, contexts: Array, rewards: Array) -> tuple[Array | None, int]:
    """Replay a policy of releaf part by part, which is the same as at once, to see how long it takes."""
    taken, labels, clock = [], 0, Clock(len(rewards))
    for start in range(0, len(rewards), _REPLAYED):
        part = slice(start, start + _REPLAYED)
        trace = releaf.replay(policy, contexts[part], rewards[part])
        taken.append(trace.actions)
        labels += int(trace.observed.sum())
        if clock.is_hopeless(start + len(trace.actions)):
            return None, labels
    return np.concatenate(taken), labels


def _step_by_step(baseline: Any, contexts: Array, rewards: Array) -> Array | None:
    actions, clock = np.empty(len(rewards), dtype=np.int64), Clock(len(rewards))
    for step, context in enumerate(contexts):
        action = actions[step] = baseline.decide(context)
        baseline.learn(context, action, float(rewards[step, action]))
        if step % _LOOK_EVERY == 0 and clock.is_hopeless(step + 1):
            return None
    return actions


class Clock:
    """Tells early that a run would take too long: a step seldom gets cheaper later."""

    def __init__(self, steps: int) -> None:
        self.steps, self.begin = steps, time.process_time()

    def is_hopeless(self, done: int) -> bool:
        spent = time.process_time() - self.begin
        return spent > _FIRST_LOOK and spent / done * self.steps > RUN_TIMEOUT


@cache
def _warm_up(name: str) -> None:
    """A few steps of a small problem, so that no run pays for imports and compilation."""
    run_method(methods.BY_NAME[name], small_problem(), 0)


def small_problem() -> Problem:
    """Every kind of feature and two actions, for so many steps that the models of all methods are fitted."""
    generator = np.random.default_rng(0)
    columns = {
        "number": generator.random(_WARMUP_STEPS),
        "optional": np.where(generator.random(_WARMUP_STEPS) < 0.2, np.nan, generator.random(_WARMUP_STEPS)),
        "category": np.array(list("abc"), dtype=object)[generator.integers(0, 3, _WARMUP_STEPS)],
    }
    return problem_of_table(Table(columns, np.arange(_WARMUP_STEPS) % 2))


@contextmanager
def memory_growth() -> Iterator[list[float]]:
    """The peak of resident memory in megabytes, over that at the beginning; a list that is filled at the end.

    Memory that was freed is returned to the system first. 0 where there is no /proc.
    """
    grown = [0.0]
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before = _resident("VmRSS")
    except (OSError, AttributeError):
        yield grown
        return
    yield grown
    grown[0] = max(0.0, _resident("VmHWM") - before)


def _resident(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith(name)).split()[1]) / 1024
