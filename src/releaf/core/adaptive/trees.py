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
COUNT, SUM, PRIOR = 1, 2, 3
LEAF = -1.0  # less the steady estimate, in place of a leaf's feature
FEWEST_ROWS = 8  # from which trees are grown
TREE_COUNT = 20  # a multiple of four: so many are walked at once
LEAST_LEAF = 1  # rewards
SHARPNESS, SMOOTHNESS = 0.1, 5.0  # rewards that the estimate above a leaf counts as
SHRINKAGE = 2.0  # the same for a node that is no leaf
CHANCE = 4.0  # squared standardized difference of a split's children by chance
GRAINS = 4096  # rewards are multiples of 1 / GRAINS where trees are grown: integers add up faster
GRAIN = 1.0 / GRAINS
DRAWS = 3  # of two rows between whose values a threshold lies


@inlined
def child_of(nodes, root, node, values):
    """Child of a node on the path of a context, whose categories are ranks."""
    child = root + np.int64(nodes[node, LEFT])
    return child + (values[np.int64(nodes[node, FEATURE])] > nodes[node, THRESHOLD])


@inlined
def find_leaves(nodes, roots, first, values, leaves):
    """Find the leaves of four trees at once, so that the processor waits for memory once instead of four times."""
    node, other, third, fourth = roots[first], roots[first + 1], roots[first + 2], roots[first + 3]
    going = True
    while going:
        going = False
        if nodes[node, FEATURE] >= 0.0:
            node = child_of(nodes, roots[first], node, values)
            going = True
        if nodes[other, FEATURE] >= 0.0:
            other = child_of(nodes, roots[first + 1], other, values)
            going = True
        if nodes[third, FEATURE] >= 0.0:
            third = child_of(nodes, roots[first + 2], third, values)
            going = True
        if nodes[fourth, FEATURE] >= 0.0:
            fourth = child_of(nodes, roots[first + 3], fourth, values)
            going = True
    leaves[first] = node
    leaves[first + 1] = other
    leaves[first + 2] = third
    leaves[first + 3] = fourth


@inlined
def predict(nodes, roots, trees, values, leaves):
    """Mean over trees of the leaves' means, little and much shrunk to the estimate above each leaf."""
    sharp, smooth, steady = 0.0, 0.0, 0.0
    for first in range(0, trees, 4):
        find_leaves(nodes, roots, first, values, leaves)
    for tree in range(trees):
        leaf = nodes[leaves[tree]]
        sharp += (leaf[SUM] + SHARPNESS * leaf[PRIOR]) / (leaf[COUNT] + SHARPNESS)
        smooth += (leaf[SUM] + SMOOTHNESS * leaf[PRIOR]) / (leaf[COUNT] + SMOOTHNESS)
        steady += LEAF - leaf[FEATURE]
    return sharp / trees, smooth / trees, steady / trees


@inlined
def learn_in_leaves(nodes, trees, leaves, reward):
    """Add a reward to the leaves that ``predict`` found."""
    for tree in range(trees):
        nodes[leaves[tree], COUNT] += np.float32(1.0)
        nodes[leaves[tree], SUM] += np.float32(reward)


def grow_trees_kernel(columns, rewards, generator, candidates, least_leaf, order, nodes, roots):
    """Grow trees on the rows of ``columns`` (features by rows); returns the nodes used."""
    payoffs, used = np.empty(len(rewards), dtype=np.int64), 0
    for tree in range(len(roots)):
        roots[tree] = used
        used = grow_tree(columns, rewards, generator, candidates, least_leaf, order, payoffs, nodes, used)
    return used


