"""Description of RELEAF's partitions and cells for a frozen policy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from releaf.core.releaf.engine import Engine
from releaf.core.releaf.merging import Rows, extract_statistics
from releaf.core.releaf.partition import leaves_of
from releaf.core.releaf.state import CONTROL, GAMMA, LOG_CONFIDENCE, PENDING, SQRT_GAMMA, TIME, TUPLE_SIZE


def freeze_partitions(engine: Engine) -> Callable[[], dict[str, Any]]:
    """Copy the state, and return a function that describes the rule."""
    settings, actions, arrays = engine.settings, engine.actions, engine.learnt_arrays()

    def describe() -> dict[str, Any]:
        twin = Engine(settings, actions, seed=0)
        twin.load(arrays)
        twin.decide(np.zeros(len(settings.categories)))  # counts the latest arrival, as the next decision does
        twin.state.clock[PENDING] = 0
        return _describe(twin)

    return describe


def _describe(engine: Engine) -> dict[str, Any]:
    """Describe the rule as it is in the engine's latest decision."""
    state, settings = engine.state, engine.settings
    log_time = math.log(state.clock[TIME].item())
    lipschitz = settings.lipschitz if settings.lipschitz > 0.0 else 1.0 + 0.5 * log_time
    control, confidence, root = (state.params[place].item() for place in (CONTROL, LOG_CONFIDENCE, SQRT_GAMMA))
    partitions = [_partition(engine, feature) for feature in range(len(settings.categories))]
    tuples = state.tuples.reshape(-1, int(state.shape[TUPLE_SIZE])).tolist()
    lengths = [len(partition["lengths"]) for partition in partitions]
    cells = _cells(extract_statistics(engine, None).rows, tuples, lengths)
    return {
        "kind": "releaf",
        "control": control * (log_time + confidence) / (lipschitz * lipschitz),
        "limit": 3.0 * lipschitz * root,
        "partitions": partitions,
        "candidates": state.targets.reshape(-1, int(state.shape[GAMMA])).tolist(),
        "tuples": [{"features": features, "cells": own} for features, own in zip(tuples, cells, strict=True)],
    }


def _partition(engine: Engine, feature: int) -> dict[str, Any]:
    """Intervals of a feature from low to high, or its categories; that of missing values is the last."""
    state = engine.state
    nodes = np.array(leaves_of(state, feature, engine.settings.base))
    numbers = nodes[:0] if engine.settings.categories[feature] else nodes[state.rank[nodes] >= 0]
    return {
        "borders": ((state.rank[numbers] + 1) / state.scale[state.level[numbers]]).tolist(),
        "lengths": state.size[nodes].tolist(),
        "weights": state.weight[nodes].tolist(),
    }


def _cells(rows: Rows, tuples: list[list[int]], lengths: list[int]) -> list[list[list[float]]]:
    """Cells with rewards of each tuple: the place, then the count and the sum of each action."""
    found: list[list[list[float]]] = [[] for _ in tuples]
    for number, places, counts, sums in zip(*(part.tolist() for part in rows), strict=True):
        place = 0
        for feature, own in zip(tuples[number], places, strict=True):
            place = place * lengths[feature] + own
        pairs = zip(counts, sums, strict=True)
        found[number].append([place, *(value for pair in pairs for value in pair)])
    return found
