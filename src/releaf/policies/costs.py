"""Costs of actions: validation, and the mixin of policies that weigh costs."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.core.runtime.spending import (
    AHEAD,
    ALLOWANCE,
    BUDGETED,
    DECISIONS,
    FIXED_WEIGHT,
    KIND,
    LEAST_TIME,
    MEAN,
    MOST_RATIOS,
    NO_COSTS,
    RATIOS,
    SLACK,
    SPENDING_LENGTH,
    SPENT,
    WEIGHT,
)
from releaf.decision import ActionName, Decision
from releaf.policies.argument_checks import positive, whole
from releaf.policy import plain_name

LONGEST_TIME = 1_000.0  # decisions in which the controller of a budget corrects an error
MOST_COST = 1e12

Costs = Mapping[Any, float] | Sequence[float] | Array


def checked_costs(cost: Any, names: tuple[ActionName, ...], row: int | None = None) -> Array:
    """Costs of one decision, one for each action in the learner's order, from a mapping or a sequence."""
    where = "cost" if row is None else f"cost of row {row}"
    if isinstance(cost, Mapping):
        given = {plain_name(name): value for name, value in cost.items()}
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(f"{where} names an unknown action {unknown[0]!r}: the actions are {names!r}")
        missing = [name for name in names if name not in given]
        if missing:
            raise ValueError(f"{where} lacks {missing!r}: expected a cost for each of {names!r}")
        values = [given[name] for name in names]
    elif isinstance(cost, str | bytes | int | float) or not isinstance(cost, Iterable):
        raise TypeError(f"{where} must be a mapping from actions to costs, or one cost for each action, got {cost!r}")
    else:
        values = cost.tolist() if isinstance(cost, np.ndarray) else list(cost)
        if len(values) != len(names):
            raise ValueError(f"{where} has {len(values)} values: expected one for each of {names!r}")
    return np.array([_checked_cost(value, name, where) for name, value in zip(names, values, strict=True)])


def _checked_cost(value: Any, name: ActionName, where: str) -> float:
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MOST_COST:
        raise ValueError(f"{where} of {name!r} must be a number from 0 to {MOST_COST:g}, got {value!r}")
    return float(value)


def checked_cost_table(cost: Any, rows: int, names: tuple[ActionName, ...]) -> Array:
    """Costs of many decisions (T × A), from a matrix, a sequence of mappings or rows, or costs of all rows."""
    if isinstance(cost, np.ndarray) and cost.ndim == 2 and cost.dtype.kind in "iuf":
        if cost.shape != (rows, len(names)):
            raise ValueError(f"cost has shape {cost.shape}: expected {(rows, len(names))} (steps × actions)")
        wrong = ~((cost >= 0) & (cost <= MOST_COST))
        if wrong.any():
            row, action = np.argwhere(wrong)[0].tolist()
            _checked_cost(cost[row, action].item(), names[action], f"cost of row {row}")
        return np.ascontiguousarray(cost, dtype=np.float64)
    if isinstance(cost, str | bytes | Mapping) or not isinstance(cost, Iterable):
        return np.repeat(checked_costs(cost, names)[None], rows, axis=0)
    entries = list(cost)
    if not any(isinstance(entry, Collection) and not isinstance(entry, str | bytes) for entry in entries):
        return np.repeat(checked_costs(entries, names)[None], rows, axis=0)
    if len(entries) != rows:
        raise ValueError(f"cost has {len(entries)} rows: expected {rows}, one for each context")
    return np.array([checked_costs(entry, names, row) for row, entry in enumerate(entries)]).reshape(-1, len(names))


def as_cost_table(costs: Array | None, actions: int) -> Array:
    """Costs for kernels: a table without rows where costs are fixed, or there are none."""
    return np.zeros((0, actions)) if costs is None else costs


