"""Which feature leads an explanation: on a planted click log it should be one that was planted.

200,000 rows of three actions with clicks of 3 to 12 %: a peak in the evening, an interaction of age and device, and an
action that depends on nothing; four features of noise. Of each seed, 150 contexts are explained. Counted are the
explanations of both actions that depend on something in which the largest term names only planted features.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import releaf
from benchmarks.measure import Finding, Say
from benchmarks.workload import Array

ROWS, SEEDS, CONTEXTS, NOISE = 200_000, 10, 150, 4
LEAST = 0.97
ACTIONS = ("news", "deal", "advert")
PLANTED = {"news": {"hour"}, "deal": {"age", "device"}}
SCHEMA = releaf.Schema(
    hour=releaf.Continuous(0, 24),
    age=releaf.Continuous(18, 80),
    device=releaf.Categorical("phone", "desktop", "tablet"),
    **{f"noise {place}": releaf.Continuous() for place in range(1, NOISE + 1)},
)


def click_log(rows: int, draw: np.random.Generator) -> tuple[Array, Array]:
    """Contexts, and the chance of a click on each action."""
    hour, age, device = draw.uniform(0, 24, rows), draw.uniform(18, 80, rows), draw.integers(0, 3, rows)
    contexts = np.empty((rows, 3 + NOISE), dtype=object)
    contexts[:, 0], contexts[:, 1] = hour, age
    contexts[:, 2] = np.array(["phone", "desktop", "tablet"])[device]
    contexts[:, 3:] = draw.random((rows, NOISE))
    news = 0.03 + 0.09 * ((hour > 17) & (hour < 22))
    deal = 0.03 + 0.09 * ((age < 40) & (device == 0))
    return contexts, np.column_stack([news, deal, np.full(rows, 0.06)])


def run(say: Say) -> list[Finding]:
    shares = []
    for seed in range(SEEDS):
        say(f"leading terms: seed {seed}")
        shares.append(planted_share(seed))
    findings = [
        Finding(what=f"leading term is a planted feature, seed {seed}", value=share, unit="", at_least=LEAST)
        for seed, share in enumerate(shares)
    ]
    mean = float(np.mean(shares))
    return [*findings, Finding(what="leading term is a planted feature", value=mean, unit="", at_least=LEAST)]


def planted_share(seed: int, rows: int = ROWS) -> float:
    """Share of explanations whose largest term names only features that were planted for the action."""
    draw = np.random.default_rng(seed)
    contexts, chances = click_log(rows, draw)
    taken = draw.integers(0, len(ACTIONS), rows)
    rewards = (draw.random(rows) < chances[np.arange(rows), taken]).astype(float)
    bandit = releaf.AdaptiveReleaf(ACTIONS, SCHEMA, seed=seed)
    bandit.learn_log(contexts.tolist(), [ACTIONS[index] for index in taken], rewards)
    new, _ = click_log(CONTEXTS, draw)
    led = [_leads(known) for context in new.tolist() for known in bandit.explain(context).actions]
    return float(np.mean([planted for planted in led if planted is not None]))


def _leads(known: Any) -> bool | None:
    """Whether the largest term is planted; None for an action that depends on nothing."""
    if known.action not in PLANTED:
        return None
    features = set(known.terms[0].features)
    return bool(features) and features <= PLANTED[known.action]
