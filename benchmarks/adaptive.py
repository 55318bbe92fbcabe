"""What AdaptiveReleaf costs: a step next to VowpalWabbit's text interface, its longest call, first decision and memory.

Both sides decide and learn step by step, from the first step on, on the same stream. Times are of the processor, of
all threads of the process, except for the longest call: that is of the calling thread.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import psutil

import releaf
from benchmarks.measure import Finding, Say
from benchmarks.quality.adapters import VowpalWabbit
from benchmarks.workload import Array

STEPS, STEADY_STEPS, WARMUP_STEPS = 20_000, 3_000, 3_000
RUNS = 3
# features, actions, most of VowpalWabbit's mean time
SIZES = ((10, 4, 1.0), (30, 10, 1.5))
MEMORY_OF = ((10, 4), (30, 10), (1_000, 2), (10, 500))
LONG_STEPS = (100_000, 1_000_000)
VOWPAL_WABBIT = "-b 20 --cb_min_cost -1 --cb_max_cost 0 -q SA --squarecb"
FIRST_DECISION = """
import time
import releaf
releaf.AdaptiveReleaf(["a", "b", "c", "d"], 10, seed=0).decide([0.5] * 10)
print(time.process_time())
"""
Step = Callable[[Array, Array], None]


def stream(steps: int, features: int, actions: int, seed: int) -> tuple[Array, Array]:
    """Rewards of 0 and 1: the chance of 1 depends on some features in a line, and on one in waves."""
    generator = np.random.default_rng(seed)
    contexts = generator.random((steps, features))
    slopes = generator.normal(size=(actions, features)) * (generator.random((actions, features)) < 0.3)
    score = contexts @ slopes.T + 0.5 * np.sin(6.0 * contexts[:, np.arange(actions) % features])
    chance = 1.0 / (1.0 + np.exp(-2.0 * (score - score.mean())))
    return contexts, (generator.random(chance.shape) < chance).astype(np.float64)


def run(say: Say) -> list[Finding]:
    findings = []
    for features, actions, most in SIZES:
        say(f"adaptive: D = {features}, A = {actions}")
        findings += _costs(features, actions, most)
    say("adaptive: the first decision without compiled kernels")
    findings.append(_first_decision())
    for features, actions in MEMORY_OF:
        say(f"adaptive: memory, D = {features}, A = {actions}")
        findings.append(_memory(features, actions))
    say("adaptive: a million steps")
    findings.append(_long_stream())
    return findings


def _ours(features: int, actions: int) -> Step:
    bandit = releaf.AdaptiveReleaf(actions, features, seed=0)

    def step(context: Array, rewards: Array) -> None:
        choice = bandit.decide(context)
        bandit.learn(choice, rewards[choice.index])

    return step


def _theirs(features: int, actions: int) -> Step:
    baseline = VowpalWabbit(actions, features, 0, VOWPAL_WABBIT)

    def step(context: Array, rewards: Array) -> None:
        action = baseline.decide(context)
        baseline.learn(context, action, float(rewards[action]))

    return step


def _costs(features: int, actions: int, most: float) -> list[Finding]:
    """Mean over the first steps, longest call, and the steady state after them; the median of some runs, in turn."""
    contexts, rewards = stream(STEPS + STEADY_STEPS, features, actions, seed=0)
    sides = {"AdaptiveReleaf": _ours, "VowpalWabbit": _theirs}
    first: dict[str, list[float]] = {name: [] for name in sides}
    steady: dict[str, list[float]] = {name: [] for name in sides}
    longest: dict[str, list[float]] = {name: [] for name in sides}
    for make in sides.values():  # compiles and loads what is needed
        _run(make(features, actions), contexts[:WARMUP_STEPS], rewards[:WARMUP_STEPS])
    for _ in range(RUNS):
        for name, make in sides.items():
            step = make(features, actions)
            mean, call = _run(step, contexts[:STEPS], rewards[:STEPS])
            first[name].append(mean)
            longest[name].append(call)
            steady[name].append(_run(step, contexts[STEPS:], rewards[STEPS:])[0])
    size = f"D = {features}, A = {actions}"
    detail = {"microseconds, first steps": first, "microseconds, later": steady, "milliseconds, longest call": longest}
    ours, theirs = "AdaptiveReleaf", "VowpalWabbit"
    return [
        Finding(
            what=f"AdaptiveReleaf, {size}: mean step of the first {STEPS:,} over VowpalWabbit's",
            value=median(first[ours]) / median(first[theirs]),
            at_most=most,
            detail=detail,
        ),
        Finding(what=f"AdaptiveReleaf, {size}: longest call", value=min(longest[ours]), unit="ms", at_most=10.0),
        Finding(
            what=f"AdaptiveReleaf, {size}: times faster than VowpalWabbit later",
            value=median(steady[theirs]) / median(steady[ours]),
            at_least=3.0 if (features, actions) == (10, 4) else None,
        ),
    ]


def _run(step: Step, contexts: Array, rewards: Array) -> tuple[float, float]:
    """Microseconds of a step on average, and milliseconds of the longest one in this thread."""
    longest, clock = 0.0, time.thread_time
    gc.collect()
    gc.disable()
    begin = time.process_time()
    for context, row in zip(contexts, rewards, strict=True):
        before = clock()
        step(context, row)
        longest = max(longest, clock() - before)
    taken = time.process_time() - begin
    gc.enable()
    return 1e6 * taken / len(contexts), 1e3 * longest


def _first_decision() -> Finding:
    seconds = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as empty:
            environment = {**os.environ, "NUMBA_CACHE_DIR": empty, "RELEAF_QUIET": "1"}
            command = [sys.executable, "-c", FIRST_DECISION]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
            seconds.append(float(done.stdout))
    what = "AdaptiveReleaf: import and first decision with an empty kernel cache, processor time"
    return Finding(what=what, value=median(seconds), unit="s", at_most=15.0, detail={"seconds": seconds})


def _memory(features: int, actions: int) -> Finding:
    """Memory of a learner in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.adaptive", str(features), str(actions)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    report: dict[str, Any] = json.loads(done.stdout)
    what = f"AdaptiveReleaf, D = {features:,}, A = {actions}: memory after {STEPS:,} steps"
    return Finding(what=what, value=report["megabytes"], unit="MB", at_most=600.0, detail=report)


