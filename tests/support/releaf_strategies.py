"""Hypothesis strategies of RELEAF's configurations and streams, and the plain twin of a compiled learner."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from plain_releaf import PlainReleaf

import releaf
from releaf import theory
from releaf.core.releaf.engine import Engine
from releaf.core.runtime.jit import IS_COMPILED
from releaf.policies.partitioned import PartitionedPolicy

TIES = [0.0, 1.0, 0.5, 0.25, 0.75, 1 / 3, 2 / 3, 1 / 9, 0.1, math.nextafter(0.5, 1), math.nextafter(1 / 3, 0)]
values = st.sampled_from(TIES) | st.floats(0, 1, allow_subnormal=False)
rewards = st.sampled_from([0.0, 1.0, 0.5, 0.1]) | st.floats(0, 1, allow_subnormal=False)
EXAMPLES = 150 if IS_COMPILED else 6  # kernels that run as plain Python take a thousand times as long
quick = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    gamma = draw(st.integers(1, 2))
    features = draw(st.integers(2 * gamma, 8))
    actions = draw(st.integers(1, 6))
    base = draw(st.integers(2, 3))
    lipschitz = draw(st.sampled_from([0.02, 0.4, 1.0, 3.0, "unknown"]))
    epsilon = None if lipschitz == "unknown" else draw(st.sampled_from([None, None, 0.4, 1.0]))
    return {
        "features": features,
        "actions": actions,
        "seed": draw(st.integers(0, 2**32)),
        "gamma_rel": gamma,
        "base": base,
        "lipschitz": lipschitz,
        "epsilon": epsilon,
        "rho": draw(st.sampled_from([None, 0.7, 1.5, 3.0])),
        "delta": draw(st.sampled_from([0.01, 0.3])),
        "control_divisor": draw(st.sampled_from([20.0, 5000.0, 1e7])),
        "observe": draw(st.sampled_from(["explored", "always", "all-actions", "labels"])),
        "tuples": draw(st.sampled_from(["2gamma", "gamma+1"])),
    }


@st.composite
def streams(draw: st.DrawFn, features: int, actions: int) -> tuple[list[list[float]], list[list[float]]]:
    """Contexts whose values often coincide, and the rewards of all actions."""
    palettes = draw(st.lists(st.lists(values, min_size=1, max_size=3), min_size=features, max_size=features))
    noise = np.random.default_rng(draw(st.integers(0, 2**32)))
    fresh = draw(st.sampled_from([0.0, 0.0, 0.1, 1.0]))
    few = draw(st.lists(rewards, min_size=1, max_size=4))
    steps = draw(st.integers(20, 160))
    contexts = [
        [noise.random() if noise.random() < fresh else palette[noise.integers(len(palette))] for palette in palettes]
        for _ in range(steps)
    ]
    return contexts, [[few[noise.integers(len(few))] for _ in range(actions)] for _ in range(steps)]


def twin_of(bandit: releaf.Releaf) -> PlainReleaf:
    given_ = bandit._engine.settings
    return PlainReleaf(
        features=len(bandit.schema),
        actions=len(bandit.actions),
        gamma=bandit.gamma_rel,
        tuple_size=given_.tuple_size,
        lipschitz=None if bandit.lipschitz == "unknown" else float(bandit.lipschitz),
        rho=theory.balanced_rho(bandit.gamma_rel) if bandit.rho is None else bandit.rho,
        delta=bandit.delta,
        control_divisor=bandit.control_divisor,
        base=bandit.base,
        start_level=given_.start_level,
    )


def limit_dense_cells(bandit: PartitionedPolicy, limit: int) -> None:
    """Start the learner anew, with hashed cells as soon as dense ones would take more bytes than this."""
    engine = bandit._engine
    seed = getattr(bandit, "seed", None)
    bandit._use(Engine(dataclasses.replace(engine.settings, dense_limit=limit), engine.actions, seed))
