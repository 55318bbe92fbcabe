"""Coverage of the intervals in AdaptiveReleaf's explanations: how often they hold the expected reward.

Planted streams of binary rewards, learnt from a log in which one action of three is rare, and online. Coverage is the
share of new contexts whose expected reward lies in the interval, for each action, over several seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import releaf
from benchmarks.measure import Finding, Say
from benchmarks.workload import Array
from releaf.core.adaptive.intervals import RewardIntervals
from releaf.statistics import Z95

FEATURES = 6
STEPS, SEEDS, CONTEXTS = 6_000, 8, 40
LOGGED = (0.55, 0.4, 0.05)  # propensities of the actions in a log: the last one is rare
WAYS = ("log", "online")
LEAST, MOST = 0.93, 0.97
ACTIONS = 3
Chances = Callable[[Array], Array]


class Planted(NamedTuple):
    """A stream: the expected reward of each action, and the number of categories of the first feature, if any."""

    chances: Chances
    categories: int = 0


def _columns(*columns: Any) -> Array:
    return np.column_stack(np.broadcast_arrays(*columns))


def _effects(categories: int) -> Chances:
    """Each category has an effect of its own on the first action, and half of it on the rare one."""
    effects = np.random.default_rng(categories).uniform(0.15, 0.85, categories)

    def chances(x: Array) -> Array:
        own = effects[x[:, 0].astype(int)]
        return _columns(own, 0.3 + 0.4 * x[:, 1], 0.25 + 0.5 * own)

    return chances


STREAMS = {
    "jumps": Planted(lambda x: _columns(0.2 + 0.5 * (x[:, 0] > 0.3), 0.4 + 0.0 * x[:, 0], 0.6 - 0.4 * (x[:, 1] > 0.7))),
    "waves": Planted(
        lambda x: _columns(
            0.5 + 0.35 * np.sin(5 * x[:, 0]), 0.4 + 0.25 * np.cos(8 * x[:, 2]), 0.5 + 0.3 * np.sin(4 * x[:, 1])
        )
    ),
    "interactions": Planted(
        lambda x: _columns(
            0.2 + 0.5 * ((x[:, 0] > 0.4) & (x[:, 1] > 0.4)),
            0.2 + 0.6 * x[:, 2] * x[:, 3],
            0.4 + 0.3 * (x[:, 0] > x[:, 1]),
        )
    ),
    "clicks": Planted(
        lambda x: _columns(
            0.04 + 0.08 * ((x[:, 0] > 0.7) & (x[:, 0] < 0.9)),
            0.06 + 0.0 * x[:, 0],
            0.03 + 0.1 * ((x[:, 1] > 0.5) & (x[:, 2] < 0.5)),
        )
    ),
    "lines": Planted(
        lambda x: _columns(0.25 + 0.4 * x[:, 0], 0.7 - 0.4 * x[:, 1], 0.2 + 0.2 * x[:, 2] + 0.3 * x[:, 3])
    ),
    "nothing": Planted(lambda x: _columns(0.15 + 0.0 * x[:, 0], 0.45, 0.75)),
    "12 categories": Planted(_effects(12), 12),
    "60 categories": Planted(_effects(60), 60),
    "250 categories": Planted(_effects(250), 250),
}


def run(say: Say) -> list[Finding]:
    findings = []
    for name, planted in STREAMS.items():
        for way in WAYS:
            hits, widths = [], []
            for seed in range(SEEDS):
                say(f"coverage, {name}, {way}: seed {seed}")
                held, wide = covered(planted, way, seed)
                hits.append(held)
                widths.append(wide)
            by_action = np.mean(hits, axis=0)
            detail = {
                "stream": name,
                "way": way,
                "coverage of each action": by_action.tolist(),
                "mean width": np.mean(widths, axis=0).tolist(),
                "of each seed": [float(np.mean(held)) for held in hits],
            }
            what = f"coverage of 95 % intervals, {name}, {way}"
            findings.append(Finding(what=what, value=float(by_action.mean()), unit="", at_least=LEAST, detail=detail))
    return findings


def covered(planted: Planted, way: str, seed: int, steps: int = STEPS) -> tuple[Array, Array]:
    """Share of new contexts whose expected reward lies in the interval, and the mean width, of each action."""
    draw = np.random.default_rng(seed)
    bandit = _learner(planted, seed)
    contexts, chances = _contexts(planted, steps, draw)
    rewards = (draw.random(chances.shape) < chances).astype(float)
    if way == "log":
        taken = draw.choice(ACTIONS, steps, p=LOGGED)
        bandit.learn_log(contexts, taken, rewards[np.arange(steps), taken])
    else:
        bandit.replay(contexts, rewards)
    new, truth = _contexts(planted, CONTEXTS, draw)
    low, high = bounds(bandit, new)
    return ((low <= truth) & (truth <= high)).mean(axis=0), (high - low).mean(axis=0)


def bounds(bandit: releaf.AdaptiveReleaf, contexts: Array) -> tuple[Array, Array]:
    """Bounds of the intervals that ``explain`` shows where every value is known, without its terms, which take long."""
    engine, estimates = bandit._engine, bandit.estimate(contexts)
    units = [bandit._encoder.encode(context) for context in contexts]
    engine.relevance()
    deviations = np.empty(estimates.shape)
    for action in range(ACTIONS):
        intervals = RewardIntervals(engine.with_actions(engine.settings, [action]))
        intervals.prepare()
        deviations[:, action] = [intervals.deviation(context) for context in units]
    return np.maximum(estimates - Z95 * deviations, 0.0), np.minimum(estimates + Z95 * deviations, 1.0)


def _learner(planted: Planted, seed: int) -> releaf.AdaptiveReleaf:
    first = releaf.Categorical(*range(planted.categories)) if planted.categories else releaf.Continuous()
    others = {f"x{place}": releaf.Continuous() for place in range(1, FEATURES)}
    return releaf.AdaptiveReleaf(ACTIONS, releaf.Schema({"x0": first, **others}), seed=seed)


def _contexts(planted: Planted, rows: int, draw: np.random.Generator) -> tuple[Array, Array]:
    contexts = draw.random((rows, FEATURES))
    if planted.categories:
        contexts[:, 0] = draw.integers(0, planted.categories, rows)
    return contexts, planted.chances(contexts)