class CostWeighing:
    """Mixin of a policy: the costs of its actions, their weight against rewards, and the spend.

    Without a cost rule, which a class that can weigh costs sets by ``_set_cost_rule``, costs raise.
    """

    cost: tuple[float, ...] | None = None  # fixed costs of the actions, in their order
    spend_budget: float | None = None
    budget_period: int = 1_000
    _weight_given: float | None = None  # the parameter ``cost_weight``
    _weighs_costs = False  # whether there is a weight or a budget
    _needs_costs = False  # with each decision
    _action_names: tuple[ActionName, ...]
    _lock: threading.RLock
    _span: float
    _state: Any

    def _set_cost_rule(self, cost: Any, cost_weight: Any, spend_budget: Any, budget_period: Any) -> None:
        """Validate and set the parameters of costs."""
        if cost_weight is not None and spend_budget is not None:
            raise ValueError(
                f"only one of cost_weight and spend_budget can be set, got cost_weight={cost_weight!r} and "
                f"spend_budget={spend_budget!r}"
            )
        self.cost = None if cost is None else tuple(checked_costs(cost, self._action_names).tolist())
        self._weight_given = None if cost_weight is None else positive("cost_weight", cost_weight, zero=True, most=1e12)
        self.spend_budget = None if spend_budget is None else positive("spend_budget", spend_budget, most=1e18)
        self.budget_period = whole("budget_period", budget_period, least=1, most=2**53)
        if spend_budget is None and self.budget_period != CostWeighing.budget_period:
            raise ValueError(f"budget_period={budget_period!r} needs a spend_budget, got none")
        self._weighs_costs = cost_weight is not None or spend_budget is not None
        if cost is not None and not self._weighs_costs:
            raise ValueError("cost needs cost_weight (reward per unit of cost) or spend_budget, got neither")
        self._needs_costs = self._weighs_costs and cost is None

    def _spending_rule(self) -> tuple[float, ...]:
        """The state's ``spending_rule``."""
        if self.spend_budget is None:
            return float(FIXED_WEIGHT if self._weighs_costs else NO_COSTS), 0.0, 0.0, 0.0
        longest = min(max(float(self.budget_period), LEAST_TIME), LONGEST_TIME)
        return float(BUDGETED), self.spend_budget / self.budget_period, self.spend_budget, longest

    def _connect_costs(self, state: Any) -> None:
        """Write the rule, the fixed costs, and a fixed weight to a state that the policy is to use."""
        if hasattr(state, "spending_rule"):
            state.spending_rule[:] = self._spending_rule()
            state.costs[:] = 0.0 if self.cost is None else self.cost
            if self._weight_given is not None:
                state.spending[WEIGHT] = self._weight_given / self._span

    def _as_saved(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """Arrays of a state as a file has them: without the spending where costs do not matter, as ever."""
        return {name: array for name, array in arrays.items() if self._weighs_costs or name != "spending"}

    def _from_saved(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """Arrays of a state from those of a file."""
        if not self._weighs_costs:
            return {**arrays, "spending": np.zeros(SPENDING_LENGTH)}
        if "spending" not in arrays:
            raise ValueError("its spending is missing")
        return arrays

    # --- what a user reads -----------------------------------------------------------------------------------

    @property
    def cost_weight(self) -> float | None:
        """Current weight λ of a unit of cost, which is the fixed one or the one that keeps to the budget.

        None where costs do not matter.
        """
        return self._span * float(self._state.spending[WEIGHT]) if self._weighs_costs else None

    @property
    def spent(self) -> float:
        """Sum of the costs of all actions taken; actions that others took (``observe``, logs) cost nothing.

        Where a decision was overruled, the action that was taken instead counts as soon as its reward is learnt.
        """
        return float(self._state.spending[SPENT]) if self._weighs_costs else 0.0

    @property
    def spend_ahead(self) -> float | None:
        """Spend ahead of the allowance, or behind where negative; None without a budget.

        It is never more than ``spend_budget``, unless every eligible action costs too much or an overruled decision
        cost more, and never less than minus that: what is not spent in a whole period lapses.
        """
        return None if self.spend_budget is None else float(self._state.spending[AHEAD])

    # --- validation and use ------------------------------------------------------------------------------------

    def _checked_costs(self, cost: Any) -> Array | None:
        """Costs of one decision; None for the fixed ones, or without any."""
        return checked_costs(cost, self._action_names) if self._takes_costs(cost) else None

    def _checked_cost_table(self, cost: Any, rows: int) -> Array | None:
        return checked_cost_table(cost, rows, self._action_names) if self._takes_costs(cost) else None

    def _takes_costs(self, cost: Any) -> bool:
        name = type(self).__name__
        if cost is None:
            if self._needs_costs:
                raise ValueError(
                    f"cost is missing: this {name} weighs costs and has no fixed ones; expected cost= with each "
                    "decision, or in its constructor"
                )
            return False
        if not self._weighs_costs:
            if hasattr(getattr(self, "_state", None), "spending_rule"):
                raise ValueError(f"this {name} weighs no costs: set cost_weight or spend_budget, or leave out cost")
            raise TypeError(
                f"{name} can't weigh costs: AdaptiveReleaf, LinUCB, LinTS, LinearEpsilonGreedy, EpsilonGreedy and "
                "UCB1 can; expected cost=None"
            )
        return True

    def _affordable(self, places: list[int], costs: Array | None) -> list[int]:
        """Those of some actions that a ``spend_budget`` leaves, as ``leave_affordable`` of the kernels does."""
        if self.spend_budget is None:
            return places
        own: Sequence[float] = (self.cost or ()) if costs is None else costs.tolist()
        rule, spending = self._state.spending_rule, self._state.spending
        most = max(rule[SLACK] + rule[ALLOWANCE] - spending[AHEAD], min(own[place] for place in places))
        return [place for place in places if own[place] <= most]

    def _charge_instead(self, choice: Decision | int, chosen: int, taken: int) -> None:
        """Account for the cost of an action that was taken instead of the chosen one, once this is known."""
        if not self._weighs_costs:
            return
        names, cost = self._action_names, dict(zip(self._action_names, self.cost or (), strict=False))
        if isinstance(choice, Decision) and choice.costs is not None:
            cost = dict(zip(choice._actions, choice.costs, strict=True))
        if names[taken] not in cost:  # of a decision given by its id, whose costs came with it
            return
        added, spending = cost[names[taken]] - cost[names[chosen]], self._state.spending
        spending[SPENT] = max(spending[SPENT] + added, 0.0)
        if self.spend_budget is not None:
            spending[AHEAD] = max(spending[AHEAD] + added, -self.spend_budget)

    def _costs_of(self, actions: Array, costs: Array | None) -> Array | None:
        """Cost of the action taken at each step of a replay; None where costs do not matter."""
        if costs is not None:
            taken: Array = costs[np.arange(len(actions)), actions]
            return taken
        return None if self.cost is None else np.array(self.cost)[actions]

    def _with_cost_of_new(self, name: ActionName, cost: Any) -> tuple[float, ...] | None:
        """Fixed costs with that of an action to add."""
        if self.cost is None:
            if cost is not None:
                raise ValueError(f"cost={cost!r} of the new action {name!r}: this learner has no fixed costs")
            return None
        if cost is None:
            raise ValueError(f"the new action {name!r} needs a cost, as the others have: expected cost=")
        return (*self.cost, _checked_cost(cost, name, "cost"))

    def _require_mergeable_costs(self, others: Sequence[Any]) -> None:
        """Raise if one of several learners weighs costs: their spends and weights are of different streams."""
        if any(other._weighs_costs for other in (self, *others)):
            raise ValueError("learners that weigh costs can't be merged: expected cost_weight=None, spend_budget=None")

    @contextmanager
    def _priced_at(self, costs: Array | None) -> Iterator[None]:
        """Use costs of one decision as long as a block runs, then the fixed ones again."""
        if costs is None:
            yield
            return
        self._state.costs[:] = costs
        try:
            yield
        finally:
            self._use_fixed_costs()

    def _use_fixed_costs(self) -> None:
        if self._weighs_costs:
            self._state.costs[:] = 0.0 if self.cost is None else self.cost


def check_spending(spending: Array, rule: Sequence[float]) -> None:
    """Raise a ValueError if the spending of a file is impossible."""
    least = np.zeros(SPENDING_LENGTH)
    least[[AHEAD, MEAN]] = -np.inf
    fits = bool((spending >= least).all()) and spending[RATIOS] <= MOST_RATIOS
    fits = fits and spending[RATIOS] <= spending[DECISIONS]
    if rule[KIND] == BUDGETED:
        fits = fits and spending[AHEAD] >= -rule[SLACK]
    if not fits:
        raise ValueError("its spending contradicts the rest")