@outlined
def grow_tree(columns, rewards, generator, candidates, least_leaf, order, payoffs, nodes, root):
    """Grow one tree, depth first; returns the next free node."""
    features, used = len(columns), root + 1
    mean = 0.0
    for row in range(len(rewards)):
        mean += rewards[row] * GRAIN / len(rewards)
    pending, priors, waiting = np.empty((len(rewards) + 2, 3), dtype=np.int64), np.empty((len(rewards) + 2, 3)), 1
    set_pending(pending[0], root, 0, len(rewards))
    set_priors(priors[0], mean, mean, 0.0)
    choice = np.empty(features, dtype=np.int64)
    for feature in range(features):
        choice[feature] = feature
    while waiting > 0:
        waiting -= 1
        node, first, last = pending[waiting, 0], pending[waiting, 1], pending[waiting, 2]
        prior, count, grains, squares, lowest, highest = priors[waiting, 0], last - first, 0, 0, GRAINS, 0
        for place in range(count):
            payoffs[place] = rewards[order[first + place]]
            grains += payoffs[place]
            squares += payoffs[place] * payoffs[place]
            lowest = min(lowest, payoffs[place])
            highest = max(highest, payoffs[place])
        total = grains * GRAIN
        estimate = (total + SHRINKAGE * prior) / (count + SHRINKAGE)
        steady = priors[waiting, 1] + priors[waiting, 2] * total / count
        feature, threshold, gain = np.int64(-1), np.float32(0.0), 0.0
        if count >= 2 * least_leaf and lowest < highest:
            feature, threshold, gain = best_split(
                columns, order, first, count, payoffs, grains, generator, candidates, least_leaf, choice
            )
        if feature < 0:
            nodes[node, FEATURE] = LEAF - min(max(steady, 0.0), 1.0)
            nodes[node, COUNT] = count
            nodes[node, SUM] = total
            nodes[node, PRIOR] = prior
            continue
        middle = partition(columns[feature], threshold, order, first, last)
        nodes[node, FEATURE] = feature
        nodes[node, THRESHOLD] = threshold
        nodes[node, LEFT] = used - root
        set_pending(pending[waiting], used + 1, middle, last)
        set_pending(pending[waiting + 1], used, first, middle)
        variance = 1.0 * squares / count - (1.0 * grains / count) ** 2
        share = max(0.0, 1.0 - CHANCE * variance / max(gain, 1.0))
        set_priors(priors[waiting], estimate, steady - share * total / count, share)
        set_priors(priors[waiting + 1], estimate, steady - share * total / count, share)
        waiting += 2
        used += 2
    return used


@inlined
def set_pending(line, node, first, last):
    line[0] = node
    line[1] = first
    line[2] = last


@inlined
def set_priors(line, estimate, base, share):
    line[0] = estimate
    line[1] = base
    line[2] = share


@outlined
def best_split(columns, order, first, count, payoffs, total, generator, candidates, least_leaf, choice):
    """Best of one random threshold for each of some random features; -1 where no feature splits the node."""
    best, feature_found, threshold_found = -1.0, np.int64(-1), np.float32(0.0)
    tried = 0
    for drawn in range(len(choice)):
        other = drawn + integer_below(generator, 0, len(choice) - drawn)
        feature = choice[other]
        choice[other] = choice[drawn]
        choice[drawn] = feature
        column = columns[feature]
        low, high = draw_bounds(column, order, first, count, generator)
        if low == high:
            continue
        tried += 1
        threshold = np.float32(low + unit(generator, 0) * (high - low))
        if threshold >= high:
            threshold = low
        below, left = 0, 0
        for place in range(count):  # without a branch, which would be mispredicted half of the time
            is_below = np.int64(column[order[first + place]] <= threshold)
            below += is_below
            left += is_below * payoffs[place]
        above, right = count - below, total - left
        if below >= least_leaf and above >= least_leaf:
            score = 1.0 * left * left / below + 1.0 * right * right / above
            if score > best:
                best, feature_found, threshold_found = score, feature, threshold
        if tried == candidates:
            break
    return feature_found, threshold_found, best - 1.0 * total * total / count


@inlined
def draw_bounds(column, order, first, count, generator):
    """Lower and higher value of two random rows; after some draws of equal values, those of all rows."""
    for _ in range(DRAWS):
        one = column[order[first + integer_below(generator, 0, count)]]
        other = column[order[first + integer_below(generator, 0, count)]]
        if one != other:
            return min(one, other), max(one, other)
    low, high = column[order[first]], column[order[first]]
    for place in range(1, count):
        low = min(low, column[order[first + place]])
        high = max(high, column[order[first + place]])
    return low, high


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
