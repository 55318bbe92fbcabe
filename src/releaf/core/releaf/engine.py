"""The learner's machinery without its manners: unit contexts and action numbers in, decisions out.

An :class:`Engine` owns the arrays and calls the kernels, giving them room when they ask for it. It checks
nothing that a user passes; the policies do that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from releaf.core.releaf import cells, decision_step, partition, state_check
from releaf.core.releaf.entry_points import doors
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
    Memory,
)
from releaf.core.releaf.tuples import enumerate_tuples
from releaf.core.releaf.vector_lanes import MAX_WIDTH, width_for
from releaf.core.runtime.random_generator import first_state

_FROM_CAPS = ("offsets", "strides")
# Constants follow from the settings, and where dense tables begin from their caps; scratch is scratch.
_SAVED = [f for f in FIELDS[FIELDS.index("clock") :] if f not in SCRATCH and f not in _FROM_CAPS]


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What shapes an engine. The paper's symbols: γ_rel, L, ρ, δ; see :class:`releaf.Releaf` for their meaning."""

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
    """One interval of a partition, as the kernels keep it."""

    rank: int  # position among the intervals of its level, -1 for missing values
    level: int
    arrivals: int


class Engine:
    """Partitions, cells and generator of one learner. See the module's text."""

    def __init__(self, settings: Settings, actions: int, seed: int | None) -> None:
        self.settings = settings
        self.memory = Memory()
        self._lay_out_constants(actions)
        clock = np.zeros(CLOCK_LENGTH, dtype=np.int64)
        clock[RANDOM] = first_state(seed)
        self.memory["clock"] = clock
        features = len(settings.categories)
        self.memory["relevance"] = np.zeros(actions * features)
        self.memory["added_at"] = np.zeros(actions)
        self.memory["leaf"] = np.zeros(features)
        partition.build(
            self.memory,
            np.array(settings.categories),
            np.array(settings.missing),
            settings.base,
            settings.start_level,
        )
        cells.build(self.memory, dense_limit=settings.dense_limit)
        self._lay_out_scratch(self.memory)

    def _lay_out_constants(self, actions: int) -> None:
        given, memory = self.settings, self.memory
        features = len(given.categories)
        sets = enumerate_tuples(features, given.tuple_size, given.gamma)
        memory["tuples"], memory["targets"] = sets.tuples, sets.candidates
        memory["subsets"], memory["members"] = sets.subsets, sets.members
        top = partition.top_level(given.base)
        memory["shape"] = [
            *(features, actions, given.tuple_size, len(sets.tuples), len(sets.candidates)),
            *(sets.members.shape[1], sets.subsets.shape[1], given.gamma, given.base),
            *(partition.grid_cells(given.base, given.start_level), top, given.observe, given.greedy),
        ]
        memory["scale"] = [float(given.base**level) for level in range(top + 1)]
        memory["split_at"] = [_power(given.base, given.rho * level) for level in range(top)] + [math.inf]
        memory["params"] = np.zeros(PARAMS_LENGTH)
        memory["params"][LIPSCHITZ] = given.lipschitz
        memory["params"][CONTROL] = 2.0 / given.control_divisor
        memory["params"][SQRT_GAMMA] = math.sqrt(given.gamma)
        self._set_confidence(memory)

    def _set_confidence(self, memory: Memory) -> None:
        terms = self.settings.confidence_terms * int(memory["shape"][ACTIONS])
        memory["params"][LOG_CONFIDENCE] = math.log(terms) - math.log(self.settings.delta)

    def _lay_out_scratch(self, memory: Memory) -> None:
        """Give a memory the scratch that its number of actions needs, and use it from now on."""
        features, actions = len(self.settings.categories), int(memory["shape"][ACTIONS])
        candidates = len(memory["targets"]) // self.settings.gamma
        tuples = len(memory["tuples"]) // self.settings.tuple_size
        width = width_for(actions)
        lengths = {"rows": tuples, "low": candidates * len(width), "high": candidates * len(width)}
        lengths |= {"short": actions, "chosen": MAX_WIDTH, "estimates": actions, "relevant": actions}
        for field in SCRATCH:
            memory[field] = np.zeros(lengths.get(field, features))
        self.memory, self.width = memory, width
        self.doors = doors(len(width), self.settings.tuple_size)
        self.estimates, self.relevant = memory["estimates"], memory["relevant"]

    @property
    def actions(self) -> int:
        return int(self.memory["shape"][ACTIONS])

    def clock(self, counter: int) -> int:
        """One of the counters that :mod:`releaf.core.releaf.model` names."""
        return int(self.memory["clock"][counter])

    def make_room(self, lacking: int) -> None:
        """Give the kernels what they said they lack."""
        roomier = self.memory.branch()
        if lacking == decision_step.NODES_LACKING:
            partition.make_room(roomier)
        else:
            cells.make_room(roomier, self.settings.base, dense_limit=self.settings.dense_limit)
        self.memory = roomier

    def decide(self, context: Array) -> int:
        """2 · action, plus 1 when exploring; BAD_VALUE - feature when that feature's value is out of range."""
        decision: int = self.doors.decide(self.memory.book, context)
        while decision_step.BAD_VALUE < decision < 0:
            self.make_room(decision)
            decision = self.doors.decide(self.memory.book, context)
        return decision

    def learn(self, context: Array, step: int, action: int, reward: float) -> None:
        while self.doors.learn(self.memory.book, context, step, action, reward):
            self.make_room(decision_step.ROWS_LACKING)

    def learn_all(self, context: Array, step: int, rewards: Array) -> None:
        while self.doors.learn_all(self.memory.book, context, step, rewards):
            self.make_room(decision_step.ROWS_LACKING)

    def replay(self, contexts: Array, rewards: Array) -> tuple[Array, Array, Array, int]:
        """Actions, explored, observed, and the number of rows lived through: short when a reward was NaN."""
        steps = len(contexts)
        actions = np.zeros(steps, dtype=np.int64)
        explored, observed = np.zeros(steps, dtype=np.bool_), np.zeros(steps, dtype=np.bool_)
        row, lacking = 0, 0
        while row < steps and lacking != decision_step.BAD_VALUE:
            decided = lacking == decision_step.ROWS_LACKING
            row, lacking = self.doors.replay(
                self.memory.book, contexts, rewards, row, decided, actions, explored, observed
            )
            if lacking and lacking != decision_step.BAD_VALUE:
                self.make_room(lacking)
        return actions, explored, observed, row

    def learn_log(self, contexts: Array, taken: Array, rewards: Array) -> None:
        """Live through a log, learning the rewards of the actions that were taken."""
        row, lacking = 0, 0
        while row < len(contexts):
            decided = lacking == decision_step.ROWS_LACKING
            row, lacking = self.doors.learn_log(self.memory.book, contexts, taken, rewards, row, decided)
            if lacking:
                self.make_room(lacking)

    def estimate(self, contexts: Array) -> Array:
        """The expected reward of each action in many contexts, which leave no trace."""
        changed = {field: self.memory[field].copy() for field in ("clock", "relevance", "leaf")}
        estimates = np.empty((len(contexts), self.actions))
        try:
            self.doors.estimate_all(self.memory.book, contexts, estimates)
        finally:
            for field, array in changed.items():
                self.memory[field][:] = array
            self.memory["clock"][ROWS_OF] = 0  # the cells at hand are another context's
        return np.where(np.isnan(estimates), self._overall_means(), estimates)

    def tally_relevance(self, contexts: Array) -> None:
        """Count which features are relevant in contexts that leave no other trace, where all of them are exploited."""
        clock, leaf = self.memory["clock"].copy(), self.memory["leaf"].copy()
        self.doors.estimate_all(self.memory.book, contexts, np.empty((len(contexts), self.actions)))
        clock[EXPLOITED], clock[ROWS_OF] = self.memory["clock"][EXPLOITED], 0
        self.memory["clock"][:], self.memory["leaf"][:] = clock, leaf

    def _overall_means(self) -> Array:
        """The mean reward of each action over all cells; a half where there is none."""
        counts = self.memory["counts"].reshape(-1, self.actions).sum(axis=0)
        sums = self.memory["sums"].reshape(-1, self.actions).sum(axis=0)
        means: Array = np.divide(sums, counts, out=np.full(self.actions, 0.5), where=counts > 0)
        return means

    def add_action(self) -> None:
        wider = self.memory.branch()
        actions, features = self.actions, len(self.settings.categories)
        cells.add_action(wider)
        wider["relevance"] = np.concatenate([wider["relevance"], np.zeros(features, dtype=np.int64)])
        wider["added_at"] = np.append(wider["added_at"], self.clock(EXPLOITED))
        wider["shape"][ACTIONS] = actions + 1
        wider["clock"][ROWS_OF] = 0
        self._set_confidence(wider)
        self._lay_out_scratch(wider)

    def remove_action(self, action: int) -> None:
        narrower = self.memory.branch()
        actions, features = self.actions, len(self.settings.categories)
        cells.remove_action(narrower, action)
        narrower["relevance"] = np.delete(narrower["relevance"].reshape(actions, features), action, axis=0)
        narrower["added_at"] = np.delete(narrower["added_at"], action)
        narrower["shape"][ACTIONS] = actions - 1
        narrower["clock"][ROWS_OF] = 0
        self._set_confidence(narrower)
        self._lay_out_scratch(narrower)

    def node(self, number: int) -> Node:
        memory = self.memory
        return Node(int(memory["rank"][number]), int(memory["level"][number]), int(memory["arrivals"][number]))

    def leaves(self, feature: int) -> list[Node]:
        """The leaves of a feature from low to high, the one of missing values last."""
        return [self.node(n) for n in partition.leaves_of(self.memory, feature, self.settings.base)]

    def leaf_at(self, feature: int, value: float, step: int) -> Node:
        """The leaf that held a value when decision ``step`` was made."""
        return self.node(partition.leaf_then(self.memory, feature, value, self.settings.base, step))

    def state(self) -> dict[str, Array]:
        """Copies of all that was learnt, to be saved."""
        nodes = self.clock(NODES)
        arrays = {}
        for field in _SAVED:
            array = self.memory[field]
            arrays[field] = array[:nodes].copy() if field in partition.NODE_FIELDS else array.copy()
        arrays["clock"][ROWS_OF] = 0  # the rows at hand are scratch
        return arrays

    def restore(self, state: dict[str, Array]) -> None:
        """Take up a state that ``state`` gave, of an engine with the same settings.

        Raises a ValueError, and changes nothing, where the state contradicts itself or the settings.
        """
        memory = self.memory.branch()
        memory["shape"][ACTIONS] = len(state["added_at"])
        self._set_confidence(memory)
        for field in _SAVED:
            memory[field] = state[field]
        caps = memory["caps"]
        if len(caps) != len(self.settings.categories) or (caps < 0).any():
            raise ValueError("its tables contradict the rest")
        dense = not memory["clock"][HASHED]
        state_check.require_sound(memory, self.settings.categories, cells.dense_rows(memory, caps) if dense else 0)
        if dense:
            cells.lay_out(memory, caps)
        self._lay_out_scratch(memory)
