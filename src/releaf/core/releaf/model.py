"""All that a learner knows, as flat arrays that a kernel can open from one list of addresses.

Handing forty arrays to a compiled function costs more than a decision does, so Python keeps them in a
:class:`Memory` and hands over its ``book`` of addresses. Inside a kernel ``view(book)`` opens them as a
:class:`Model`, whose fields are then plain pointers: nothing checks their bounds, and no index is negative.

A *node* is an interval of one feature's partition, a leaf as long as it has no child. Its id is never used
twice. A *cell* is one hypercube of leaves (the paper's q). What every decision reads of it stands together in
``cells``: the least count over all actions, which tells whether any is under-explored, and the means r̄(q, a). The
counts S(q, a) are read where an action is judged, the sums behind the means only with a reward.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from releaf.core.runtime.jit import inner
from releaf.core.runtime.pointers import POINTERS

Array = np.ndarray[Any, np.dtype[Any]]


class Model(NamedTuple):
    """The arrays of one learner. D features, A actions, P tuples of M features, V candidates of gamma features."""

    lengths: Array  # of all these arrays, in the order of the fields
    # what never changes
    shape: Array  # the integers named below
    params: Array  # the numbers named below
    edges: Array  # [grid + 1] borders of the look-up grid
    scale: Array  # [levels] base ** level
    split_at: Array  # [levels] arrivals at which an interval of that level splits
    tuples: Array  # [P, M] the features of each tuple w
    subsets: Array  # [P, subsets] the candidates v that each tuple contains
    members: Array  # [V, per] the tuples that contain each candidate
    targets: Array  # [V, gamma] the features of each candidate
    # the clock, and what has been tallied
    clock: Array  # the counters named below
    relevance: Array  # [A, D] exploitations in which a feature was in the relevant tuple
    added_at: Array  # [A] how many exploitations there were when the action was added
    # the partitions
    features: Array  # [D, 4] categories, first node, node of missing values, leaves
    grid: Array  # [D, grid] the node that holds each stretch of the look-up grid
    level: Array  # [nodes] level l(p)
    rank: Array  # [nodes] position among the intervals of its level
    child: Array  # [nodes] first child, -1 for a leaf
    slot: Array  # [nodes] position of a leaf in the dense cell tables
    arrivals: Array  # [nodes] arrivals N(p)
    born: Array  # [nodes] the step after which the node exists
    size: Array  # [nodes] length s(p)
    weight: Array  # [nodes] 1 / s(p)**2
    # the cells
    caps: Array  # [D] leaves of a feature that the dense tables have room for
    offsets: Array  # [P] the first row of each tuple's dense table
    strides: Array  # [P, M] how many rows the next slot of each of its features is away
    cells: Array  # [rows, 1 + A] least count, means
    counts: Array  # [rows, A] observations
    sums: Array  # [rows, A] sums of rewards
    table: Array  # open-addressing hash table of rows, where cells are hashed
    keys: Array  # [rows, M] the leaves of each hashed row
    # scratch
    leaf: Array  # [D] leaves of the latest context
    spot: Array  # [D] leaves of the context that a reward belongs to
    rows: Array  # [P] cells of the context at hand
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
_OWN = ("clock", "shape", "params")  # what changes in place together with a branch
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


class Memory:
    """Owns the arrays of a model. Assigning one (``memory["cells"] = …``) keeps the book of addresses true."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self.book = np.zeros(len(FIELDS), dtype=np.int64)
        self["lengths"] = np.zeros(len(FIELDS))

    def branch(self) -> Memory:
        """Another memory of the same arrays, the small ones copied, to be changed and then to take this one's place.

        Whatever interrupts the change, the memory in use stays whole.
        """
        other = Memory()
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
        self.book[FIELDS.index(field)] = array.ctypes.data
        self["lengths"][FIELDS.index(field)] = array.size


def _write_view() -> Any:
    """Build ``view(book)`` from FIELDS, so that the order of the arrays is written down once."""
    pointers = ", ".join(f"at_{dtype_of(field).__name__}(book[{n}])" for n, field in enumerate(FIELDS))
    scope: dict[str, Any] = {"Model": Model, **POINTERS}
    exec(f"def view(book):\n    return Model({pointers})", scope)
    return inner(scope["view"])


view = _write_view()
