"""Description of AdaptiveReleaf's models for a frozen policy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.decision_step import MOST_OPTIMISM, OPTIMISM_LEVELS, eagerness_at
from releaf.core.adaptive.engine import MixtureEngine
from releaf.core.adaptive.initial_state import Settings
from releaf.core.adaptive.levels import CENTRE, COARSE, HIGHEST, ROUGH, SCALE, SLOPE
from releaf.core.adaptive.mixture import needs_trees, sharpness_of, weigh
from releaf.core.adaptive.state import (
    ALWAYS,
    COLUMNS,
    EXPERTS,
    FIRST,
    FLOOR,
    LINE_COLUMNS,
    NO_FEATURE,
    OFFSET,
    OPTIMISM,
    RESOLUTION,
    RULE,
    SECOND,
    START,
    TABLES,
    VARIANCE,
    Adaptive,
    Model,
)
from releaf.core.adaptive.table_columns import MOST_OUTSIDE
from releaf.core.adaptive.trees import FEATURE, LEAF, SHARPNESS, SMOOTHNESS
from releaf.core.runtime.primitives import TIME


def freeze_mixture(engine: MixtureEngine) -> Callable[[], dict[str, Any]]:
    """Copy the models, and return a function that describes the rule."""
    state, settings = engine.state, engine.settings
    optimism, always = state.params[OPTIMISM].item(), state.params[RULE] == ALWAYS
    floor = state.floors.tolist() if state.params[FLOOR] < 0.0 else state.params[FLOOR].item()
    models = [model.copy() for model in engine.models]
    experts = [_expert_weights(state, action) for action in range(len(models))]
    next_decision = state.clock[TIME].item() + 1
    explores = bool(always and optimism > 0.0)

    def describe() -> dict[str, Any]:
        levels = [MOST_OPTIMISM * optimism * (level + 0.5) / OPTIMISM_LEVELS for level in range(OPTIMISM_LEVELS)]
        described = []
        for model, weights in zip(models, experts, strict=True):
            usual = model.numbers[VARIANCE].item() * (int(model.counts[COLUMNS]) + len(model.effect_means))
            usual = usual * len(models) / (1.0 + next_decision)
            one = {"experts": weights, "usual_variance": usual, **_regressions(model, settings)}
            covariance = _lower_triangle(model.covariance) if explores else []
            trees = _trees(model) if _in_python(needs_trees)(weights) else []
            described.append({**one, "covariance": covariance, **_categories(model, settings), "trees": trees})
        return {
            "kind": "adaptive",
            "optimism": levels if always else None,
            "least_probability": floor,
            "eagerness": _in_python(eagerness_at)(next_decision),
            "shrinkage": [SHARPNESS, SMOOTHNESS],
            "highest": HIGHEST,
            "most_outside": MOST_OUTSIDE,
            "models": described,
        }

    return describe


def _expert_weights(state: Adaptive, action: int) -> list[float]:
    """Weights of the experts, as a decision computes them, bit for bit."""
    weights = [0.0] * EXPERTS
    sharpness = _in_python(sharpness_of)(state.reward_sums.tolist())
    _in_python(weigh)(state.losses[action].tolist(), state.pooled_losses.tolist(), sharpness, weights)
    return weights


def _in_python(kernel: Any) -> Any:
    """A kernel as plain Python, which is a function already where nothing is compiled."""
    return getattr(kernel, "py_func", kernel)


def _regressions(model: Model, settings: Settings) -> dict[str, Any]:
    """Levels of the features, tables and weights of both regressions."""
    numbers = (settings.categories == 0).tolist()
    levels = model.levels.tolist()
    return {
        "offset": model.numbers[OFFSET].item(),
        "ranges": model.ranges.tolist(),
        "knots": [model.knots[place, : levels[place]].tolist() if one else None for place, one in enumerate(numbers)],
        "scales": [model.knots[place, [CENTRE, SCALE]].tolist() if one else None for place, one in enumerate(numbers)],
        "tables": [_table(line, settings, levels) for line in model.tables[: int(model.counts[TABLES])].tolist()],
        "weights": model.weights[: int(model.counts[COLUMNS])].tolist(),
        "line_weights": model.line_weights[: int(model.counts[LINE_COLUMNS])].tolist(),
    }


def _table(line: list[int], settings: Settings, levels: list[int]) -> list[int]:
    """First column, feature and its levels, second feature or -1 and its levels, and columns of the second."""

    def resolve(feature: int) -> int:
        """Levels of a feature in this table; 0 for a line."""
        if feature == NO_FEATURE or (settings.categories[feature] == 0 and line[RESOLUTION] == SLOPE):
            return 0
        coarse = settings.categories[feature] == 0 and line[RESOLUTION] == ROUGH
        return min(levels[feature], COARSE) if coarse else levels[feature]

    first, second = line[FIRST], line[SECOND]
    own, other = resolve(first), resolve(second)
    width = 1
    if second != NO_FEATURE and other:
        width = other + int(settings.limits[second] < 0.0)
    return [line[START], first, own, second, other, width]


def _categories(model: Model, settings: Settings) -> dict[str, Any]:
    """Effects of the categories without a column, and the ranks of all as trees see them; null for numbers."""
    effects: list[Any] = []
    for first, count in zip(settings.first_effect.tolist(), settings.effects.tolist(), strict=True):
        here = slice(first, first + count)
        means, variances = model.effect_means[here].tolist(), model.effect_variances[here].tolist()
        effects.append({"means": means, "variances": variances} if count else None)
    counts = zip(settings.first_category.tolist(), settings.categories.tolist(), strict=True)
    ranks = [_short(model.ranks[first : first + count]) if count else None for first, count in counts]
    return {"effects": effects, "ranks": ranks}


def _lower_triangle(matrix: Array) -> list[list[float]]:
    return [row[: place + 1] for place, row in enumerate(matrix.tolist())]


def _trees(model: Model) -> list[list[list[float]]]:
    """Nodes of each tree: feature, threshold and left child; or the count, sum, prior and steady estimate of a leaf."""
    nodes = model.nodes.copy()
    leaves = nodes[:, FEATURE] < 0.0
    nodes[leaves, FEATURE] = LEAF - nodes[leaves, FEATURE]
    found = _short(nodes)
    for place in np.flatnonzero(leaves).tolist():
        steady, *rest = found[place]
        found[place] = [*rest, steady]
    for place in np.flatnonzero(~leaves).tolist():
        feature, threshold, left, _ = found[place]
        found[place] = [int(feature), threshold, int(left)]
    return [found[first:last] for first, last in pairwise([*model.roots.tolist(), len(found)])]


def _short(values: Array) -> Any:
    """Numbers in float32 as the shortest ones that float32 rounds to the same."""
    shortest = values.astype(str).astype(np.float64)
    exact = np.where(shortest.astype(np.float32) == values, shortest, values.astype(np.float64))
    return exact.tolist()
