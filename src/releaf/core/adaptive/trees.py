"""Extremely randomised trees on an action's rewards (Geurts, Ernst and Wehenkel, 2006), and their leaves online.

All trees of a forest share one array of nodes of four numbers. A node has its feature, its threshold, and the distance
of its left child from the root; the right child follows the left one. A leaf has LEAF, the number of its rewards,
their sum, and the estimate of the nodes above it, to which its mean is shrunk.
"""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from releaf.core.runtime.jit import entry_point, inlined, outlined
from releaf.core.runtime.random_generator import integer_below, unit

FEATURE, THRESHOLD, LEFT = range(3)
LEAF, COUNT, SUM, PRIOR = -1.0, 1, 2, 3
FEWEST_ROWS = 8  # from which trees are grown
TREE_COUNT = 20
LEAST_LEAF = 1  # rewards
SHARPNESS, SMOOTHNESS = 0.5, 5.0  # rewards that the estimate above a leaf counts as
SHRINKAGE = 2.0  # the same for a node that is no leaf
LEAST_DEVIATION = 1e-9  # of the rewards in a node, for it to be split


@inlined
def leaf_of(nodes, root, values):
    """Leaf of a context, whose categories are ranks."""
    node = root
    while nodes[node, FEATURE] >= 0.0:
        split = nodes[node]
        node = root + np.int64(split[LEFT])
        if values[np.int64(split[FEATURE])] > split[THRESHOLD]:
            node += 1
    return node


@inlined
def predict(nodes, roots, trees, values):
    """Mean over trees of the leaves' means, little and much shrunk to the estimate above each leaf."""
    sharp, smooth = 0.0, 0.0
    for tree in range(trees):
        leaf = nodes[leaf_of(nodes, roots[tree], values)]
        sharp += (leaf[SUM] + SHARPNESS * leaf[PRIOR]) / (leaf[COUNT] + SHARPNESS)
        smooth += (leaf[SUM] + SMOOTHNESS * leaf[PRIOR]) / (leaf[COUNT] + SMOOTHNESS)
    return sharp / trees, smooth / trees


@inlined
def predict_and_learn(nodes, roots, trees, values, reward):
    """Predict as above, then add the reward to each leaf."""
    sharp, smooth = 0.0, 0.0
    for tree in range(trees):
        leaf = nodes[leaf_of(nodes, roots[tree], values)]
        sharp += (leaf[SUM] + SHARPNESS * leaf[PRIOR]) / (leaf[COUNT] + SHARPNESS)
        smooth += (leaf[SUM] + SMOOTHNESS * leaf[PRIOR]) / (leaf[COUNT] + SMOOTHNESS)
        leaf[COUNT] += np.float32(1.0)
        leaf[SUM] += np.float32(reward)
    return sharp / trees, smooth / trees


def grow_trees_kernel(columns, rewards, weight, generator, candidates, least_leaf, order, nodes, roots):
    """Grow trees on the rows of ``columns`` (features by rows), each of so much weight; returns the nodes used."""
    values, payoffs = np.empty(len(rewards), dtype=np.float32), np.empty(len(rewards), dtype=np.float32)
    used = 0
    for tree in range(len(roots)):
        roots[tree] = used
        used = grow_tree(
            columns, rewards, weight, generator, candidates, least_leaf, order, values, payoffs, nodes, used
        )
    return used


@outlined
def grow_tree(columns, rewards, weight, generator, candidates, least_leaf, order, values, payoffs, nodes, root):
    """Grow one tree, depth first; returns the next free node."""
    features, used = len(columns), root + 1
    mean = 0.0
    for row in range(len(rewards)):
        mean += rewards[row] / len(rewards)
    pending, priors, waiting = np.empty((len(rewards) + 2, 3), dtype=np.int64), np.empty(len(rewards) + 2), 1
    set_pending(pending[0], root, 0, len(rewards))
    priors[0] = mean
    choice = np.empty(features, dtype=np.int64)
    for feature in range(features):
        choice[feature] = feature
    while waiting > 0:
        waiting -= 1
        node, first, last = pending[waiting, 0], pending[waiting, 1], pending[waiting, 2]
        prior, count, total, squares = priors[waiting], last - first, 0.0, 0.0
        for place in range(count):
            payoffs[place] = rewards[order[first + place]]
            total += payoffs[place]
            squares += payoffs[place] * payoffs[place]
        estimate = (total * weight + SHRINKAGE * prior) / (count * weight + SHRINKAGE)
        feature, threshold = np.int64(-1), np.float32(0.0)
        if count >= 2 * least_leaf and squares - total * total / count > LEAST_DEVIATION:
            feature, threshold = best_split(
                columns, order, first, count, payoffs, total, generator, candidates, least_leaf, choice, values
            )
        if feature < 0:
            nodes[node, FEATURE] = LEAF
            nodes[node, COUNT] = count * weight
            nodes[node, SUM] = total * weight
            nodes[node, PRIOR] = prior
            continue
        middle = partition(columns[feature], threshold, order, first, last)
        nodes[node, FEATURE] = feature
        nodes[node, THRESHOLD] = threshold
        nodes[node, LEFT] = used - root
        set_pending(pending[waiting], used + 1, middle, last)
        set_pending(pending[waiting + 1], used, first, middle)
        priors[waiting] = estimate
        priors[waiting + 1] = estimate
        waiting += 2
        used += 2
    return used


@inlined
def set_pending(line, node, first, last):
    line[0] = node
    line[1] = first
    line[2] = last


@outlined
def best_split(columns, order, first, count, payoffs, total, generator, candidates, least_leaf, choice, values):
    """Best of one random threshold for each of some random features; -1 where no feature splits the node."""
    best, feature_found, threshold_found = -1.0, np.int64(-1), np.float32(0.0)
    tried = 0
    for drawn in range(len(choice)):
        other = drawn + integer_below(generator, 0, len(choice) - drawn)
        feature = choice[other]
        choice[other] = choice[drawn]
        choice[drawn] = feature
        column = columns[feature]
        low, high = column[order[first]], column[order[first]]
        for place in range(count):
            value = column[order[first + place]]
            values[place] = value
            low = min(low, value)
            high = max(high, value)
        if low == high:
            continue
        tried += 1
        threshold = np.float32(low + unit(generator, 0) * (high - low))
        if threshold >= high:
            threshold = low
        below, below_total = 0, np.float32(0.0)
        for place in range(count):
            if values[place] <= threshold:
                below += 1
                below_total += payoffs[place]
        above = count - below
        if below >= least_leaf and above >= least_leaf:
            left, right = np.float64(below_total), total - below_total
            score = left * left / below + right * right / above
            if score > best:
                best, feature_found, threshold_found = score, feature, threshold
        if tried == candidates:
            break
    return feature_found, threshold_found


@inlined
def partition(column, threshold, order, first, last):
    """Put rows at most at the threshold first; returns the first row above."""
    left, right = first, last - 1
    while left <= right:
        if column[order[left]] <= threshold:
            left += 1
        else:
            row = order[left]
            order[left] = order[right]
            order[right] = row
            right -= 1
    return left


grow_trees = entry_point(grow_trees_kernel)
