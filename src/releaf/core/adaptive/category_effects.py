"""Effects of features with many categories: a mean and a variance for each category, shrunk to 0."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from releaf.core.adaptive.levels import is_wide
from releaf.core.adaptive.state import MOST_EFFECTS
from releaf.core.runtime.jit import inlined, outlined

FIRST_EFFECT_VARIANCE = 0.05
LEAST_EFFECT_VARIANCE, MOST_EFFECT_VARIANCE = 1e-6, 0.25


@inlined
def effect_of(context, feature, categories, first_effect):
    """Place of a context's category among all effects; beyond ``MOST_EFFECTS`` categories, several share one."""
    return first_effect[feature] + np.int64(context[feature] * categories[feature]) % MOST_EFFECTS


@inlined
def total_effect(context, categories, first_effect, means, variances):
    """Sum of the effects of a context's categories, and its variance."""
    total, variance = 0.0, 0.0
    if len(means) > 0:
        for feature in range(len(context)):
            if is_wide(categories[feature]):
                place = effect_of(context, feature, categories, first_effect)
                total += means[place]
                variance += variances[place]
    return total, variance


@inlined
def update_effects(context, categories, first_effect, means, variances, step, scale):
    """Update the effects with a reward: ``step`` is its error times ``scale``, 1 / the variance of that error."""
    if len(means) > 0:
        for feature in range(len(context)):
            if is_wide(categories[feature]):
                place = effect_of(context, feature, categories, first_effect)
                before = variances[place]
                means[place] += before * step
                variances[place] -= before * before * scale


@outlined
def fit_effects(contexts, residuals, variance, categories, first_effect, means, variances):
    """Fit each feature's effects to the residuals, one feature after the other.

    Residuals are those without these effects; what the effects explain is subtracted. The prior variance of a
    feature's effects is estimated from them.
    """
    for place in range(len(means)):
        means[place] = 0.0
        variances[place] = FIRST_EFFECT_VARIANCE
    for feature in range(len(categories)):
        if not is_wide(categories[feature]):
            continue
        start, size = first_effect[feature], min(categories[feature], np.int64(MOST_EFFECTS))
        sums, counts = np.zeros(size), np.zeros(size)
        for row in range(len(residuals)):
            place = effect_of(contexts[row], feature, categories, first_effect) - start
            sums[place] += residuals[row]
            counts[place] += 1.0
        prior = effect_variance(sums, counts, variance)
        for place in range(size):
            variances[start + place] = 1.0 / (1.0 / prior + counts[place] / variance)
            means[start + place] = variances[start + place] * sums[place] / variance
        for row in range(len(residuals)):
            residuals[row] -= means[effect_of(contexts[row], feature, categories, first_effect)]


@inlined
def effect_variance(sums, counts, variance):
    """Prior variance of a feature's effects, by a few steps of expectation maximisation."""
    prior = FIRST_EFFECT_VARIANCE
    for _ in range(8):
        total, seen = FIRST_EFFECT_VARIANCE, 1.0
        for place in range(len(sums)):
            if counts[place] > 0.0:
                left = 1.0 / (1.0 / prior + counts[place] / variance)
                mean = left * sums[place] / variance
                total += mean * mean + left
                seen += 1.0
        prior = min(max(total / seen, LEAST_EFFECT_VARIANCE), MOST_EFFECT_VARIANCE)
    return prior
