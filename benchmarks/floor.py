"""The least that a step can cost: find the leaves, read every cell that RELEAF reads, write what it must write.

The kernels work on a learner's own arrays and do nothing else: no control numbers, no spread of the means, no choice.
They hold for dense pairs of features (``gamma_rel=1``) and plain loops that add up what is read. Sums are
returned, so that no read can be left out.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba

from releaf.core.releaf.partition import locate
from releaf.core.releaf.state import ACTIONS, FEATURES, open_state

Kernel = Callable[..., Any]
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}


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
    def add_up(pointer_table, contexts, chosen, rewards):
        m = open_state(pointer_table)
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

    return numba.njit(**_OPTIONS)(add_up)  # type: ignore[no-any-return]


@cache
def floor(*, writes: bool) -> Kernel:
    """Kernel that takes (pointer_table, contexts, chosen actions, their rewards)."""
    return _plain(writes=writes)