def _memory_of(features: int, actions: int) -> dict[str, Any]:
    releaf.AdaptiveReleaf(2, 3, seed=0).replay(*stream(1_000, 3, 2, seed=0))  # loads the kernels
    contexts, rewards = stream(STEPS, features, actions, seed=1)
    process = psutil.Process()
    before = process.memory_info().rss
    bandit = releaf.AdaptiveReleaf(actions, features, seed=0)
    trace = bandit.replay(contexts, rewards)
    return {"megabytes": (process.memory_info().rss - before) / 1e6, "mean_reward": float(trace.rewards.mean())}


def _long_stream() -> Finding:
    """Share of wrong actions at the end, over that after a tenth; rewards depend on three features together."""
    generator = np.random.default_rng(0)
    few, many = LONG_STEPS
    contexts = generator.random((many, 8))
    best = (contexts[:, 0] > 0.5) ^ (contexts[:, 1] > 0.35) ^ (contexts[:, 2] > 0.6)
    chance = np.where(best[:, None] == np.array([False, True]), 0.8, 0.2)
    rewards = (generator.random(chance.shape) < chance).astype(np.float64)
    actions = releaf.AdaptiveReleaf(2, 8, seed=0).replay(contexts, rewards).actions
    wrong = actions != best
    early, late = (float(wrong[end - few // 2 : end].mean()) for end in LONG_STEPS)
    what = f"AdaptiveReleaf: errors at {many:,} steps over those at {few:,}, three features together"
    return Finding(what=what, value=late / early, at_most=0.8, detail={"early": early, "late": late})


if __name__ == "__main__":
    print(json.dumps(_memory_of(*map(int, sys.argv[1:]))))
