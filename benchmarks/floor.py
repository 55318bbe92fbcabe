"""The least that a step can cost: find the leaves, read every cell that RELEAF reads, write what it must write.

The kernels work on a learner's own arrays and do nothing else: no control numbers, no spread of the means, no choice.
They hold for dense pairs of features (``gamma_rel=1``) and up to eight actions. Sums are returned or stored, so that
no read can be left out.

- *plain*: loops that add up what is read, as one would write them down;
- *lanes*: the same reads with one vector instruction for all actions, which the learner itself uses. How fast a machine
  can touch these cells at all; adding up in a given order is slower.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba

from releaf.core.releaf.model import ACTIONS, FEATURES, view
from releaf.core.releaf.partition import locate
from releaf.core.releaf.vector_lanes import load, lowest, splat, store

Kernel = Callable[..., Any]
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}
_FAR = 1e300


@numba.njit(**_OPTIONS, forceinline=True)
def _find(m, context):
    """Locate the context and leave the slot of each feature's leaf in ``slots``."""
    locate(m, context, m.leaf)
    for i in range(m.shape[FEATURES]):
        m.slots[i] = m.slot[m.leaf[i]]


@numba.njit(**_OPTIONS, forceinline=True)
def _write(m, row, action, reward, actions):
    """Write what a reward changes in one cell: count, sum, mean and least count."""
    m.counts[row * actions + action] += 1
    m.sums[row * actions + action] += reward
    m.cells[row * (1 + actions) + 1 + action] = reward
    m.cells[row * (1 + actions)] += 1.0


def _plain(*, writes: bool) -> Kernel:
    def add_up(pointer_table, contexts, chosen, rewards, width):
        m = view(pointer_table)
        actions, features = m.shape[ACTIONS], m.shape[FEATURES]
        total = 0.0
        for t in range(len(contexts)):
            _find(m, contexts[t])
            pair = 0
            for i in range(features):
                for j in range(i + 1, features):
                    row = m.offsets[pair] + m.slots[i] * m.strides[2 * pair] + m.slots[j]
                    pair += 1
                    for k in range(1 + actions):
                        total += m.cells[row * (1 + actions) + k]
                    if writes:
                        _write(m, row, chosen[t], rewards[t], actions)
        return total

    return numba.njit(**_OPTIONS)(add_up)


def _in_lanes(*, writes: bool) -> Kernel:
    def take_lowest(pointer_table, contexts, chosen, rewards, width):
        m = view(pointer_table)
        actions, features = len(width), m.shape[FEATURES]
        for t in range(len(contexts)):
            _find(m, contexts[t])
            pair, least, mean = 0, _FAR, splat(_FAR, width)
            for i in range(features - 1):
                start = m.slots[i] * m.strides[2 * pair]
                for j in range(i + 1, features):
                    row = m.offsets[pair] + start + m.slots[j]
                    pair += 1
                    least = min(least, m.cells[row * (1 + actions)])
                    mean = lowest(load(m.cells, row * (1 + actions) + 1, width), mean)
                    if writes:
                        _write(m, row, chosen[t], rewards[t], actions)
            m.need[0] = least
            store(m.low, 0, mean)

    return numba.njit(**_OPTIONS)(take_lowest)


@cache
def floors(*, writes: bool) -> dict[str, Kernel]:
    """Kernels by formulation; each takes (pointer_table, contexts, chosen actions, their rewards, width)."""
    return {"plain": _plain(writes=writes), "lanes": _in_lanes(writes=writes)}
