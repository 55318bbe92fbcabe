"""LinUCB here, and LinUCB in other libraries: one step, at once or from Python. D = 15 features, A = 2 actions."""

from __future__ import annotations

from collections.abc import Callable

import releaf
from benchmarks.libraries import ACTIONS, FEATURES, Step, loop, mabwiser_step, river_step
from benchmarks.measure import Finding, Say, in_turn
from benchmarks.workload import Array, stream

REPLAYED, STEPPED = 100_000, 20_000
STEPS = {"River": 1_000, "MABWiser": 300}


def linucb_step() -> Step:
    bandit = releaf.LinUCB(ACTIONS, FEATURES, alpha=0.1)

    def step(row: Array, rewards: list[float]) -> int:
        choice = bandit.decide(row)
        bandit.learn(choice, rewards[choice.index])
        return choice.index

    return step


def run(say: Say) -> list[Finding]:
    contexts, rewards = stream(REPLAYED, FEATURES, ACTIONS, seed=1)
    replayed = releaf.LinUCB(ACTIONS, FEATURES, alpha=0.1)
    sides: dict[str, Callable[[], object]] = {
        "replay": lambda: releaf.replay(replayed, contexts, rewards),
        "step by step": loop(linucb_step(), STEPPED, contexts, rewards),
        "River": loop(river_step(), STEPS["River"], contexts, rewards),
        "MABWiser": loop(mabwiser_step(), STEPS["MABWiser"], contexts, rewards),
    }
    seconds = in_turn(sides, say=lambda text: say(f"linear: {text}"))
    counts = {"replay": REPLAYED, "step by step": STEPPED, **STEPS}
    per_step = {name: 1e6 * taken / counts[name] for name, taken in seconds.items()}
    findings = []
    for way in ("replay", "step by step"):
        for baseline in STEPS:
            value = per_step[baseline] / per_step[way]
            least = 50.0 if baseline == "River" else 1.0
            what = f"LinUCB, {way}: times faster than {baseline}'s"
            findings.append(Finding(what=what, value=value, at_least=least, detail={"microseconds": per_step}))
    return findings
