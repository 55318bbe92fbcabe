"""State of AdaptiveReleaf: one summary of the contexts, and for each action a sample of rewards and a model of them.

The samples are what a learner knows. A model is a function of a sample alone (:mod:`releaf.core.adaptive.model`), so
it is neither saved nor merged: it is built again.
"""

from __future__ import annotations

import numpy as np

from releaf.arrays import Array
from releaf.core.adaptive.levels import MOST_LEVELS, STRETCH
from releaf.core.adaptive.trees import TREE_COUNT
from releaf.core.runtime.primitives import CLOCK_LENGTH
from releaf.core.runtime.spending import PricedState
from releaf.core.runtime.state import LearnerState, constant, learnt, scratch

# Fields of the clock, besides time and generator: requested rewards, and whether a refit or more capacity is due.
REQUESTED, DUE = 3, 4
# Fields of the parameters: optimism; lower bound on every action's probability, negative where each has its own; rule
# of reward requests, its number (price of a label, or ε), and the width of its confidence bounds; window of latest
# rewards that count (0: all, AUTO: until a drift); most that labels may cost in all; decisions in a row, whose labels
# are not worth their price, after which random checks stop (0: never).
OPTIMISM, FLOOR, RULE, LIMIT, WIDTH_OF_BOUNDS, WINDOW, MOST_LABELS, STOP_AFTER = range(8)
ALWAYS, BUDGET, COST, GUARANTEE = range(4)
AUTO = -1
# Experts, whose predictions are mixed: ridge regression on lines, on tables, and three averages over trees.
LINES, ADDITIVE, SHARP_TREES, SMOOTH_TREES, STEADY_TREES = range(5)
EXPERTS = 5
# Fields of a sample: stored rows; rewards learnt in all; the rate of rows, of which one in 2 ** RATE is kept; rewards
# at which the next fit starts; whether something is due; rewards to forget. Of the model's fit: rows, rewards learnt by
# then, fewest rows in a leaf. Of the fit under way: rows (NONE without one), the same, and the rewards at which it
# takes effect. At last the key of the latest reward.
ROWS, LEARNT, RATE, NEXT, DUE_NOW, FORGET_TO, FITTED, FITTED_FOR, LEAF = range(9)
STARTED, STARTED_FOR, STARTED_LEAF, EFFECT, LATEST_KEY = range(9, 14)
SAMPLE_COUNTS = 14
NONE = -1
# Fields of a table: first feature, second feature or NO_FEATURE, resolution, first column, number of columns.
FIRST, SECOND, RESOLUTION, START, WIDTH = range(5)
NO_FEATURE = -1
CONSTANT, UNLIKE, FIRST_COLUMN = range(3)  # columns of no table
# Counts of a model: tables, columns, columns of lines, trees.
TABLES, COLUMNS, LINE_COLUMNS, TREES = range(4)
# Numbers of a model: variance of a reward around its estimate, the mean around which weights are shrunk, and the sum of
# the errors of the tables' regression since the fit.
VARIANCE, OFFSET, MISSED = range(3)
# Fields of drift detection: accumulated excess of squared residuals, and the reward at which it was last 0; the same
# of the log-likelihood ratio of a trend in the residuals.
EXCESS, SINCE_REWARD, TREND, SINCE_TREND = range(4)
# Sums over all decisions, where rewards are requested: probabilities of error, and novelties.
ERROR_SUM, NOVELTY_SUM = 0, 1
# Fields of the labels: cost of all requests, in ordinary labels; mean expected gain of one more ordinary label over the
# latest decisions, and how many count; decisions in a row whose label was not worth its price.
LABEL_COST, GAIN, GAINS, UNWORTHY = range(4)
LABELS_LENGTH = 4

MOST_COLUMNS = 128
MOST_TABLES = 128
SEEN = 1024  # contexts from which the levels are set
MOST_EFFECTS = 4096  # categories of a feature with an effect each; beyond, several share one


class Sample(LearnerState):
    """Rewarded contexts of an action in order of arrival, and the schedule of its fits.

    ``numbers`` count the rewards from 0; a thinned sample lacks some. ``steps`` are the decisions of the rows, 0 where
    they are unknown: of merged learners, of logs, and of files of earlier versions. ``knots`` and ``levels`` are those
    of the model, ``next_knots`` and ``next_levels`` those of the fit under way.
    """

    grows = "rows"
    counts: Array = learnt(np.int64, SAMPLE_COUNTS)
    contexts: Array = learnt(np.float32, "rows", "features")
    rewards: Array = learnt(np.float64, "rows")
    keys: Array = learnt(np.int64, "rows", least=0)
    numbers: Array = learnt(np.int64, "rows", least=0)
    steps: Array = learnt(np.int64, "rows", least=0)
    offsets: Array = learnt(np.float64, 2)
    knots: Array = learnt(np.float64, "features", MOST_LEVELS + STRETCH)
    levels: Array = learnt(np.int64, "features", least=0)
    next_knots: Array = learnt(np.float64, "features", MOST_LEVELS + STRETCH)
    next_levels: Array = learnt(np.int64, "features", least=0)
    watch: Array = learnt(np.float64, 4)


