"""Many actions with features of their own: JointReleaf and HybridLinUCB next to VowpalWabbit on a planted log.

At any time 1,000 actions can be chosen; every 100 steps ten of them go, and ten come that nobody has seen. The reward
is 0 or 1. Its log-odds are a sum of main effects, of crosses of a feature of the context and one of the action, one of
them curved, and of an effect of each action that no feature tells; no method has a model of this form. All methods get
the same features, and choose among all 1,000 actions at each step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import releaf
from benchmarks.measure import Finding, Say

ACTIONS, STEPS, SEEDS = 1_000, 20_000, (1, 2, 3)
CHANGE_EVERY, CHANGED = 100, 10
NUMBERS, OWN_NUMBERS, GROUPS, KINDS = 6, 4, 3, 4
LATE = STEPS // 4  # steps at the end that count as late
Array = np.ndarray[Any, np.dtype[np.float64]]
CONTEXT = releaf.Schema(
    {f"x{i}": releaf.Continuous(0, 1) for i in range(NUMBERS)} | {"group": releaf.Categorical(*map(str, range(GROUPS)))}
)
ACTION = releaf.Schema(
    {f"y{i}": releaf.Continuous(0, 1) for i in range(OWN_NUMBERS)}
    | {"kind": releaf.Categorical(*map(str, range(KINDS)))}
)
ALPHA = 0.2  # of HybridLinUCB; the best of five that were tried on another seed, from 0.1 to 1
# The best of six that were tried on another seed: gamma_scale 100 and 1000, learning rates 0.5, 2 and 5, with and
# without the actions' names, and interactions CA, or CA CC AA CCA.
VOWPAL_WABBIT = "--cb_explore_adf --squarecb --gamma_scale 1000 --cb_type mtr -q CA --learning_rate 2 --quiet"


class Action(NamedTuple):
    """An action: its name, its features, and its own effect."""

    name: str
    numbers: Array
    kind: int
    effect: float


class World:
    """The planted problem of a seed."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng([seed, 20])
        self.by_kind = self.generator.normal(0, 1.0, (GROUPS, KINDS))
        self.made = 0
        self.alive = [self._action() for _ in range(ACTIONS)]
        self._read_alive()

    def _read_alive(self) -> None:
        """Set numbers, kinds and effects of the actions that are there."""
        self.numbers = np.array([action.numbers for action in self.alive]) - 0.5
        self.kinds = np.array([action.kind for action in self.alive])
        self.effects = np.array([action.effect for action in self.alive])

    def _action(self) -> Action:
        draw = self.generator
        self.made += 1
        return Action(f"a{self.made}", draw.random(OWN_NUMBERS), int(draw.integers(KINDS)), draw.normal(0, 0.3))

    def change(self) -> tuple[list[Action], list[Action]]:
        """Some actions go, and others come."""
        gone = self.generator.choice(ACTIONS, CHANGED, replace=False)
        came = [self._action() for _ in range(CHANGED)]
        left = [self.alive[place] for place in gone]
        for place in sorted(gone.tolist(), reverse=True):
            del self.alive[place]
        self.alive += came
        self._read_alive()
        return left, came

    def context(self) -> tuple[Array, int]:
        return self.generator.random(NUMBERS), int(self.generator.integers(GROUPS))

    def chances(self, numbers: Array, group: int) -> Array:
        """Expected reward of each action that is there."""
        own, x = self.numbers, numbers - 0.5
        odds = -1.5 + 0.8 * x[0] + 6.0 * x[1] * own[:, 0] + 0.7 * self.by_kind[group, self.kinds] + self.effects
        odds += 1.5 * own[:, 1] + 10.0 * (x[2] ** 2 - 1 / 12) * own[:, 2]
        return np.asarray(1 / (1 + np.exp(-odds)))


class Side(NamedTuple):
    """A method: what it does when actions change, how it decides, and how it learns the reward of its decision."""

    change: Callable[[list[Action], list[Action]], None]
    decide: Callable[[Array, int], int]
    learn: Callable[[float], None]


def features_of(action: Action) -> dict[str, Any]:
    return {f"y{i}": float(value) for i, value in enumerate(action.numbers)} | {"kind": str(action.kind)}


def joint_side(world: World) -> Side:
    return releaf_side(world, releaf.JointReleaf)


def hybrid_side(world: World) -> Side:
    return releaf_side(world, releaf.HybridLinUCB, alpha=ALPHA)


def releaf_side(world: World, policy: Any, **options: Any) -> Side:
    table = {action.name: features_of(action) for action in world.alive}
    bandit = policy(table, CONTEXT, action_features=ACTION, seed=0, **options)
    latest: list[releaf.Decision] = []

    def change(left: list[Action], came: list[Action]) -> None:
        for action in left:
            bandit.remove_action(action.name)
        for action in came:
            bandit.add_action(action.name, features_of(action))

    def decide(numbers: Array, group: int) -> int:
        latest[:] = [bandit.decide([*numbers.tolist(), str(group)])]
        return latest[0].index

    return Side(change, decide, lambda reward: bandit.learn(latest[0], reward))


