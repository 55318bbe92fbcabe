"""RELEAF's learner on encoded input: contexts in [0, 1] and action indices in, decisions out.

An :class:`Engine` owns the arrays, calls the kernels and grows the arrays when a kernel reports that they are full. It
validates no user input; the policies do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from releaf.core.releaf import cells, decision_step, partition, state_check
from releaf.core.releaf.entry_points import entry_points
from releaf.core.releaf.model import (
    ACTIONS,
    CLOCK_LENGTH,
    CONTROL,
    EXPLOITED,
    FIELDS,
    HASHED,
    LIPSCHITZ,
    LOG_CONFIDENCE,
    NODES,
    PARAMS_LENGTH,
    RANDOM,
    ROWS_OF,
    SCRATCH,
    SQRT_GAMMA,
    Array,
    StateArrays,
)
from releaf.core.releaf.tuples import enumerate_tuples
from releaf.core.releaf.vector_lanes import MAX_WIDTH, width_for
from releaf.core.runtime.random_generator import first_state

_FROM_CAPS = ("offsets", "strides")
# Constants follow from the settings, offsets of dense tables from their caps; scratch is not saved.
_SAVED = [f for f in FIELDS[FIELDS.index("clock") :] if f not in SCRATCH and f not in _FROM_CAPS]


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSettings:
    """Settings of an engine. The paper's symbols are γ_rel, L, ρ, δ; :class:`releaf.Releaf` documents them."""

    categories: tuple[int, ...]  # intervals of each feature that never split, 0 for a continuous feature
    missing: tuple[bool, ...]  # whether each feature has an interval for missing values
    gamma: int
    tuple_size: int
    confidence_terms: int  # D*, the number of estimates that must hold together
    lipschitz: float  # 0 when unknown
    rho: float
    delta: float
    control_divisor: float
    base: int
    start_level: int
    observe: int
    greedy: bool = False
    dense_limit: int = cells.DENSE_LIMIT


