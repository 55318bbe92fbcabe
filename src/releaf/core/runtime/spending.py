"""Costs of actions: what each is worth net of its cost, a weight of cost that keeps to a budget, and a bound on spend.

With a budget, the weight λ is the dual variable of "spend no more than the allowance": a proportional–integral
controller of the amount by which the spend is ahead of the allowance. Its gains follow from what is observed: λ matters
where it passes a context's ratio of reward gained to cost added, so the spread of these ratios is the scale of λ. λ
changes after a decision, never within one, so probabilities stay exact.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.arrays import Array
from releaf.core.runtime.jit import inlined
from releaf.core.runtime.state import LearnerState, constant, learnt, scratch

# Fields of the rule: its kind, allowance of a decision, most that the spend may be ahead of the allowance (and behind),
# and the time constant of the controller.
KIND, ALLOWANCE, SLACK, MOST_TIME = range(4)
SPENDING_RULE_LENGTH = 4
NO_COSTS, FIXED_WEIGHT, BUDGETED = range(3)
# Fields of the spending: current weight, its integral part; spend and decisions so far; spend ahead of the allowance;
# of the ratios: how many count, their mean and variance, and the mean difference of costs.
WEIGHT, INTEGRAL, SPENT, DECISIONS, AHEAD, RATIOS, MEAN, SPREAD, DIFFERENCE = range(9)
SPENDING_LENGTH = 9

FIRST_SPREAD = 0.25  # of a difference of rewards, which counts like one observed ratio
MOST_RATIOS = 4096.0  # latest ratios that count
LEAST_TIME = 32.0  # decisions in which the controller corrects an error
TIME_SHARE = 0.1  # of the decisions so far
RANGE_OF_SPREAD = math.sqrt(12.0)  # of a uniform distribution, in standard deviations
DAMPING = 1.5
MOST_SPREADS = 8.0  # by which the weight exceeds the mean ratio


class PricedState(LearnerState):
    """Base class of states whose rule weighs costs.

    ``costs`` are those of the current decision in the user's units, and the weight is in scaled reward per unit of
    cost. ``net`` has the estimates less weighted costs. ``choosable`` marks the eligible actions that are affordable.
    """

    spending: Array = learnt(np.float64, SPENDING_LENGTH)
    spending_rule: Array = constant(np.float64, SPENDING_RULE_LENGTH)
    costs: Array = scratch(np.float64, "actions")
    net: Array = scratch(np.float64, "actions")
    choosable: Array = scratch(np.uint8, "actions")


def no_spending(actions: int) -> dict[str, Array]:
    """Arrays of a state without costs."""
    return {
        "spending": np.zeros(SPENDING_LENGTH),
        "spending_rule": np.zeros(SPENDING_RULE_LENGTH),
        "costs": np.zeros(actions),
        "net": np.zeros(actions),
        "choosable": np.ones(actions, dtype=np.uint8),
    }


@inlined
def set_net(state):
    """Set and return the estimates less weighted costs."""
    for action in range(len(state.estimates)):
        state.net[action] = state.estimates[action] - state.spending[WEIGHT] * state.costs[action]
    return state.net


@inlined
def set_costs(costs, table, row):
    """Set the costs of a row; a table without rows leaves them as they are."""
    if len(table) > 0:
        for action in range(len(costs)):
            costs[action] = table[row, action]


@inlined
def leave_affordable(state):
    """Leave those actions eligible that keep the spend within its bound; the cheapest if none does."""
    most = math.inf
    if state.spending_rule[KIND] == BUDGETED:
        most = state.spending_rule[SLACK] + state.spending_rule[ALLOWANCE] - state.spending[AHEAD]
    least = math.inf
    for action in range(len(state.costs)):
        state.choosable[action] = state.eligible[action]
        if state.eligible[action]:
            least = min(least, state.costs[action])
    most = max(most, least)
    for action in range(len(state.costs)):
        if state.costs[action] > most:
            state.eligible[action] = 0


@inlined
def restore_eligible(state):
    """Undo ``leave_affordable``; its actions are ``choosable`` then."""
    for action in range(len(state.costs)):
        eligible = state.choosable[action]
        state.choosable[action] = state.eligible[action]
        state.eligible[action] = eligible


@inlined
def spend(state, action):
    """Account for the cost of the action taken, and set the weight for the next decision."""
    if state.spending_rule[KIND] == NO_COSTS:
        return
    state.spending[SPENT] += state.costs[action]
    state.spending[DECISIONS] += 1.0
    if state.spending_rule[KIND] == BUDGETED:
        ahead = state.spending[AHEAD] + state.costs[action] - state.spending_rule[ALLOWANCE]
        state.spending[AHEAD] = max(ahead, -state.spending_rule[SLACK])
        observe_ratio(state)
        set_weight(state)


@inlined
def observe_ratio(state):
    """Observe the reward gained per cost added by the best action instead of the cheapest, of those eligible."""
    best, cheapest, dearest = -1, -1, -1
    for action in range(len(state.costs)):
        if state.eligible[action]:
            if best < 0 or state.estimates[action] > state.estimates[best]:
                best = action
            if cheapest < 0 or state.costs[action] < state.costs[cheapest]:
                cheapest = action
            if dearest < 0 or state.costs[action] > state.costs[dearest]:
                dearest = action
    if state.costs[best] == state.costs[cheapest]:
        best = dearest
    added = state.costs[best] - state.costs[cheapest]
    if added > 0.0:
        spending = state.spending
        ratio = (state.estimates[best] - state.estimates[cheapest]) / added
        spending[RATIOS] = min(spending[RATIOS] + 1.0, MOST_RATIOS)
        change = ratio - spending[MEAN]
        spending[MEAN] += change / spending[RATIOS]
        spending[SPREAD] += (change * (ratio - spending[MEAN]) - spending[SPREAD]) / spending[RATIOS]
        spending[DIFFERENCE] += (added - spending[DIFFERENCE]) / spending[RATIOS]


@inlined
def set_weight(state):
    """Set the weight by a proportional–integral controller with gains for a uniform distribution of the ratios."""
    spending, rule = state.spending, state.spending_rule
    if spending[RATIOS] == 0.0:
        return
    first = FIRST_SPREAD / spending[DIFFERENCE]
    spread = math.sqrt((spending[SPREAD] * spending[RATIOS] + first * first) / (spending[RATIOS] + 1.0))
    scale = RANGE_OF_SPREAD * spread / spending[DIFFERENCE]  # change of the weight that saves one cost per decision
    time = min(max(TIME_SHARE * spending[DECISIONS], LEAST_TIME), rule[MOST_TIME])
    highest = max(spending[MEAN], 0.0) + MOST_SPREADS * spread
    integral = spending[INTEGRAL] + scale * spending[AHEAD] / (time * time)
    spending[INTEGRAL] = min(max(integral, 0.0), highest)
    spending[WEIGHT] = max(spending[INTEGRAL] + 2.0 * DAMPING * scale * spending[AHEAD] / time, 0.0)