def vowpal_wabbit_side(world: World, arguments: str = VOWPAL_WABBIT, names: bool = False) -> Side:
    from vowpalwabbit import Workspace

    workspace = Workspace(arguments)
    generator = np.random.default_rng(0)
    lines: dict[str, str] = {}
    latest: list[Any] = []

    def line(action: Action) -> str:
        if action.name not in lines:
            numbers = " ".join(f"y{i}:{2 * value - 1:.6f}" for i, value in enumerate(action.numbers))
            lines[action.name] = f"|A {numbers} kind={action.kind}" + (f" |I {action.name}" if names else "")
        return lines[action.name]

    def decide(numbers: Array, group: int) -> int:
        shared = " ".join(f"x{i}:{2 * value - 1:.6f}" for i, value in enumerate(numbers.tolist()))
        rows = [line(action) for action in world.alive]
        head = f"shared |C {shared} group={group}"
        chances = np.array(workspace.predict("\n".join([head, *rows])))
        place = int(np.searchsorted(np.cumsum(chances / chances.sum()), generator.random()))
        latest[:] = [head, rows, min(place, len(rows) - 1), chances]
        return min(place, len(rows) - 1)

    def learn(reward: float) -> None:
        head, rows, place, chances = latest
        labelled = [f"0:{1.0 - reward}:{max(chances[place], 1e-6):.6f} {rows[place]}"]
        workspace.learn("\n".join([head, *rows[:place], *labelled, *rows[place + 1 :]]))

    return Side(lambda left, came: None, decide, learn)


def random_side(world: World) -> Side:
    generator = np.random.default_rng(0)
    return Side(lambda left, came: None, lambda numbers, group: int(generator.integers(ACTIONS)), lambda reward: None)


SIDES: dict[str, Callable[[World], Side]] = {
    "JointReleaf": joint_side,
    "HybridLinUCB": hybrid_side,
    "VowpalWabbit": vowpal_wabbit_side,
    "random": random_side,
}


class Outcome(NamedTuple):
    """Expected rewards of a run: of the actions taken, and of the best ones; and seconds a decision and a reward."""

    gained: Array
    best: Array
    decide: float
    learn: float


def live(make: Callable[[World], Side], seed: int, steps: int = STEPS) -> Outcome:
    """Decide and learn step by step; the stream and the actions are the same for all methods."""
    world = World(seed)
    side, generator = make(world), np.random.default_rng([seed, 21])
    gained, best, deciding, learning = np.zeros(steps), np.zeros(steps), np.zeros(steps), np.zeros(steps)
    for step in range(steps):
        if step and step % CHANGE_EVERY == 0:
            side.change(*world.change())
        numbers, group = world.context()
        chances = world.chances(numbers, group)
        start = time.perf_counter()
        chosen = side.decide(numbers, group)
        decided = time.perf_counter()
        side.learn(float(generator.random() < chances[chosen]))
        deciding[step], learning[step] = decided - start, time.perf_counter() - decided
        gained[step], best[step] = chances[chosen], chances.max()
    return Outcome(gained, best, float(np.median(deciding)), float(np.median(learning)))


def run(say: Say) -> list[Finding]:
    outcomes: dict[str, list[Outcome]] = {}
    for name, make in SIDES.items():
        for seed in SEEDS:
            say(f"actions: {name}, seed {seed}")
            outcomes.setdefault(name, []).append(live(make, seed))
    detail = {name: _detail(found) for name, found in outcomes.items()}
    best = [outcome.best for outcome in outcomes["random"]]
    detail["oracle"] = {"mean_reward": float(np.mean(best)), "late": float(np.mean([own[-LATE:] for own in best]))}
    return _findings(detail)


def _detail(found: list[Outcome]) -> dict[str, Any]:
    return {
        "mean_reward": float(np.mean([outcome.gained for outcome in found])),
        "late": float(np.mean([outcome.gained[-LATE:] for outcome in found])),
        "by_seed": [float(outcome.gained.mean()) for outcome in found],
        "microseconds_decide": 1e6 * float(np.median([outcome.decide for outcome in found])),
        "microseconds_learn": 1e6 * float(np.median([outcome.learn for outcome in found])),
    }


def _findings(detail: dict[str, dict[str, Any]]) -> list[Finding]:
    mine, theirs = detail["JointReleaf"], detail["VowpalWabbit"]
    findings = [
        Finding(
            what=f"{ACTIONS:,} actions: mean reward over VowpalWabbit's",
            value=mine["mean_reward"] / theirs["mean_reward"],
            at_least=1.0,
            detail=detail,
        ),
        Finding(what="in the last quarter", value=mine["late"] / theirs["late"], at_least=1.0),
        Finding(
            what=f"{ACTIONS:,} actions: time of VowpalWabbit's decision over JointReleaf's",
            value=theirs["microseconds_decide"] / mine["microseconds_decide"],
            at_least=1.0,
        ),
    ]
    for name, own in detail.items():
        findings.append(Finding(what=f"mean reward, {name}", value=own["mean_reward"], unit=""))
        findings.append(Finding(what=f"late, {name}", value=own["late"], unit=""))
        if "microseconds_decide" in own:
            findings.append(Finding(what=f"decide, {name}", value=own["microseconds_decide"], unit="µs"))
            findings.append(Finding(what=f"learn, {name}", value=own["microseconds_learn"], unit="µs"))
    return findings
