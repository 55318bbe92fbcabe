"""AdaptiveReleaf: one decision and its reward next to VowpalWabbit's, and how its time grows with the actions.

VowpalWabbit was the fastest of the other packages, given bare examples. Each side has learnt before the clock
runs, and is given the same contexts, D = 15 features and A = 2 actions, of which two features matter together.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import numpy as np

import releaf
from benchmarks.libraries import ACTIONS, FEATURES, loop, releaf_step, vowpal_wabbit_step, vowpal_wabbit_text_step
from benchmarks.measure import Finding, Say, in_turn
from benchmarks.workload import Array

WARMUP_STEPS, STEPS = 20_000, 3_000
RUNS = 3
SIZES = (2, 8, 32)


def together(steps: int, features: int, actions: int, seed: int) -> tuple[Array, Array]:
    """Rewards of 0 and 1; which action is the better one depends on two features together, in part on chance."""
    generator = np.random.default_rng(seed)
    contexts = generator.random((steps, features))
    side = (contexts[:, 0] > 0.5) ^ (contexts[:, 1] > 0.3)
    chance = np.where((np.arange(actions) % 2 == 0) == side[:, None], 0.8, 0.2)
    return contexts, (generator.random(chance.shape) < chance).astype(np.float64)


def run(say: Say) -> list[Finding]:
    contexts, rewards = together(WARMUP_STEPS + STEPS, FEATURES, ACTIONS, seed=0)
    bandit = releaf.AdaptiveReleaf(ACTIONS, FEATURES, seed=0)
    say("adaptive: replaying the stream")
    bandit.replay(contexts[:WARMUP_STEPS], rewards[:WARMUP_STEPS])
    steps: dict[str, Any] = {
        "AdaptiveReleaf": releaf_step(bandit),
        "VowpalWabbit, bare examples": vowpal_wabbit_step(),
        "VowpalWabbit": vowpal_wabbit_text_step(),
    }
    sides = {name: loop(step, STEPS, contexts[WARMUP_STEPS:], rewards[WARMUP_STEPS:]) for name, step in steps.items()}
    for replay in sides.values():
        replay()
    seconds = in_turn(sides, say=lambda text: say(f"adaptive: {text}"))
    mine = seconds["AdaptiveReleaf"]
    detail = {"microseconds": {name: 1e6 * taken / STEPS for name, taken in seconds.items()}}
    findings = []
    for name in sides:
        if name != "AdaptiveReleaf":
            what, ratio = f"AdaptiveReleaf, decide + learn: times faster than {name}", seconds[name] / mine
            findings.append(Finding(what=what, value=ratio, at_least=5.0, detail=detail))
    return [*findings, *_replayed(say)]


def _replayed(say: Say) -> list[Finding]:
    """The time of a replayed step from the first on, when all tables are chosen, and how it grows with the actions."""
    micros = {}
    for actions in SIZES:
        say(f"adaptive: {actions} actions")
        contexts, rewards = together(WARMUP_STEPS, FEATURES, actions, seed=1)
        micros[actions] = median(_microseconds(actions, contexts, rewards) for _ in range(RUNS))
    few, many = SIZES[0], SIZES[-1]
    growth = micros[many] / micros[few] / (many / few)
    what = f"AdaptiveReleaf: its time with {many} actions over that with {few}, over the ratio of actions"
    return [
        Finding(what=f"AdaptiveReleaf: a step of the first {WARMUP_STEPS:,}, replayed", value=micros[few], unit="µs"),
        Finding(what=what, value=growth, at_most=1.5, detail={"microseconds": micros}),
    ]


def _microseconds(actions: int, contexts: Array, rewards: Array) -> float:
    bandit = releaf.AdaptiveReleaf(actions, FEATURES, seed=0)
    start = time.perf_counter()
    bandit.replay(contexts, rewards)
    return 1e6 * (time.perf_counter() - start) / len(contexts)
