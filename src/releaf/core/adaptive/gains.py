"""Gain of a candidate table: score statistics of its cells on the residuals of the current fit."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from releaf.core.adaptive.levels import MOST_LEVELS, MOST_TABLED, is_wide
from releaf.core.adaptive.table_columns import find_places
from releaf.core.runtime.jit import inlined, outlined

BINS = max(MOST_LEVELS, MOST_TABLED) + 1  # of a feature: its levels, and one for missing values
THIRDS = 4  # groups of levels at coarse resolution, and one for missing values
SOFTENING = 1.0  # rewards added to a cell, to damp cells with few


@outlined
def find_bins(rows, knots, levels, categories, bins):
    """Find the level nearest to each value; missing values come after all levels."""
    places, heights = np.empty(len(levels)), np.empty(len(levels))
    for row in range(len(rows)):
        find_places(rows[row], knots, levels, categories, places, heights)
        for feature in range(len(levels)):
            place = 0.0 if is_wide(categories[feature]) else places[feature]
            bins[row, feature] = levels[feature] if place < 0.0 else np.int64(place + 0.5)


@inlined
def gain_of(sums, sizes):
    """Gain of the cells, and the number of visited cells."""
    gain, cells = 0.0, 0.0
    for cell in range(len(sums)):
        if sizes[cell] > 0.0:
            gain += sums[cell] * sums[cell] / (sizes[cell] + SOFTENING)
            cells += 1.0
    return gain, cells


@outlined
def single_gain(bins, feature, residuals):
    """Gain of a table of one feature."""
    sums, sizes = np.zeros(BINS), np.zeros(BINS)
    for row in range(len(residuals)):
        sums[bins[row, feature]] += residuals[row]
        sizes[bins[row, feature]] += 1.0
    return gain_of(sums, sizes)


@outlined
def pair_gain(bins, first, second, residuals, levels):
    """Gain of a table of two features, with coarse and with all levels."""
    sums, sizes = np.zeros(BINS * BINS), np.zeros(BINS * BINS)
    for row in range(len(residuals)):
        cell = bins[row, first] * BINS + bins[row, second]
        sums[cell] += residuals[row]
        sizes[cell] += 1.0
    rough_sums, rough_sizes = np.zeros(THIRDS * THIRDS), np.zeros(THIRDS * THIRDS)
    for i in range(levels[first] + 1):
        for j in range(levels[second] + 1):
            rough = third(i, levels[first]) * THIRDS + third(j, levels[second])
            rough_sums[rough] += sums[i * BINS + j]
            rough_sizes[rough] += sizes[i * BINS + j]
    rough_gain, groups = gain_of(rough_sums, rough_sizes)
    gain, cells = gain_of(sums, sizes)
    return rough_gain, groups, gain, cells


@inlined
def third(level, levels):
    """Group of a level, one of three; missing values are a fourth group."""
    if level >= levels:
        return np.int64(3)
    if levels <= 3:
        return np.int64(level)
    share = level / (levels - 1.0)
    return np.int64(0 if share < 0.4 else (2 if share > 0.6 else 1))
