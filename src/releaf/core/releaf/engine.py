"""RELEAF's learner on encoded input: contexts in [0, 1] and action indices in, decisions out.

An :class:`Engine` owns the arrays, calls the kernels and grows the arrays when a kernel reports that they are full. It
validates no user input; the policies do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.releaf import cells, decision_step, partition, state_check, stream_replay
from releaf.core.releaf.state import (
    ACTIONS,
    CLOCK_LENGTH,
    CONTROL,
    EXPLOITED,
    HASHED,
    LIPSCHITZ,
    LOG_CONFIDENCE,
    NODES,
    PARAMS_LENGTH,
    RANDOM,
    ROWS_OF,
    SQRT_GAMMA,
    ReleafState,
)
from releaf.core.releaf.tuples import enumerate_tuples
from releaf.core.runtime.random_generator import first_state


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
        self.state = ReleafState()
        self._lay_out_constants(actions)
        clock = np.zeros(CLOCK_LENGTH, dtype=np.int64)
        clock[RANDOM] = first_state(seed)
        self.state.clock = clock
        features = len(settings.categories)
        self.state.relevance = np.zeros(actions * features)
        self.state.added_at = np.zeros(actions)
        self.state.leaf = np.zeros(features)
        partition.build(
            self.state,
            np.array(settings.categories),
            np.array(settings.missing),
            settings.base,
            settings.start_level,
        )
        cells.build(self.state, dense_limit=settings.dense_limit)
        self._lay_out_scratch(self.state)

    def _lay_out_constants(self, actions: int) -> None:
        given, state = self.settings, self.state
        features = len(given.categories)
        sets = enumerate_tuples(features, given.tuple_size, given.gamma)
        state.tuples, state.targets = sets.tuples, sets.candidates
        state.subsets, state.members = sets.subsets, sets.members
        top = partition.top_level(given.base)
        state.shape = np.array(
            [
                *(features, actions, given.tuple_size, len(sets.tuples), len(sets.candidates)),
                *(sets.members.shape[1], sets.subsets.shape[1], given.gamma, given.base),
                *(partition.grid_cells(given.base, given.start_level), top, given.observe, given.greedy),
            ]
        )
        state.scale = np.array([float(given.base**level) for level in range(top + 1)])
        state.split_at = np.array([_power(given.base, given.rho * level) for level in range(top)] + [math.inf])
        state.params = np.zeros(PARAMS_LENGTH)
        state.params[LIPSCHITZ] = given.lipschitz
        state.params[CONTROL] = 2.0 / given.control_divisor
        state.params[SQRT_GAMMA] = math.sqrt(given.gamma)
        self._set_confidence(state)

    def _set_confidence(self, state: ReleafState) -> None:
        terms = self.settings.confidence_terms * int(state.shape[ACTIONS])
        state.params[LOG_CONFIDENCE] = math.log(terms) - math.log(self.settings.delta)

    def _lay_out_scratch(self, state: ReleafState) -> None:
        """Allocate scratch for the number of actions, and switch to this state."""
        features, actions = len(self.settings.categories), int(state.shape[ACTIONS])
        candidates = len(state.targets) // self.settings.gamma
        tuples = len(state.tuples) // self.settings.tuple_size
        lengths = {"rows": tuples, "low": candidates, "high": candidates}
        lengths |= dict.fromkeys(("short", "estimates", "relevant", "eligible"), actions)
        for name in ReleafState.layout.names("scratch"):
            setattr(state, name, np.zeros(lengths.get(name, features)))
        state.eligible = np.ones(actions)
        state.require_complete()
        self.state = state

    @property
    def actions(self) -> int:
        return int(self.state.shape[ACTIONS])

    def clock(self, counter: int) -> int:
        """One of the counters that :mod:`releaf.core.releaf.state` defines."""
        return int(self.state.clock[counter])

    def grow(self, lacking: int) -> None:
        """Grow what a kernel reported as full."""
        grown = self._branch()
        if lacking == decision_step.NODES_LACKING:
            partition.grow(grown)
        else:
            cells.grow(grown, self.settings.base, dense_limit=self.settings.dense_limit)
        self.state = grown

    def decide(self, context: Array) -> int:
        """Decide: 2 · action, plus 1 when exploring; BAD_VALUE - feature where that feature's value is out of range."""
        decision: int = decision_step.decide(self.state.pointer_table, context)
        while decision_step.BAD_VALUE < decision < 0:
            self.grow(decision)
            decision = decision_step.decide(self.state.pointer_table, context)
        return decision

    def learn(self, context: Array, step: int, action: int, reward: float) -> None:
        while decision_step.learn(self.state.pointer_table, context, step, action, reward):
            self.grow(decision_step.ROWS_LACKING)

    def learn_all(self, context: Array, step: int, rewards: Array) -> None:
        while decision_step.learn_all(self.state.pointer_table, context, step, rewards):
            self.grow(decision_step.ROWS_LACKING)

    def replay(self, contexts: Array, rewards: Array, masks: Array | None = None) -> tuple[Array, Array, Array, int]:
        """Actions, explored, observed, and the number of rows replayed: fewer than all where a needed reward is NaN.

        ``masks`` tells which actions are eligible in each row; None where all are.
        """
        table = np.ones((0, self.actions), dtype=np.uint8) if masks is None else masks
        steps = len(contexts)
        actions = np.zeros(steps, dtype=np.int64)
        explored, observed = np.zeros(steps, dtype=np.bool_), np.zeros(steps, dtype=np.bool_)
        row, lacking = 0, 0
        while row < steps and lacking != decision_step.BAD_VALUE:
            decided = lacking == decision_step.ROWS_LACKING
            row, lacking = stream_replay.replay(
                self.state.pointer_table, contexts, rewards, table, row, decided, actions, explored, observed
            )
            if lacking and lacking != decision_step.BAD_VALUE:
                self.grow(lacking)
        return actions, explored, observed, row

    def learn_log(self, contexts: Array, taken: Array, rewards: Array) -> None:
        """Replay a log and learn the rewards of the logged actions."""
        row, lacking = 0, 0
        while row < len(contexts):
            decided = lacking == decision_step.ROWS_LACKING
            row, lacking = stream_replay.learn_log(self.state.pointer_table, contexts, taken, rewards, row, decided)
            if lacking:
                self.grow(lacking)

    def estimate(self, contexts: Array) -> Array:
        """Estimate the reward of each action in many contexts; state is unchanged."""
        changed = {name: getattr(self.state, name).copy() for name in ("clock", "relevance", "leaf")}
        estimates = np.empty((len(contexts), self.actions))
        try:
            stream_replay.estimate_all(self.state.pointer_table, contexts, estimates)
        finally:
            for name, array in changed.items():
                getattr(self.state, name)[:] = array
            self.state.clock[ROWS_OF] = 0  # the cached cells belong to another context
        return np.where(np.isnan(estimates), self._overall_means(), estimates)

    def tally_relevance(self, contexts: Array) -> None:
        """Count which features are relevant in contexts that are all exploited; nothing else changes."""
        clock, leaf = self.state.clock.copy(), self.state.leaf.copy()
        stream_replay.estimate_all(self.state.pointer_table, contexts, np.empty((len(contexts), self.actions)))
        clock[EXPLOITED], clock[ROWS_OF] = self.state.clock[EXPLOITED], 0
        self.state.clock[:], self.state.leaf[:] = clock, leaf

    def _overall_means(self) -> Array:
        """Mean reward of each action over all cells; 0.5 without observations."""
        counts = self.state.counts.reshape(-1, self.actions).sum(axis=0)
        sums = self.state.sums.reshape(-1, self.actions).sum(axis=0)
        means: Array = np.divide(sums, counts, out=np.full(self.actions, 0.5), where=counts > 0)
        return means

    def add_action(self) -> None:
        wider = self._branch()
        actions, features = self.actions, len(self.settings.categories)
        cells.add_action(wider)
        wider.relevance = np.concatenate([wider.relevance, np.zeros(features, dtype=np.int64)])
        wider.added_at = np.append(wider.added_at, self.clock(EXPLOITED))
        wider.shape[ACTIONS] = actions + 1
        wider.clock[ROWS_OF] = 0
        self._set_confidence(wider)
        self._lay_out_scratch(wider)

    def remove_action(self, action: int) -> None:
        narrower = self._branch()
        actions, features = self.actions, len(self.settings.categories)
        cells.remove_action(narrower, action)
        narrower.relevance = np.delete(narrower.relevance.reshape(actions, features), action, axis=0)
        narrower.added_at = np.delete(narrower.added_at, action)
        narrower.shape[ACTIONS] = actions - 1
        narrower.clock[ROWS_OF] = 0
        self._set_confidence(narrower)
        self._lay_out_scratch(narrower)

    def node(self, number: int) -> Node:
        state = self.state
        return Node(int(state.rank[number]), int(state.level[number]), int(state.arrivals[number]))

    def leaves(self, feature: int) -> list[Node]:
        """Leaves of a feature from low to high, the leaf of missing values last."""
        return [self.node(n) for n in partition.leaves_of(self.state, feature, self.settings.base)]

    def leaf_at(self, feature: int, value: float, step: int) -> Node:
        """Leaf that held a value at decision ``step``."""
        return self.node(partition.leaf_then(self.state, feature, value, self.settings.base, step))

    def learnt_arrays(self) -> dict[str, Array]:
        """Copy the learnt arrays for saving."""
        nodes, arrays = self.clock(NODES), self.state.learnt_arrays()
        for name in partition.NODE_FIELDS:
            arrays[name] = arrays[name][:nodes].copy()
        arrays["clock"][ROWS_OF] = 0  # cached rows are scratch
        return arrays

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Load what ``learnt_arrays`` returned, of an engine with the same settings.

        Inconsistent arrays raise a ValueError; the engine is then unchanged.
        """
        state = self._branch()
        state.shape[ACTIONS] = len(arrays["added_at"])
        self._set_confidence(state)
        for name in ReleafState.layout.names("learnt"):
            if arrays[name].dtype != ReleafState.layout.fields[name].dtype:
                raise ValueError(f"its {name} contradict the rest")
            setattr(state, name, arrays[name])
        state.cells = _without_padding(state)
        caps = state.caps
        if len(caps) != len(self.settings.categories) or (caps < 0).any():
            raise ValueError("its tables contradict the rest")
        dense = not state.clock[HASHED]
        state_check.check_state(state, self.settings.categories, cells.dense_rows(state, caps) if dense else 0)
        if dense:
            cells.lay_out(state, caps)
        self._lay_out_scratch(state)

    def _branch(self) -> ReleafState:
        """Another state with the same arrays, small ones copied, to be changed and then to replace this one.

        If the change is interrupted, the state in use stays consistent.
        """
        copied = {name: getattr(self.state, name).copy() for name in ("clock", "shape", "params")}
        return self.state.replace(**copied)


def _without_padding(state: ReleafState) -> Array:
    """Cells of a file without the eight values that version 0.1 wrote after the last row."""
    actions = int(state.shape[ACTIONS])
    rows = len(state.counts) // actions
    padded = len(state.cells) == rows * (1 + actions) + 8
    return state.cells[:-8] if padded else state.cells
