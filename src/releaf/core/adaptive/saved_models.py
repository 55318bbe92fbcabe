"""Models in a file: a cache of what loading would fit anew.

A model follows from its sample, so a file without models is complete. Models of many rewards take long to fit, so
``save`` adds them, with a digest of what they follow from. Where the digest is another one, or where a kernel would
access an array of a model out of bounds, the cache is ignored and the model is fitted anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import numpy as np

from releaf._version import __version__
from releaf.arrays import Array
from releaf.core.adaptive.initial_state import Settings
from releaf.core.adaptive.levels import FINE, SLOPE
from releaf.core.adaptive.state import (
    AUTO,
    COLUMNS,
    FIRST,
    FIRST_COLUMN,
    FITTED,
    MOST_COLUMNS,
    NO_FEATURE,
    OFFSET,
    RESOLUTION,
    ROWS,
    SECOND,
    START,
    VARIANCE,
    WIDTH,
    WINDOW,
    Model,
    Sample,
)
from releaf.core.adaptive.table_columns import width_of
from releaf.core.adaptive.trees import COUNT, FEATURE, LEFT, TREE_COUNT

FEWEST_ROWS = 1024  # of a model that is saved: others are fitted in no time
FOUND_LATER = ("typical", "strengths", "certainties")  # with the relevance, when it is first asked for
OF_SAMPLE = ("knots", "levels")


def saved_models(settings: Settings, samples: Sequence[Sample], models: Sequence[Model]) -> dict[str, Array]:
    """Copy the arrays of all models that take long to fit."""
    arrays: dict[str, Array] = {}
    for action, (sample, model) in enumerate(zip(samples, models, strict=True)):
        if sample.counts[FITTED] >= FEWEST_ROWS:
            own = {name: array.copy() for name, array in model.items() if name not in FOUND_LATER + OF_SAMPLE}
            own["digest"] = _digest(settings, sample)
            arrays |= {f"model_{action}_{name}": array for name, array in own.items()}
    return arrays


def load_models(settings: Settings, samples: Sequence[Sample], arrays: Mapping[str, Array]) -> dict[int, Model]:
    """Load the models, by action, that ``saved_models`` returned, as far as they are those of the samples."""
    models = {}
    for action, sample in enumerate(samples):
        prefix = f"model_{action}_"
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        if own and np.array_equal(own.pop("digest", ()), _digest(settings, sample)):
            model = _model_from(settings, sample, own)
            if model is not None:
                models[action] = model
    return models


def _digest(settings: Settings, sample: Sample) -> Array:
    """Digest of what a model follows from: this version, the settings, and the sample."""
    digest = blake2b(f"{__version__} {Model.layout.hash} {settings.params}".encode(), digest_size=16)
    rows = int(sample.counts[ROWS])
    parts = (sample.contexts[:rows], sample.rewards[:rows], sample.keys[:rows], sample.numbers[:rows])
    for array in (settings.limits, settings.categories, sample.counts, sample.offsets, *parts):
        digest.update(np.ascontiguousarray(array).data)
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def _model_from(settings: Settings, sample: Sample, own: Mapping[str, Array]) -> Model | None:
    """The model of some arrays; None where they are not sound."""
    expected = {name for name in Model.layout.fields if name not in FOUND_LATER + OF_SAMPLE}
    if set(own) != expected or any(own[name].dtype != Model.layout.fields[name].dtype for name in expected):
        return None
    features = settings.features
    try:
        model = Model(
            **own,
            knots=sample.knots.copy(),
            levels=sample.levels.copy(),
            typical=np.zeros(len(own["weights"])),
            strengths=np.full(features, np.nan),
            certainties=np.zeros(features),
        )
    except ValueError:
        return None
    return model if _is_sound(settings, model) else None


def _is_sound(settings: Settings, model: Model) -> bool:
    """Whether kernels stay within the arrays of a model, and divide by no zero."""
    own = dict(model.items())
    if not all(np.isfinite(array).all() for name, array in own.items() if name not in FOUND_LATER):
        return False
    tables, columns, lines, trees = model.counts.tolist()
    trends = columns if settings.params[WINDOW] == AUTO else 0
    lengths = {
        "counts": 4,
        "numbers": 3,
        "ranges": settings.features,
        "tables": tables,
        "precisions": tables,
        "weights": columns,
        "covariance": columns,
        "line_weights": lines,
        "line_covariance": lines,
        "trend": trends,
        "trend_covariance": trends,
        "effect_means": int(settings.effects.sum()),
        "effect_variances": int(settings.effects.sum()),
        "ranks": int(settings.categories.sum()),
        "roots": trees,
    }
    fits = all(len(own[name]) == length for name, length in lengths.items())
    fits = fits and FIRST_COLUMN <= lines <= columns <= MOST_COLUMNS and trees in (0, TREE_COUNT)
    fits = fits and model.numbers[VARIANCE] > 0 and 0 <= model.numbers[OFFSET] <= 1
    fits = fits and bool((model.effect_variances >= 0).all())
    return fits and _are_tables(settings, model) and _are_trees(settings, model)


def _are_tables(settings: Settings, model: Model) -> bool:
    """Whether each table has the columns that kernels expect, one table after the other."""
    features, levels, reached = settings.features, model.levels, FIRST_COLUMN
    wide = settings.effects > 0
    for line in model.tables:
        first, second, resolution = (int(line[field]) for field in (FIRST, SECOND, RESOLUTION))
        fits = 0 <= first < features and NO_FEATURE <= second < features and SLOPE <= resolution <= FINE
        if not fits or wide[first] or (second != NO_FEATURE and wide[second]) or line[START] != reached:
            return False
        if line[WIDTH] != width_of(first, second, resolution, levels, settings.categories, settings.limits):
            return False
        reached += int(line[WIDTH])
    return bool(reached == model.counts[COLUMNS])


def _are_trees(settings: Settings, model: Model) -> bool:
    """Whether the path from each root goes on to later nodes of the same tree, and ends in a leaf."""
    nodes, roots = model.nodes, model.roots
    if not len(roots):
        return len(nodes) == 0
    ends = np.append(roots[1:], len(nodes))
    if roots[0] != 0 or not (roots < ends).all():
        return False
    inner = np.flatnonzero(nodes[:, FEATURE] >= 0)
    tree = np.searchsorted(roots, inner, side="right") - 1
    children = roots[tree] + nodes[inner, LEFT].astype(np.int64)
    leaves = nodes[nodes[:, FEATURE] < 0]
    return bool(
        (nodes[inner, FEATURE] < settings.features).all()
        and ((children > inner) & (children + 1 < ends[tree])).all()
        and (leaves[:, COUNT] >= 0).all()
    )
