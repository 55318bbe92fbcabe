"""`Decisions`: what a policy decided for many contexts at once, in columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple, overload

import numpy as np

from releaf.arrays import Array, Row
from releaf.decision import CONTROL, LEARNER, ActionName, Decision
from releaf.html_table import html_table

MAX_ROWS = 10  # decisions that a notebook shows

Relevant = tuple[tuple[int, ...] | None, ...]
Selection = tuple[int, bool, float | None, tuple[float, ...] | None, Relevant | None]


class Selections(NamedTuple):
    """What a policy's rule chose for many contexts, in columns."""

    indices: Array
    explored: Array
    probabilities: Array  # NaN where unknown
    estimates: Array  # a row for each context, a column for each action; read only where the policy exploits
    relevant: Sequence[Relevant | None]

    @classmethod
    def collect(cls, selections: Iterable[Selection], actions: int) -> Selections:
        """Turn selections that were made one by one into columns."""
        rows = list(selections)
        unknown = (np.nan,) * actions
        return cls(
            np.array([row[0] for row in rows], dtype=np.int64),
            np.array([row[1] for row in rows], dtype=np.bool_),
            np.array([row[2] for row in rows], dtype=np.float64),  # None becomes NaN
            np.array([row[3] or unknown for row in rows], dtype=np.float64).reshape(-1, actions),
            [row[4] for row in rows],
        )


@dataclass(slots=True, eq=False, repr=False)
class Decisions(Sequence[Decision]):
    """Decisions of one call of ``decide_many``: columns, and a sequence of :class:`releaf.Decision`.

    The columns exist at once; a Decision is made when it is asked for, by its position or in a loop.

    Attributes
    ----------
    ids
        The step of each decision; ``learn`` accepts it in place of the decision.
    indices
        The index of each chosen action among the learner's actions.
    explored
        Whether each action is an exploration.
    wants_reward
        Whether the learner requests each reward.
    probabilities
        The probability (propensity) of each chosen action; NaN where it is unknown.
    estimates
        The estimated reward of each action, a row for each decision; NaN while exploring.
    control
        Whether each decision belongs to the control group; None without a ``control_share``.
    label_costs
        What each reward costs to find out, in ordinary labels; None where requests do not depend on it.
    """

    ids: Array
    indices: Array
    explored: Array
    wants_reward: Array
    probabilities: Array
    estimates: Array
    _relevant: Sequence[Relevant | None]
    _contexts: list[Row]
    _learner: int
    _actions: tuple[ActionName, ...]
    _masks: Array | None = None  # a 1 for each eligible action; None where all are
    _costs: Array | tuple[float, ...] | None = None  # of all rows, or a row for each decision
    control: Array | None = None
    label_costs: Array | None = None

    @property
    def costs(self) -> Array | None:
        """The cost of each chosen action; None where costs do not matter."""
        if self._costs is None:
            return None
        table = np.asarray(self._costs, dtype=np.float64)
        taken: Array = table[self.indices] if table.ndim == 1 else table[np.arange(len(self)), self.indices]
        return taken

    def _costs_at(self, row: int) -> tuple[float, ...] | None:
        if self._costs is None or isinstance(self._costs, tuple):
            return self._costs
        return tuple(self._costs[row].tolist())

    @property
    def eligible(self) -> list[tuple[ActionName, ...] | None]:
        """The eligible actions of each decision; None where all were."""
        return [self._eligible_at(row) for row in range(len(self))]

    def _eligible_at(self, row: int) -> tuple[ActionName, ...] | None:
        if self._masks is None or self._masks[row].all():
            return None
        return tuple([name for name, mark in zip(self._actions, self._masks[row].tolist(), strict=True) if mark])

    @property
    def actions(self) -> list[ActionName]:
        """The chosen actions."""
        return [self._actions[index] for index in self.indices.tolist()]

    def __len__(self) -> int:
        return len(self._contexts)

    @overload
    def __getitem__(self, position: int) -> Decision: ...

    @overload
    def __getitem__(self, position: slice) -> list[Decision]: ...

    def __getitem__(self, position: int | slice) -> Decision | list[Decision]:
        if isinstance(position, slice):
            return [self[row] for row in range(*position.indices(len(self)))]
        context = self._contexts[position]  # raises an IndexError, which ends a loop
        explored, index = bool(self.explored[position]), int(self.indices[position])
        probability, estimates = float(self.probabilities[position]), self.estimates[position].tolist()
        eligible, names = self._eligible_at(position), self._actions
        if eligible is not None and not explored and self._masks is not None and np.isnan(estimates).any():
            names = eligible  # of the others there are no estimates
            estimates = self.estimates[position][self._masks[position].astype(bool)].tolist()
        return Decision(
            int(self.ids[position]),
            self._actions[index],
            index,
            explored,
            bool(self.wants_reward[position]),
            None if np.isnan(probability) else probability,
            None if explored or np.isnan(estimates[0]) else tuple(estimates),
            None if explored else self._relevant[position],
            context,
            self._learner,
            names,
            eligible,
            costs=self._costs_at(position),
            group=None if self.control is None else (CONTROL if self.control[position] else LEARNER),
            label_cost=None if self.label_costs is None else float(self.label_costs[position]),
        )

    def __iter__(self) -> Iterator[Decision]:
        """The decisions in turn; columns become Python's numbers at once, which takes a fraction of the time."""
        if self._masks is not None or self._costs is not None or self.control is not None:
            yield from map(self.__getitem__, range(len(self)))
            return
        columns = (self.ids, self.indices, self.explored, self.wants_reward, self.probabilities, self.estimates)
        prices = repeat(None, len(self)) if self.label_costs is None else self.label_costs.tolist()
        rows = zip(*[column.tolist() for column in columns], self._relevant, self._contexts, prices, strict=True)
        actions, learner = self._actions, self._learner
        for step, index, explored, wanted, probability, estimates, relevant, context, label_cost in rows:
            known = not explored and estimates[0] == estimates[0]  # NaN differs from itself
            yield Decision(
                step,
                actions[index],
                index,
                explored,
                wanted,
                probability if probability == probability else None,
                tuple(estimates) if known else None,
                None if explored else relevant,
                context,
                learner,
                actions,
                label_cost=label_cost,
            )

    def __repr__(self) -> str:
        explored, wanted = np.count_nonzero(self.explored), np.count_nonzero(self.wants_reward)
        return f"Decisions({len(self)}: {explored} explored, {wanted} rewards wanted)"

    def _repr_html_(self) -> str:
        """For notebooks: the first decisions."""
        rows = (
            [
                one.id,
                one.action,
                one.explored,
                one.wants_reward,
                "" if one.probability is None else f"{one.probability:.3g}",
            ]
            for one in self[:MAX_ROWS]
        )
        rest = [f"… and {len(self) - MAX_ROWS:,} more decisions"] if len(self) > MAX_ROWS else []
        head = ["id", "action", "explored", "wants_reward", "probability"]
        return html_table(head, rows, title=repr(self), notes=rest)
