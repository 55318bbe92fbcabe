"""State of a RELEAF learner: flat arrays, and the pointer table from which kernels open them.

Passing forty arrays to a compiled function costs more than a decision does. So :class:`StateArrays` owns the arrays,
and Python passes its pointer table. Inside a kernel ``view(pointer_table)`` opens the arrays as a :class:`Model`, whose
fields are plain pointers: kernels check no bounds and use no negative index.

A *node* is an interval of one feature's partition, and a leaf while it has no child. Node ids are never reused. A
*cell* is one hypercube of leaves (the paper's q). ``cells`` holds what every decision reads: the least count over all
actions, which tells whether any action is under-explored, and the means r̄(q, a). A decision reads the counts S(q, a)
only where it lists under-explored actions, and an update alone reads the sums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from releaf.core.runtime.jit import inlined
from releaf.core.runtime.pointers import POINTERS

Array = np.ndarray[Any, np.dtype[Any]]


class Model(NamedTuple):
    """Arrays of one learner. D features, A actions, P tuples of M features, V candidates of gamma features."""

    lengths: Array  # of all these arrays, in the order of the fields
    # constants
    shape: Array  # integers; their indices are defined below
    params: Array  # floats; their indices are defined below
    edges: Array  # [grid + 1] borders of the look-up grid
    scale: Array  # [levels] base ** level
    split_at: Array  # [levels] arrivals at which an interval of that level splits
    tuples: Array  # [P, M] the features of each tuple w
    subsets: Array  # [P, subsets] the candidates v that each tuple contains
    members: Array  # [V, per] the tuples that contain each candidate
    targets: Array  # [V, gamma] the features of each candidate
    # counters
    clock: Array  # counters; their indices are defined below
    relevance: Array  # [A, D] exploitations in which a feature was in the relevant tuple
    added_at: Array  # [A] number of exploitations before the action was added
    # the partitions
    features: Array  # [D, 4] categories, first node, node of missing values, leaves
    grid: Array  # [D, grid] node of each bin of the look-up grid
    level: Array  # [nodes] level l(p)
    rank: Array  # [nodes] position among the intervals of its level
    child: Array  # [nodes] first child, -1 for a leaf
    slot: Array  # [nodes] position of a leaf in the dense cell tables
    arrivals: Array  # [nodes] arrivals N(p)
    born: Array  # [nodes] the step after which the node exists
    size: Array  # [nodes] length s(p)
    weight: Array  # [nodes] 1 / s(p)**2
    # the cells
    caps: Array  # [D] capacity of the dense tables in leaves of each feature
    offsets: Array  # [P] the first row of each tuple's dense table
    strides: Array  # [P, M] row stride of each of its features
    cells: Array  # [rows, 1 + A] least count, means
    counts: Array  # [rows, A] observations
    sums: Array  # [rows, A] sums of rewards
    table: Array  # open-addressing hash table of rows, where cells are hashed
    keys: Array  # [rows, M] the leaves of each hashed row
    # scratch
    leaf: Array  # [D] leaves of the latest context
    spot: Array  # [D] leaves of the context whose reward is learnt
    rows: Array  # [P] cells of the current context
    slots: Array  # [D] slots of the leaves
    need: Array  # [D] control numbers
    length: Array  # [D] lengths of the leaves
    low: Array  # [V, width] smallest mean over the tuples of a candidate
    high: Array  # [V, width] largest
    short: Array  # [A] whether the action is under-explored
    chosen: Array  # [width] position of the best candidate
    estimates: Array  # [A] estimated rewards
    relevant: Array  # [A] relevant tuple, -1 where there was no candidate


FIELDS = Model._fields
CHILD, COUNTS, TABLE = (FIELDS.index(field) for field in ("child", "counts", "table"))  # in Model.lengths
_INT32 = {"tuples", "subsets", "members", "targets", "grid", "counts", "keys"}
_FLOAT64 = {
    *("params", "edges", "scale", "split_at", "size", "weight", "cells", "sums"),
    *("need", "length", "low", "high", "chosen", "estimates"),
}
_OWN = ("clock", "shape", "params")  # changed in place, so a branch copies them
SCRATCH = FIELDS[FIELDS.index("leaf") + 1 :]

# Model.shape
FEATURES, ACTIONS, TUPLE_SIZE, TUPLES, CANDIDATES, PER, SUBSETS, GAMMA, BASE, GRID, TOP_LEVEL, OBSERVE, GREEDY = range(
    13
)
# Model.params
LIPSCHITZ, LOG_CONFIDENCE, CONTROL, SQRT_GAMMA = range(4)
PARAMS_LENGTH = 4
# Model.clock
TIME, PENDING, NODES, ROWS, HASHED, RANDOM, UNDER_EXPLORED, OBSERVED, EXPLORED, EXPLOITED, ROWS_OF = range(11)
CLOCK_LENGTH = 11
# Model.features, four to a feature
CATEGORIES, FIRST, MISSING, LEAVES = range(4)
# Model.shape[OBSERVE]
OBSERVE_EXPLORED, OBSERVE_ALWAYS, OBSERVE_ALL_ACTIONS, OBSERVE_LABELS = range(4)


def dtype_of(field: str) -> type[np.generic]:
    return np.int32 if field in _INT32 else np.float64 if field in _FLOAT64 else np.int64


class StateArrays:
    """Owner of a learner's arrays. Assigning one (``arrays["cells"] = …``) updates the pointer table."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self.pointer_table = np.zeros(len(FIELDS), dtype=np.int64)
        self["lengths"] = np.zeros(len(FIELDS))

    def branch(self) -> StateArrays:
        """Another owner of the same arrays, with small ones copied, to be changed and then to replace this one.

        If the change is interrupted, the arrays in use stay consistent.
        """
        other = StateArrays()
        for field, array in self._arrays.items():
            if field != "lengths":
                other[field] = array.copy() if field in _OWN else array
        return other

    def __getitem__(self, field: str) -> Array:
        return self._arrays[field]

    def __setitem__(self, field: str, values: Any) -> None:
        array = np.ascontiguousarray(values, dtype=dtype_of(field)).reshape(-1)
        if not array.flags.writeable:
            array = array.copy()
        self._arrays[field] = array
        self.pointer_table[FIELDS.index(field)] = array.ctypes.data
        self["lengths"][FIELDS.index(field)] = array.size


def _write_view() -> Any:
    """Generate ``view(pointer_table)`` from FIELDS, the single definition of the arrays' order."""
    pointers = ", ".join(f"at_{dtype_of(field).__name__}(pointer_table[{n}])" for n, field in enumerate(FIELDS))
    scope: dict[str, Any] = {"Model": Model, **POINTERS}
    exec(f"def view(pointer_table):\n    return Model({pointers})", scope)
    return inlined(scope["view"])


view = _write_view()
