"""How often AdaptiveReleaf calls a feature relevant although no action depends on any.

Logs of 12,000 rows with four actions and rewards of 12 %. Of eight features two are correlated, one has gaps, and two
are categories of 150 and 7 values. Counted are pairs of an action and a feature whose certainty is above 0.99 and
0.999, and actions for which a feature is named (`relevant_features`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import releaf
from benchmarks.measure import Finding, Say

ROWS, SEEDS, RATE = 12_000, 60, 0.12
MOST_PAIRS, MOST_ACTIONS = 0.01, 0.06  # above which the rates are no longer those that the page tells
ACTIONS = ("a", "b", "c", "d")
SCHEMA = releaf.Schema(
    x=releaf.Quantile(),
    near_x=releaf.Quantile(),
    skewed=releaf.Quantile(),
    gaps=releaf.Quantile(missing=True),
    member=releaf.Boolean(),
    dice=releaf.Quantile(),
    merchant=releaf.Categorical(*(f"m{place}" for place in range(150))),
    weekday=releaf.Categorical(*(f"d{place}" for place in range(7))),
)


def run(say: Say) -> list[Finding]:
    certainties, named = [], 0
    for seed in range(SEEDS):
        say(f"features of noise: seed {seed}")
        found = learner_of_noise(seed)
        certainties.append(np.asarray(found.relevance().certainties))
        named += sum(bool(features) for features in found.relevant_features().values())
    pairs, unit = np.concatenate(certainties), "%"
    shares = {
        "pairs of noise with a certainty above 0.99": (float((pairs > 0.99).mean()), None),
        "pairs of noise with a certainty above 0.999": (float((pairs > 0.999).mean()), MOST_PAIRS),
        "actions of noise with a feature called relevant": (named / len(pairs), MOST_ACTIONS),
    }
    return [
        Finding(what=what, value=100 * share, unit=unit, at_most=None if most is None else 100 * most)
        for what, (share, most) in shares.items()
    ]


def learner_of_noise(seed: int, rows: int = ROWS) -> Any:
    """A learner of a log whose rewards depend on nothing."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=rows)
    columns = {
        "x": x,
        "near_x": x + draw.normal(0, 0.5, rows),
        "skewed": draw.exponential(size=rows),
        "gaps": np.where(draw.random(rows) < 0.1, np.nan, draw.normal(size=rows)),
        "member": draw.random(rows) < 0.3,
        "dice": draw.integers(0, 10, rows).astype(float),
        "merchant": [f"m{place}" for place in draw.integers(0, 150, rows)],
        "weekday": [f"d{place}" for place in draw.integers(0, 7, rows)],
    }
    taken, rewards = draw.integers(0, len(ACTIONS), rows), (draw.random(rows) < RATE).astype(float)
    learner = releaf.AdaptiveReleaf(ACTIONS, SCHEMA, seed=seed)
    learner.learn_log(list(zip(*columns.values(), strict=True)), [ACTIONS[place] for place in taken], rewards)
    return learner
