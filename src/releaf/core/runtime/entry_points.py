"""Entry points from Python into the kernels of a rule.

A rule is two functions: ``choose(state, context)`` returns 2 · action, plus 1 when exploring; ``update`` learns. The
entry points open the state, check the context's values and count the decision before they call ``choose``. Both choose
and learn among the actions that ``state.eligible`` marks; the only eligible one of several is no exploration.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from releaf.core.runtime.jit import entry_point, inlined
from releaf.core.runtime.primitives import check_context, is_forced, set_eligible
from releaf.core.runtime.spending import PricedState, leave_affordable, restore_eligible, set_costs, spend
from releaf.core.runtime.state import LearnerState

Kernel = Callable[..., Any]


@inlined
def always_has_capacity(state: Any) -> bool:
    return True


@inlined
def always_wants(state: Any, decision: Any) -> bool:
    return True


@inlined
def ignore_costs(state: Any, table: Any, row: Any) -> None:
    pass


@inlined
def use_costs(state: Any, table: Any, row: Any) -> None:
    set_costs(state.costs, table, row)


@inlined
def learn_nothing(state: Any, context: Any, step: Any, rewards: Any) -> None:
    pass


class EntryPoints:
    """Entry points of one rule; Numba compiles each on its first call.

    Parameters
    ----------
    choose, update
        The rule.
    state
        Class of the state.
    rewards
        What it learns from: "one", the reward of the action taken, "all" of them, or "none".
    wants
        Whether the policy wants the reward of a decision.
    has_capacity
        Whether a replay can continue.
    observe_context
        What a context alone changes, before the reward of a logged action; ``choose`` when None.
    """

    def __init__(
        self,
        choose: Kernel,
        update: Kernel,
        state: type[LearnerState],
        *,
        rewards: str = "one",
        wants: Kernel = always_wants,
        has_capacity: Kernel = always_has_capacity,
        observe_context: Kernel | None = None,
    ) -> None:
        self.state: Any = state
        self._choose, self._update, self._open = choose, update, state.open
        self._wants, self._has_capacity = wants, has_capacity
        self._observe_context = observe_context or choose
        self._rewards = rewards
        self._is_priced = issubclass(state, PricedState)
        self._set_costs: Kernel = use_costs if self._is_priced else ignore_costs
        self._rule = f"{choose.__name__}_{update.__name__}_{state.layout.hash:x}"  # the cache's key beside the sources

    def _compiled(self, kernel: Kernel) -> Kernel:
        return entry_point(kernel, cache_name=f"{kernel.__name__}_{self._rule}")

    def _choose_eligible(self) -> Kernel:
        """Kernel that chooses, makes the only eligible action certain, and spends where actions have costs."""
        choose = self._choose

        def choose_eligible(state, context):
            decision = choose(state, context)
            if is_forced(state.eligible):
                state.chance[0] = 1.0
                decision -= decision & 1
            return decision

        chooses: Kernel = inlined(choose_eligible)

        def choose_affordable(state, context):
            leave_affordable(state)
            decision = chooses(state, context)
            restore_eligible(state)
            spend(state, decision >> 1)
            return decision

        return inlined(choose_affordable) if self._is_priced else chooses

    @cached_property
    def decide(self) -> Kernel:
        """decide(pointer_table, context): 2 · action, plus 1 when exploring; -2 - a feature whose value is invalid."""
        open_state, choose = self._open, self._choose_eligible()

        def decide(pointer_table, context):
            state = open_state(pointer_table)
            invalid = check_context(context, state.limits)
            if invalid < -1:
                return invalid
            state.clock[0] += 1
            return choose(state, context)

        return self._compiled(decide)

    @cached_property
    def decide_all(self) -> Kernel:
        """decide_all(pointer_table, contexts, masks, costs, decisions, chances, estimates), for checked contexts."""
        open_state, choose, take_costs = self._open, self._choose_eligible(), self._set_costs

        def decide_all(pointer_table, contexts, masks, costs, decisions, chances, estimates):
            state = open_state(pointer_table)
            for row in range(len(contexts)):
                state.clock[0] += 1
                set_eligible(state.eligible, masks, row)
                take_costs(state, costs, row)
                decisions[row] = choose(state, contexts[row])
                chances[row] = state.chance[0]
                for action in range(len(state.estimates)):
                    estimates[row, action] = state.estimates[action]

        return self._compiled(decide_all)

    @cached_property
    def learn(self) -> Kernel:
        """learn(pointer_table, context, step, action, reward), or (…, step, rewards) for a rule that learns all."""
        open_state, update = self._open, self._update

        def learn(pointer_table, context, step, action, reward):
            return update(open_state(pointer_table), context, step, action, reward)

        def learn_all(pointer_table, context, step, rewards):
            return update(open_state(pointer_table), context, step, rewards)

        return self._compiled(learn if self._rewards == "one" else learn_all)

    @cached_property
    def replay(self) -> Kernel:
        """replay(pointer_table, contexts, rewards, masks, costs, row, actions, explored): the row it reached.

        Short of the end where the state's capacity is used up; -1 - row where a needed reward is NaN.
        """
        open_state, choose, has_capacity = self._open, self._choose_eligible(), self._has_capacity
        learn_row, take_costs = self._learn_row(), self._set_costs

        def replay(pointer_table, contexts, rewards, masks, costs, row, actions, explored):
            state = open_state(pointer_table)
            while row < len(contexts) and has_capacity(state):
                state.clock[0] += 1
                set_eligible(state.eligible, masks, row)
                take_costs(state, costs, row)
                decision = choose(state, contexts[row])
                actions[row] = decision >> 1
                explored[row] = decision & 1 == 1
                if not learn_row(state, contexts[row], decision, rewards[row]):
                    return -1 - row
                row += 1
            return row

        return self._compiled(replay)

    def _learn_row(self) -> Kernel:
        """Kernel that learns the wanted rewards of a row; False where one of them is NaN."""
        update, wants = self._update, self._wants

        def learn_one(state, context, decision, rewards):
            if wants(state, decision):
                reward = rewards[decision >> 1]
                if reward != reward:
                    return False
                update(state, context, state.clock[0], decision >> 1, reward)
            return True

        def learn_all(state, context, decision, rewards):
            for action in range(len(rewards)):
                if state.eligible[action] and rewards[action] != rewards[action]:
                    return False
            update(state, context, state.clock[0], rewards)
            return True

        def learn_none(state, context, decision, rewards):
            return True

        return inlined({"one": learn_one, "all": learn_all, "none": learn_none}[self._rewards])

    @cached_property
    def learn_log(self) -> Kernel:
        """learn_log(pointer_table, contexts, taken, rewards, row): the row it reached, as of ``replay``."""
        open_state, update, has_capacity = self._open, self._update, self._has_capacity
        observe_context = self._observe_context

        def learn_log(pointer_table, contexts, taken, rewards, row):
            state = open_state(pointer_table)
            while row < len(contexts) and has_capacity(state):
                state.clock[0] += 1
                observe_context(state, contexts[row])
                update(state, contexts[row], state.clock[0], taken[row], rewards[row])
                row += 1
            return row

        return self._compiled(learn_log)


def state_entry_point(kernel: Kernel, state: type[LearnerState], *, arguments: int) -> Kernel:
    """Entry point of one kernel that takes a state and so many further arguments."""
    open_state = state.open

    def call_0(pointer_table):
        return kernel(open_state(pointer_table))

    def call_2(pointer_table, first, second):
        return kernel(open_state(pointer_table), first, second)

    def call_3(pointer_table, first, second, third):
        return kernel(open_state(pointer_table), first, second, third)

    calls: dict[int, Any] = {0: call_0, 2: call_2, 3: call_3}
    return entry_point(calls[arguments], cache_name=f"call_{kernel.__name__}_{state.layout.hash:x}")  # type: ignore[no-any-return]
