"""State of AdaptiveReleaf as flat arrays."""

from __future__ import annotations

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.levels import MOST_LEVELS, STRETCH
from releaf.core.runtime.primitives import CLOCK_LENGTH, new_clock
from releaf.core.runtime.state import LearnerState, constant, learnt, scratch

# Fields of the clock, besides time and generator: requested rewards, and fits so far.
REQUESTED, FITS = 3, 4
# Fields of the parameters: optimism; lower bound on every action's probability; rule of reward requests, its number,
# and the width of its confidence bounds; window of latest rewards that count (0: all, AUTO: until a drift).
OPTIMISM, FLOOR, RULE, LIMIT, WIDTH_OF_BOUNDS, WINDOW = range(6)
ALWAYS, BUDGET, COST, GUARANTEE = range(4)
AUTO = -1
# Fields of an action: rewards learnt; rewards forgotten; rewards at which the next refit is due; tables; columns.
LEARNT, FORGOTTEN, NEXT, TABLES, COLUMNS = range(5)
# Fields of a table: first feature, second feature or NO_FEATURE, resolution, first column, number of columns.
FIRST, SECOND, RESOLUTION, START, WIDTH = range(5)
NO_FEATURE = -1
CONSTANT, UNLIKE, FIRST_COLUMN = range(3)  # columns of no table
# Fields of drift detection: accumulated excess of squared residuals, and the reward at which it was last 0.
EXCESS, SINCE_REWARD = 0, 1
# Sums over all decisions, where rewards are requested: probabilities of error, and novelties.
ERROR_SUM, NOVELTY_SUM = 0, 1

FIRST_FIT = 8  # rewards
MOST_COLUMNS = 180
MOST_TABLES = 180
MOST_ROWS = 4096  # stored rewards of an action, to which its tables are fitted
FEWEST_ROWS = 256
MOST_STORED_VALUES = 200_000  # in the contexts of these rewards
SEEN = 1024  # contexts from which the levels are set


class Adaptive(LearnerState):
    """Contexts seen and their levels; then for each action its levels, tables, regression and stored rewards.

    The regression has ``precisions`` (λ of each table), ``weights`` and ``covariance`` of all columns, ``dispersion``
    of the rewards, and ``typical`` column values (means). ``strengths`` is the variance that each feature explains,
    ``certainties`` the certainty of that. ``places`` and all fields after it are scratch.
    """

    clock: Array = learnt(np.int64, CLOCK_LENGTH)
    params: Array = constant(np.float64, "parameters")
    limits: Array = constant(np.float64, "features")
    categories: Array = constant(np.int64, "features")
    seen: Array = learnt(np.float32, SEEN, "features")
    fresh_knots: Array = learnt(np.float64, "features", MOST_LEVELS + STRETCH)
    fresh_levels: Array = learnt(np.int64, "features", least=0)
    knots: Array = learnt(np.float64, "actions", "features", MOST_LEVELS + STRETCH)
    levels: Array = learnt(np.int64, "actions", "features", least=0)
    counts: Array = learnt(np.int64, "actions", 5, least=0)
    tables: Array = learnt(np.int64, "actions", MOST_TABLES, 5)
    precisions: Array = learnt(np.float64, "actions", MOST_TABLES)
    weights: Array = learnt(np.float64, "actions", MOST_COLUMNS)
    covariance: Array = learnt(np.float64, "actions", MOST_COLUMNS, MOST_COLUMNS)
    dispersion: Array = learnt(np.float64, "actions")
    ranges: Array = learnt(np.float64, "actions", "features", 2)
    typical: Array = learnt(np.float64, "actions", MOST_COLUMNS)
    strengths: Array = learnt(np.float64, "actions", "features")
    certainties: Array = learnt(np.float64, "actions", "features")
    watch: Array = learnt(np.float64, "actions", 2)
    rows: Array = learnt(np.float32, "actions", "rows", "features")
    payoffs: Array = learnt(np.float64, "actions", "rows")
    sums: Array = learnt(np.float64, 2)
    places: Array = scratch(np.float64, "features")
    heights: Array = scratch(np.float64, "features")
    where: Array = scratch(np.int64, MOST_COLUMNS)
    value: Array = scratch(np.float64, MOST_COLUMNS)
    push: Array = scratch(np.float64, MOST_COLUMNS)
    logits: Array = scratch(np.float64, "actions")
    spreads: Array = scratch(np.float64, "actions")
    estimates: Array = scratch(np.float64, "actions")
    chances: Array = scratch(np.float64, "actions")
    chance: Array = scratch(np.float64, 1)


def rows_stored(features: int) -> int:
    """Number of stored rewards per action, which bounds memory use."""
    return int(np.clip(MOST_STORED_VALUES // features, FEWEST_ROWS, MOST_ROWS))


def new_adaptive(
    seed: int | None, limits: Array, categories: Array, actions: int, params: tuple[float, ...]
) -> Adaptive:
    """Initial state for so many actions, without tables."""
    features, rows = len(limits), rows_stored(len(limits))
    knots = np.zeros((features, MOST_LEVELS + STRETCH))
    knots[:, :3] = 0.0, 0.5, 1.0
    knots[categories > MOST_LEVELS, :MOST_LEVELS] = np.arange(MOST_LEVELS)
    knots[:, MOST_LEVELS:] = 0.5, np.sqrt(12.0)  # of the uniform distribution
    levels = np.where(categories > 0, np.minimum(categories, MOST_LEVELS), 3)
    return Adaptive(
        clock=new_clock(seed),
        params=params,
        limits=limits,
        categories=categories,
        seen=np.zeros((SEEN, features)),
        fresh_knots=knots,
        fresh_levels=levels,
        knots=np.repeat(knots[None], actions, axis=0),
        levels=np.repeat(levels[None], actions, axis=0),
        counts=np.zeros((actions, 5)),  # the first fit is due
        tables=np.zeros((actions, MOST_TABLES, 5)),
        precisions=np.ones((actions, MOST_TABLES)),
        weights=np.zeros((actions, MOST_COLUMNS)),
        covariance=np.zeros((actions, MOST_COLUMNS, MOST_COLUMNS)),
        dispersion=np.ones(actions),
        ranges=np.tile([0.0, 1.0], (actions, features, 1)),
        typical=np.zeros((actions, MOST_COLUMNS)),
        strengths=np.zeros((actions, features)),
        certainties=np.zeros((actions, features)),
        watch=np.zeros((actions, 2)),
        rows=np.zeros((actions, rows, features)),
        payoffs=np.zeros((actions, rows)),
        sums=np.zeros(2),
        places=np.zeros(features),
        heights=np.zeros(features),
        where=np.zeros(MOST_COLUMNS),
        value=np.zeros(MOST_COLUMNS),
        push=np.zeros(MOST_COLUMNS),
        logits=np.zeros(actions),
        spreads=np.zeros(actions),
        estimates=np.zeros(actions),
        chances=np.zeros(actions),
        chance=np.ones(1),
    )