def _power(base: int, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


class Node(NamedTuple):
    """One interval of a partition."""

    rank: int  # position among the intervals of its level, -1 for missing values
    level: int
    arrivals: int


class Engine:
    """Partitions, cells and random generator of one learner."""

    def __init__(self, settings: EngineSettings, actions: int, seed: int | None) -> None:
        self.settings = settings
        self.arrays = StateArrays()
        self._lay_out_constants(actions)
        clock = np.zeros(CLOCK_LENGTH, dtype=np.int64)
        clock[RANDOM] = first_state(seed)
        self.arrays["clock"] = clock
        features = len(settings.categories)
        self.arrays["relevance"] = np.zeros(actions * features)
        self.arrays["added_at"] = np.zeros(actions)
        self.arrays["leaf"] = np.zeros(features)
        partition.build(
            self.arrays,
            np.array(settings.categories),
            np.array(settings.missing),
            settings.base,
            settings.start_level,
        )
        cells.build(self.arrays, dense_limit=settings.dense_limit)
        self._lay_out_scratch(self.arrays)

    def _lay_out_constants(self, actions: int) -> None:
        given, arrays = self.settings, self.arrays
        features = len(given.categories)
        sets = enumerate_tuples(features, given.tuple_size, given.gamma)
        arrays["tuples"], arrays["targets"] = sets.tuples, sets.candidates
        arrays["subsets"], arrays["members"] = sets.subsets, sets.members
        top = partition.top_level(given.base)
        arrays["shape"] = [
            *(features, actions, given.tuple_size, len(sets.tuples), len(sets.candidates)),
            *(sets.members.shape[1], sets.subsets.shape[1], given.gamma, given.base),
            *(partition.grid_cells(given.base, given.start_level), top, given.observe, given.greedy),
        ]
        arrays["scale"] = [float(given.base**level) for level in range(top + 1)]
        arrays["split_at"] = [_power(given.base, given.rho * level) for level in range(top)] + [math.inf]
        arrays["params"] = np.zeros(PARAMS_LENGTH)
        arrays["params"][LIPSCHITZ] = given.lipschitz
        arrays["params"][CONTROL] = 2.0 / given.control_divisor
        arrays["params"][SQRT_GAMMA] = math.sqrt(given.gamma)
        self._set_confidence(arrays)

    def _set_confidence(self, arrays: StateArrays) -> None:
        terms = self.settings.confidence_terms * int(arrays["shape"][ACTIONS])
        arrays["params"][LOG_CONFIDENCE] = math.log(terms) - math.log(self.settings.delta)

    def _lay_out_scratch(self, arrays: StateArrays) -> None:
        """Allocate scratch for the number of actions, and switch to these arrays."""
        features, actions = len(self.settings.categories), int(arrays["shape"][ACTIONS])
        candidates = len(arrays["targets"]) // self.settings.gamma
        tuples = len(arrays["tuples"]) // self.settings.tuple_size
        width = width_for(actions)
        lengths = {"rows": tuples, "low": candidates * len(width), "high": candidates * len(width)}
        lengths |= {"short": actions, "chosen": MAX_WIDTH, "estimates": actions, "relevant": actions}
        for field in SCRATCH:
            arrays[field] = np.zeros(lengths.get(field, features))
        self.arrays, self.width = arrays, width
        self.entry_points = entry_points(len(width), self.settings.tuple_size)
        self.estimates, self.relevant = arrays["estimates"], arrays["relevant"]

    @property
    def actions(self) -> int:
        return int(self.arrays["shape"][ACTIONS])

    def clock(self, counter: int) -> int:
        """One of the counters that :mod:`releaf.core.releaf.model` defines."""
        return int(self.arrays["clock"][counter])

    def grow(self, lacking: int) -> None:
        """Grow what a kernel reported as full."""
        grown = self.arrays.branch()
        if lacking == decision_step.NODES_LACKING:
            partition.grow(grown)
        else:
            cells.grow(grown, self.settings.base, dense_limit=self.settings.dense_limit)
        self.arrays = grown

    def decide(self, context: Array) -> int:
        """Decide: 2 · action, plus 1 when exploring; BAD_VALUE - feature where that feature's value is out of range."""
        decision: int = self.entry_points.decide(self.arrays.pointer_table, context)
        while decision_step.BAD_VALUE < decision < 0:
            self.grow(decision)
            decision = self.entry_points.decide(self.arrays.pointer_table, context)
        return decision

    def learn(self, context: Array, step: int, action: int, reward: float) -> None:
        while self.entry_points.learn(self.arrays.pointer_table, context, step, action, reward):
            self.grow(decision_step.ROWS_LACKING)

    def learn_all(self, context: Array, step: int, rewards: Array) -> None:
        while self.entry_points.learn_all(self.arrays.pointer_table, context, step, rewards):
            self.grow(decision_step.ROWS_LACKING)

    def replay(self, contexts: Array, rewards: Array) -> tuple[Array, Array, Array, int]:
        """Actions, explored, observed, and the number of rows replayed: fewer than all where a needed reward is NaN."""
        steps = len(contexts)
        actions = np.zeros(steps, dtype=np.int64)
        explored, observed = np.zeros(steps, dtype=np.bool_), np.zeros(steps, dtype=np.bool_)
        row, lacking = 0, 0
        while row < steps and lacking != decision_step.BAD_VALUE:
            decided = lacking == decision_step.ROWS_LACKING
            row, lacking = self.entry_points.replay(
                self.arrays.pointer_table, contexts, rewards, row, decided, actions, explored, observed
            )
            if lacking and lacking != decision_step.BAD_VALUE:
                self.grow(lacking)
        return actions, explored, observed, row

    def learn_log(self, contexts: Array, taken: Array, rewards: Array) -> None:
        """Replay a log and learn the rewards of the logged actions."""
        row, lacking = 0, 0
        while row < len(contexts):
            decided = lacking == decision_step.ROWS_LACKING
            row, lacking = self.entry_points.learn_log(
                self.arrays.pointer_table, contexts, taken, rewards, row, decided
            )
            if lacking:
                self.grow(lacking)

    def estimate(self, contexts: Array) -> Array:
        """Estimate the reward of each action in many contexts; state is unchanged."""
        changed = {field: self.arrays[field].copy() for field in ("clock", "relevance", "leaf")}
        estimates = np.empty((len(contexts), self.actions))
        try:
            self.entry_points.estimate_all(self.arrays.pointer_table, contexts, estimates)
        finally:
            for field, array in changed.items():
                self.arrays[field][:] = array
            self.arrays["clock"][ROWS_OF] = 0  # the cached cells belong to another context
        return np.where(np.isnan(estimates), self._overall_means(), estimates)

    def tally_relevance(self, contexts: Array) -> None:
        """Count which features are relevant in contexts that are all exploited; nothing else changes."""
        clock, leaf = self.arrays["clock"].copy(), self.arrays["leaf"].copy()
        self.entry_points.estimate_all(self.arrays.pointer_table, contexts, np.empty((len(contexts), self.actions)))
        clock[EXPLOITED], clock[ROWS_OF] = self.arrays["clock"][EXPLOITED], 0
        self.arrays["clock"][:], self.arrays["leaf"][:] = clock, leaf

    def _overall_means(self) -> Array:
        """Mean reward of each action over all cells; 0.5 without observations."""
        counts = self.arrays["counts"].reshape(-1, self.actions).sum(axis=0)
        sums = self.arrays["sums"].reshape(-1, self.actions).sum(axis=0)
        means: Array = np.divide(sums, counts, out=np.full(self.actions, 0.5), where=counts > 0)
        return means

    def add_action(self) -> None:
        wider = self.arrays.branch()
        actions, features = self.actions, len(self.settings.categories)
        cells.add_action(wider)
        wider["relevance"] = np.concatenate([wider["relevance"], np.zeros(features, dtype=np.int64)])
        wider["added_at"] = np.append(wider["added_at"], self.clock(EXPLOITED))
        wider["shape"][ACTIONS] = actions + 1
        wider["clock"][ROWS_OF] = 0
        self._set_confidence(wider)
        self._lay_out_scratch(wider)

    def remove_action(self, action: int) -> None:
        narrower = self.arrays.branch()
        actions, features = self.actions, len(self.settings.categories)
        cells.remove_action(narrower, action)
        narrower["relevance"] = np.delete(narrower["relevance"].reshape(actions, features), action, axis=0)
        narrower["added_at"] = np.delete(narrower["added_at"], action)
        narrower["shape"][ACTIONS] = actions - 1
        narrower["clock"][ROWS_OF] = 0
        self._set_confidence(narrower)
        self._lay_out_scratch(narrower)

    def node(self, number: int) -> Node:
        arrays = self.arrays
        return Node(int(arrays["rank"][number]), int(arrays["level"][number]), int(arrays["arrivals"][number]))

    def leaves(self, feature: int) -> list[Node]:
        """Leaves of a feature from low to high, the leaf of missing values last."""
        return [self.node(n) for n in partition.leaves_of(self.arrays, feature, self.settings.base)]

    def leaf_at(self, feature: int, value: float, step: int) -> Node:
        """Leaf that held a value at decision ``step``."""
        return self.node(partition.leaf_then(self.arrays, feature, value, self.settings.base, step))

    def state(self) -> dict[str, Array]:
        """Copy the learnt state for saving."""
        nodes = self.clock(NODES)
        arrays = {}
        for field in _SAVED:
            array = self.arrays[field]
            arrays[field] = array[:nodes].copy() if field in partition.NODE_FIELDS else array.copy()
        arrays["clock"][ROWS_OF] = 0  # cached rows are scratch
        return arrays

    def restore(self, state: dict[str, Array]) -> None:
        """Load a state that ``state`` returned, of an engine with the same settings.

        An inconsistent state raises a ValueError; the engine is then unchanged.
        """
        arrays = self.arrays.branch()
        arrays["shape"][ACTIONS] = len(state["added_at"])
        self._set_confidence(arrays)
        for field in _SAVED:
            arrays[field] = state[field]
        caps = arrays["caps"]
        if len(caps) != len(self.settings.categories) or (caps < 0).any():
            raise ValueError("its tables contradict the rest")
        dense = not arrays["clock"][HASHED]
        state_check.check_state(arrays, self.settings.categories, cells.dense_rows(arrays, caps) if dense else 0)
        if dense:
            cells.lay_out(arrays, caps)
        self._lay_out_scratch(arrays)
