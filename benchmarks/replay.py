"""``releaf.replay`` against a floor that only locates the leaves and touches the same cells."""

from __future__ import annotations

from benchmarks.floor import Kernel, floor
from benchmarks.measure import Finding, Say, in_turn
from benchmarks.workload import experienced, rewinder, stream, twin

SHAPES = ((5, 5), (10, 4), (15, 2), (12, 5))  # features, actions
# Intervals of level 4 exist from step 186,779 on and split beyond step 10 million. By step 600,000 the last control
# number of these shapes that rises above a whole number has done so, and its burst of explorations is over.
WARMUP_STEPS, STEPS = 600_000, 100_000
REPETITIONS = 25  # runs are short, and bursts of noise on a shared machine outlast nine of them
MOST = 2.0


def run(say: Say) -> list[Finding]:
    findings = []
    for observe in ("explored", "always"):
        kernel = floor(writes=observe == "always")
        for features, actions in SHAPES:
            name = f"replay, D={features}, A={actions}, {observe}"
            findings += _measure(name, features, actions, observe, kernel, say)
    return findings


def _measure(name: str, features: int, actions: int, observe: str, kernel: Kernel, say: Say) -> list[Finding]:
    say(f"{name}: replaying {WARMUP_STEPS:,} steps")
    bandit = experienced(WARMUP_STEPS, features, actions, observe=observe)
    contexts, rewards = stream(STEPS, features, actions, seed=1)
    engine, touched = bandit._engine, twin(bandit)._engine
    rewind = rewinder(bandit)
    chosen, explored, _, _ = engine.replay(contexts, rewards)
    gained = rewards[range(STEPS), chosen]
    sides = {
        "replay": lambda: engine.replay(contexts, rewards),
        "plain": lambda: kernel(touched.state.pointer_table, contexts, chosen, gained),
    }
    seconds = in_turn(sides, repetitions=REPETITIONS, before=rewind, say=lambda text: say(f"{name}: {text}"))
    detail = {
        "seconds": seconds,
        "steps": STEPS,
        "warmup_steps": WARMUP_STEPS,
        "repetitions": REPETITIONS,
        "explored": float(explored.mean()),
        "steps_per_second": STEPS / seconds["replay"],
    }
    return [
        Finding(
            what=f"{name}: time over the floor's",
            value=seconds["replay"] / seconds["plain"],
            at_most=MOST,
            detail=detail,
        ),
        Finding(what=f"{name}: steps", value=STEPS / seconds["replay"] / 1e6, unit="million/s"),
    ]
