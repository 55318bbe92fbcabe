"""State of a RELEAF learner as flat arrays.

Kernels open the arrays as plain pointers: they check no bounds and use no negative index.

A *node* is an interval of one feature's partition, and a leaf while it has no child. Node ids are never reused. A
*cell* is one hypercube of leaves (the paper's q). ``cells`` holds what every decision reads: the least count over all
actions, which tells whether any action is under-explored, and the means r̄(q, a). A decision reads the counts S(q, a)
only where it lists under-explored actions, and an update alone reads the sums.
"""

from __future__ import annotations

import numpy as np

from releaf.arrays import Array
from releaf.core.runtime.state import LearnerState, constant, learnt, scratch

# ReleafState.shape
FEATURES, ACTIONS, TUPLE_SIZE, TUPLES, CANDIDATES, PER, SUBSETS, GAMMA, BASE, GRID, TOP_LEVEL, OBSERVE, GREEDY = range(
    13
)
SHAPE_LENGTH = 13
# ReleafState.params
LIPSCHITZ, LOG_CONFIDENCE, CONTROL, SQRT_GAMMA = range(4)
PARAMS_LENGTH = 4
# ReleafState.clock
TIME, PENDING, NODES, ROWS, HASHED, RANDOM, UNDER_EXPLORED, OBSERVED, EXPLORED, EXPLOITED, ROWS_OF = range(11)
CLOCK_LENGTH = 11
# ReleafState.features, four to a feature
CATEGORIES, FIRST, MISSING, LEAVES = range(4)
# ReleafState.shape[OBSERVE]
OBSERVE_EXPLORED, OBSERVE_ALWAYS, OBSERVE_ALL_ACTIONS, OBSERVE_LABELS = range(4)
# ReleafState.relevant, where it is no candidate: none explained the rewards, or there was nothing to choose
NO_CANDIDATE, NOT_SOUGHT = -1, -2


class ReleafState(LearnerState):
    """Arrays of one learner. D features, A actions, P tuples of M features, V candidates of gamma features."""

    flat = True
    # constants
    shape: Array = constant(np.int64, SHAPE_LENGTH)  # integers; their indices are defined above
    params: Array = constant(np.float64, PARAMS_LENGTH)  # floats; their indices are defined above
    edges: Array = constant(np.float64, "grid + 1")  # borders of the look-up grid
    scale: Array = constant(np.float64, "levels")  # base ** level
    split_at: Array = constant(np.float64, "levels")  # arrivals at which an interval of that level splits
    tuples: Array = constant(np.int32, "P", "M")  # the features of each tuple w
    subsets: Array = constant(np.int32, "P", "subsets")  # the candidates v that each tuple contains
    members: Array = constant(np.int32, "V", "per")  # the tuples that contain each candidate
    targets: Array = constant(np.int32, "V", "gamma")  # the features of each candidate
    # counters
    clock: Array = learnt(np.int64, CLOCK_LENGTH)  # counters; their indices are defined above
    relevance: Array = learnt(np.int64, "A", "D")  # exploitations in which a feature was in the relevant tuple
    added_at: Array = learnt(np.int64, "A")  # exploitations before the action was added, or without choice of it
    # the partitions
    features: Array = learnt(np.int64, "D", 4)  # categories, first node, node of missing values, leaves
    grid: Array = learnt(np.int32, "D", "grid")  # node of each bin of the look-up grid
    level: Array = learnt(np.int64, "nodes")  # level l(p)
    rank: Array = learnt(np.int64, "nodes")  # position among the intervals of its level
    child: Array = learnt(np.int64, "nodes")  # first child, -1 for a leaf
    slot: Array = learnt(np.int64, "nodes")  # position of a leaf in the dense cell tables
    arrivals: Array = learnt(np.int64, "nodes")  # arrivals N(p)
    born: Array = learnt(np.int64, "nodes")  # the step after which the node exists
    size: Array = learnt(np.float64, "nodes")  # length s(p)
    weight: Array = learnt(np.float64, "nodes")  # 1 / s(p)**2
    # the cells
    caps: Array = learnt(np.int64, "D")  # capacity of the dense tables in leaves of each feature
    offsets: Array = constant(np.int64, "P")  # the first row of each tuple's dense table
    strides: Array = constant(np.int64, "P", "M")  # row stride of each of its features
    cells: Array = learnt(np.float64, "rows", "1 + A")  # least count, means
    counts: Array = learnt(np.int32, "rows", "A")  # observations
    sums: Array = learnt(np.float64, "rows", "A")  # sums of rewards
    table: Array = learnt(np.int64, "places")  # open-addressing hash table of rows, where cells are hashed
    keys: Array = learnt(np.int32, "rows", "M")  # the leaves of each hashed row
    # scratch
    leaf: Array = learnt(np.int64, "D")  # leaves of the latest context
    spot: Array = scratch(np.int64, "D")  # leaves of the context whose reward is learnt
    rows: Array = scratch(np.int64, "P")  # cells of the current context
    slots: Array = scratch(np.int64, "D")  # slots of the leaves
    need: Array = scratch(np.float64, "D")  # control numbers
    length: Array = scratch(np.float64, "D")  # lengths of the leaves
    low: Array = scratch(np.float64, "V")  # smallest mean over the tuples of a candidate
    high: Array = scratch(np.float64, "V")  # largest
    short: Array = scratch(np.int64, "A")  # whether the action is under-explored
    estimates: Array = scratch(np.float64, "A")  # estimated rewards
    relevant: Array = scratch(np.int64, "A")  # relevant tuple, NO_CANDIDATE, or NOT_SOUGHT
    eligible: Array = scratch(np.uint8, "A")  # whether the action may be chosen


open_state = ReleafState.open
CHILD, COUNTS, TABLE = (ReleafState.layout.index_of[name] for name in ("child", "counts", "table"))  # in lengths
