"""What AdaptiveReleaf knows, as flat arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from releaf.core.adaptive.levels import MOST_LEVELS, STRETCH
from releaf.core.runtime.primitives import Array, new_clock

# Of the clock, besides time and generator: rewards asked for, and fits so far.
ASKED, FITS = 3, 4
# Of the parameters: how optimistic it is; the least probability of an action; when it asks for a reward, and the
# number that rule needs, and the width of its intervals; how many rewards it remembers (0: all, AUTO: found out).
OPTIMISM, FLOOR, RULE, LIMIT, WIDTH_OF_BOUNDS, MEMORY = range(6)
ALWAYS, BUDGET, COST, GUARANTEE = range(4)
AUTO = -1
# Of an action: rewards learnt; those forgotten again; those at which to fit next; tables; columns.
LEARNT, FORGOTTEN, NEXT, TABLES, COLUMNS = range(5)
# Of a table: its first feature, its second or NO_FEATURE, its resolution, its first column and their number.
FIRST, SECOND, RESOLUTION, START, WIDTH = range(5)
NO_FEATURE = -1
CONSTANT, UNLIKE, FIRST_COLUMN = range(3)  # columns of no table
# Of the watch for drift: how much more surprise than expected has come together, and since which reward.
EXCESS, SINCE_REWARD = 0, 1
# Of all decisions so far, where only some rewards are asked for: the sum of their doubts, and of their strangeness.
DOUBT, STRANGENESS = 0, 1

FIRST_FIT = 8  # rewards
MOST_COLUMNS = 180
MOST_TABLES = 180
MOST_ROWS = 4096  # rewards of an action that are kept to fit its tables to
FEWEST_ROWS = 256
ROOM_FOR_ROWS = 200_000  # numbers in the contexts of these rewards
SEEN = 1024  # contexts that the levels are found by


class Adaptive(NamedTuple):
    """Contexts seen and levels found by them; then for each action its levels, tables, regression and rewards kept.

    Of the regression: ``precisions`` (λ of each table), ``weights`` and ``covariance`` of all columns, ``dispersion``
    of the rewards, ``typical`` column values. ``strengths`` and ``certainties`` tell how much each feature explains and
    how sure that is. From ``places`` on all is scratch.
    """

    clock: Array
    params: Array
    limits: Array
    categories: Array
    seen: Array
    fresh_knots: Array
    fresh_levels: Array
    knots: Array
    levels: Array
    counts: Array
    tables: Array
    precisions: Array
    weights: Array
    covariance: Array
    dispersion: Array
    ranges: Array
    typical: Array
    strengths: Array
    certainties: Array
    watch: Array
    rows: Array
    payoffs: Array
    sums: Array
    places: Array
    heights: Array
    where: Array
    value: Array
    push: Array
    logits: Array
    spreads: Array
    estimates: Array
    chances: Array
    chance: Array


def rows_kept(features: int) -> int:
    """How many rewards of each action are kept, so that memory is bounded."""
    return int(np.clip(ROOM_FOR_ROWS // features, FEWEST_ROWS, MOST_ROWS))


def new_adaptive(
    seed: int | None, limits: Array, categories: Array, actions: int, params: tuple[float, ...]
) -> Adaptive:
    """Arrays for so many actions, of which none has a table yet."""
    features, rows = len(limits), rows_kept(len(limits))
    knots = np.zeros((features, MOST_LEVELS + STRETCH))
    knots[:, :3] = 0.0, 0.5, 1.0
    knots[categories > MOST_LEVELS, :MOST_LEVELS] = np.arange(MOST_LEVELS)
    knots[:, MOST_LEVELS:] = 0.5, np.sqrt(12.0)  # as of uniform numbers
    levels = np.where(categories > 0, np.minimum(categories, MOST_LEVELS), 3)
    return Adaptive(
        clock=new_clock(seed),
        params=np.array(params),
        limits=limits,
        categories=categories,
        seen=np.zeros((SEEN, features), dtype=np.float32),
        fresh_knots=knots,
        fresh_levels=levels,
        knots=np.repeat(knots[None], actions, axis=0),
        levels=np.repeat(levels[None], actions, axis=0),
        counts=np.zeros((actions, 5), dtype=np.int64),  # the first fit is due
        tables=np.zeros((actions, MOST_TABLES, 5), dtype=np.int64),
        precisions=np.ones((actions, MOST_TABLES)),
        weights=np.zeros((actions, MOST_COLUMNS)),
        covariance=np.zeros((actions, MOST_COLUMNS, MOST_COLUMNS)),
        dispersion=np.ones(actions),
        ranges=np.tile([0.0, 1.0], (actions, features, 1)),
        typical=np.zeros((actions, MOST_COLUMNS)),
        strengths=np.zeros((actions, features)),
        certainties=np.zeros((actions, features)),
        watch=np.zeros((actions, 2)),
        rows=np.zeros((actions, rows, features), dtype=np.float32),
        payoffs=np.zeros((actions, rows)),
        sums=np.zeros(2),
        places=np.zeros(features),
        heights=np.zeros(features),
        where=np.zeros(MOST_COLUMNS, dtype=np.int64),
        value=np.zeros(MOST_COLUMNS),
        push=np.zeros(MOST_COLUMNS),
        logits=np.zeros(actions),
        spreads=np.zeros(actions),
        estimates=np.zeros(actions),
        chances=np.zeros(actions),
        chance=np.ones(1),
    )
