"""Costs of labels: validation, and the mixin of policies that request rewards."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.label_outlook import LabelOutlook

LEAST_LABEL_COST, MOST_LABEL_COST = 1e-6, 1e12
ORDINARY = 1.0  # cost of a label, unless another one is given


def checked_label_cost(value: Any, row: int | None = None) -> float:
    """Cost of the label of one decision, in ordinary labels."""
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not LEAST_LABEL_COST <= value <= MOST_LABEL_COST:
        where = "label_cost" if row is None else f"label_cost of row {row}"
        raise ValueError(
            f"{where} must be a number of ordinary labels from {LEAST_LABEL_COST:g} to {MOST_LABEL_COST:g}, "
            f"got {value!r}"
        )
    return float(value)


def checked_label_costs(values: Any, rows: int) -> Array:
    """Costs of the labels of many decisions, from one number for all or one for each."""
    if isinstance(values, np.ndarray) and values.ndim == 0:
        values = values.item()
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        return np.full(rows, checked_label_cost(values))
    entries = values.tolist() if hasattr(values, "tolist") else list(values)
    if len(entries) != rows:
        raise ValueError(f"label_cost has {len(entries)} values: expected {rows}, one for each context")
    return np.array([checked_label_cost(entry, row) for row, entry in enumerate(entries)], dtype=np.float64)


class LabelCosts:
    """Mixin of a policy: what labels cost, how much was spent on them, and how many are left."""

    label_budget: int | None = None
    _takes_label_costs = False  # whether requests depend on them
    _always_wants: bool
    _lock: threading.RLock
    _steps: int

    @abstractmethod
    def _requested_rewards(self) -> int: ...

    # --- what a user reads -----------------------------------------------------------------------------------

    @property
    def takes_label_costs(self) -> bool:
        """Whether requests depend on what labels cost, as with a ``label_budget`` or an ``observation_cost``."""
        return self._takes_label_costs

    @property
    def labels_spent(self) -> int:
        """Number of decisions whose reward was requested, answered or not; the rewards of all actions count once.

        Rows of a log count like decisions, except by :class:`releaf.AdaptiveReleaf` where it requests rewards: there
        only its own requests count, which a ``label_budget`` limits. Labels that were used before the first decision
        are ``prior_labels``.
        """
        return self._steps if self._always_wants else self._requested_rewards()

    @property
    def label_cost_spent(self) -> float:
        """Cost of all requested rewards, in ordinary labels. It is ``labels_spent`` unless some cost more or less."""
        return float(self.labels_spent)

    @property
    def labels_left(self) -> float | None:
        """Number of ordinary labels that the ``label_budget`` still allows to request; None without one."""
        if self.label_budget is None:
            return None
        left = max(self.label_budget - self.label_cost_spent, 0.0)
        return int(left) if left.is_integer() else left

    def label_outlook(self) -> LabelOutlook:
        """What further labels are expected to gain, and whether the learner still asks for any.

        For learners with a ``label_budget`` or an ``observation_cost``.
        """
        raise self._no_label_costs("has no outlook on labels", "")

    # --- validation and use ------------------------------------------------------------------------------------

    def _no_label_costs(self, what: str, hint: str) -> Exception:
        name = type(self).__name__
        if not hasattr(self, "observation_cost") or not hasattr(self, "stop_asking_after"):
            return TypeError(f"{name} {what}: AdaptiveReleaf with label_budget or observation_cost does{hint}")
        return ValueError(f"this {name} {what}: set label_budget or observation_cost{hint}")

    def _require_label_costs(self, given: Any) -> None:
        """Raise for a label's cost where requests do not depend on it."""
        if not self._takes_label_costs:
            raise self._no_label_costs("takes no label_cost", f"; expected label_cost=None, got {given!r}")

    def _checked_label_cost(self, label_cost: Any) -> Array | None:
        """Cost of the label of one decision; None for an ordinary one."""
        if label_cost is None:
            return None
        self._require_label_costs(label_cost)
        return np.array([checked_label_cost(label_cost)])

    def _checked_label_costs(self, label_cost: Any, rows: int) -> Array | None:
        if label_cost is None:
            return None
        self._require_label_costs(label_cost)
        return checked_label_costs(label_cost, rows)

    @contextmanager
    def _labels_costing(self, costs: Array | None) -> Iterator[None]:
        """Let the labels of the next decisions have these costs as long as a block runs, then ordinary ones."""
        if costs is None or not len(costs):
            yield
            return
        self._use_label_costs(costs)
        try:
            yield
        finally:
            self._use_label_costs(np.array([ORDINARY]))

    def _use_label_costs(self, costs: Array) -> None:
        """Set the costs of the labels of the next decisions, the last one of all after them."""
        raise NotImplementedError(f"{type(self).__name__} takes no costs of labels")