class Model(LearnerState):
    """Two nested ridge regressions, an effect of each category of wide features, and trees.

    ``weights`` and ``covariance`` are of all columns, ``line_weights`` and ``line_covariance`` of the first ones: the
    constant, lines of numbers, and categories. ``effect_means`` and ``effect_variances`` are of the categories that
    have no column. ``trend`` and ``trend_covariance`` are of the change of the weights, if it is watched. ``nodes`` are
    those of all trees, and ``roots`` their first ones. ``strengths`` is the variance that each feature explains,
    ``certainties`` the certainty of that.
    """

    counts: Array = scratch(np.int64, 4)
    numbers: Array = scratch(np.float64, 3)
    knots: Array = scratch(np.float64, "features", MOST_LEVELS + STRETCH)
    levels: Array = scratch(np.int64, "features")
    ranges: Array = scratch(np.float64, "features", 2)
    tables: Array = scratch(np.int64, "tables", 5)
    precisions: Array = scratch(np.float64, "tables")
    weights: Array = scratch(np.float64, "columns")
    covariance: Array = scratch(np.float64, "columns", "columns")
    line_weights: Array = scratch(np.float64, "lines")
    line_covariance: Array = scratch(np.float64, "lines", "lines")
    typical: Array = scratch(np.float64, "columns")
    trend: Array = scratch(np.float64, "trends")
    trend_covariance: Array = scratch(np.float64, "trends", "trends")
    effect_means: Array = scratch(np.float64, "effects")
    effect_variances: Array = scratch(np.float64, "effects")
    ranks: Array = scratch(np.float32, "categories")
    nodes: Array = scratch(np.float32, "nodes", 4)
    roots: Array = scratch(np.int64, "roots")
    strengths: Array = scratch(np.float64, "features")
    certainties: Array = scratch(np.float64, "features")


class Adaptive(PricedState):
    """Contexts seen and their levels, losses of the experts, and addresses of each action's sample and model.

    ``label_costs`` are those of the next decisions, the last one of all after them; ``label_row`` is the next one's.
    """

    clock: Array = learnt(np.int64, CLOCK_LENGTH)
    params: Array = constant(np.float64, "parameters")
    floors: Array = constant(np.float64, "actions")
    limits: Array = constant(np.float64, "features")
    categories: Array = constant(np.int64, "features")
    first_category: Array = constant(np.int64, "features")
    first_effect: Array = constant(np.int64, "features")
    seen: Array = learnt(np.float32, SEEN, "features")
    seen_keys: Array = learnt(np.int64, SEEN, least=0)
    seen_steps: Array = learnt(np.int64, SEEN, least=0)
    seen_counts: Array = learnt(np.int64, 2, least=0)
    fresh_knots: Array = learnt(np.float64, "features", MOST_LEVELS + STRETCH)
    fresh_levels: Array = learnt(np.int64, "features", least=0)
    losses: Array = learnt(np.float64, "actions", EXPERTS, least=0)
    pooled_losses: Array = learnt(np.float64, EXPERTS, least=0)
    reward_sums: Array = learnt(np.float64, 2, least=0)
    sums: Array = learnt(np.float64, 2, least=0)
    labels: Array = learnt(np.float64, LABELS_LENGTH, least=0)
    label_costs: Array = scratch(np.float64, "labels")
    label_row: Array = scratch(np.int64, 1)
    samples: Array = scratch(np.int64, "actions")
    models: Array = scratch(np.int64, "actions")
    places: Array = scratch(np.float64, "features")
    heights: Array = scratch(np.float64, "features")
    ranked: Array = scratch(np.float32, "features")
    leaves: Array = scratch(np.int64, TREE_COUNT)
    where: Array = scratch(np.int64, "scratch")
    value: Array = scratch(np.float64, "scratch")
    push: Array = scratch(np.float64, "scratch")
    eligible: Array = scratch(np.uint8, "actions")
    predictions: Array = scratch(np.float64, "actions", EXPERTS)
    weights: Array = scratch(np.float64, EXPERTS)
    spreads: Array = scratch(np.float64, "actions")
    bonuses: Array = scratch(np.float64, "actions")
    doubts: Array = scratch(np.float64, "actions")
    estimates: Array = scratch(np.float64, "actions")
    chances: Array = scratch(np.float64, "actions")
    chance: Array = scratch(np.float64, 1)


open_model, open_model_at, open_sample_at = Model.open, Model.open_at, Sample.open_at  # for kernels
