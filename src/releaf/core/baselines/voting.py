"""Weighted votes of base classifiers, and the rules that learn the weights."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numpy as np

from releaf.arrays import Array
from releaf.core.baselines.design_matrix import dot, lay_out
from releaf.core.runtime.entry_points import EntryPoints, learn_nothing
from releaf.core.runtime.jit import entry_point, inlined
from releaf.core.runtime.primitives import CLOCK_LENGTH, USED, argmax, best_eligible, new_clock
from releaf.core.runtime.state import LearnerState, constant, learnt, scratch

PENALTY, SHARE = 0, 1  # fields of params: ln β, and α of fixed share
UNKNOWN = -1e18  # score of an action that a base classifier was not trained for
HALF, THREE_HALVES = math.log(0.5), math.log(1.5)
TIE = 1e-9  # errors that differ by less are equal: how a sum was rounded must not decide between classifiers


class Votes(LearnerState):
    """Linear base classifiers and the weights of their votes.

    ``logs`` are logarithms of multiplicatively updated weights; ``window`` marks the classifiers that were right on
    the latest labels.
    """

    clock: Array = learnt(np.int64, CLOCK_LENGTH)
    params: Array = constant(np.float64, "parameters")
    limits: Array = constant(np.float64, "features")
    design: Array = constant(np.int64, "features", 3)
    coefficients: Array = learnt(np.float64, "experts", "actions", "columns")
    intercepts: Array = learnt(np.float64, "experts", "actions")
    weights: Array = learnt(np.float64, "experts", least=0)
    logs: Array = scratch(np.float64, "experts")
    window: Array = scratch(np.uint8, "window", "experts")
    columns: Array = scratch(np.float64, "columns")
    advice: Array = scratch(np.int64, "experts")
    right: Array = scratch(np.uint8, "experts")
    eligible: Array = scratch(np.uint8, "actions")
    estimates: Array = scratch(np.float64, "actions")
    chance: Array = scratch(np.float64, 1)


class MultiplicativeVotes(Votes):
    """Votes whose weights are learnt by multiplication."""

    logs: Array = learnt(np.float64, "experts")


class BoostedVotes(Votes):
    """Votes whose weights are learnt from a window of labels."""

    window: Array = learnt(np.uint8, "window", "experts")


def new_votes(
    state_class: type[Votes],
    seed: int | None,
    limits: Array,
    design: Array,
    coefficients: Array,
    intercepts: Array,
    *,
    actions: int,
    window: int,
    params: tuple[float, float],
) -> Votes:
    """Initial state with equal weights. Actions that the base classifiers were not trained for get no votes."""
    experts, known, width = coefficients.shape
    wider = np.zeros((experts, actions, width))
    wider[:, :known] = coefficients
    scores = np.full((experts, actions), UNKNOWN)
    scores[:, :known] = intercepts
    return state_class(
        clock=new_clock(seed),
        params=params,
        limits=limits,
        design=design,
        coefficients=wider,
        intercepts=scores,
        weights=np.ones(experts),
        logs=np.zeros(experts),
        window=np.zeros((window, experts)),
        columns=np.zeros(width),
        advice=np.zeros(experts),
        right=np.zeros(experts),
        eligible=np.ones(actions),
        estimates=np.zeros(actions),
        chance=np.ones(1),
    )


# --- the vote -------------------------------------------------------------------------------------------------


@inlined
def advise(state, context):
    """Predict with each base classifier: the eligible action with the highest score, the first on ties."""
    lay_out(state.design, context, state.columns)
    for expert in range(len(state.advice)):
        highest = -math.inf
        for action in range(state.coefficients.shape[1]):
            score = state.intercepts[expert, action] + dot(state.coefficients[expert, action], state.columns)
            if state.eligible[action] and score > highest:
                highest = score
                state.advice[expert] = action


@inlined
def count_votes(state):
    """Action with the most votes; writes each action's share of the votes to ``estimates``."""
    total = 0.0
    for action in range(len(state.estimates)):
        state.estimates[action] = 0.0
    for expert in range(len(state.advice)):
        state.estimates[state.advice[expert]] += state.weights[expert]
        total += state.weights[expert]
    for action in range(len(state.estimates)):
        state.estimates[action] /= total
    return best_eligible(state.estimates, state.eligible)


@inlined
def vote(state, context):
    advise(state, context)
    return 2 * count_votes(state)


@inlined
def mark_correct(state, context, rewards):
    """Mark the classifiers whose action has the highest reward of the eligible ones. Returns that reward."""
    advise(state, context)
    highest = rewards[best_eligible(rewards, state.eligible)]
    for expert in range(len(state.advice)):
        state.right[expert] = state.advice[expert] < len(rewards) and rewards[state.advice[expert]] == highest
    return highest


# --- weights of the votes ------------------------------------------------------------------------------------


@inlined
def weigh_by_logs(state):
    """Normalize the weights from their logarithms, without underflow."""
    highest = state.logs[argmax(state.logs)]
    total = 0.0
    for expert in range(len(state.logs)):
        state.weights[expert] = math.exp(state.logs[expert] - highest)
        total += state.weights[expert]
    for expert in range(len(state.logs)):
        state.weights[expert] /= total


@inlined
def learn_by_loss(state, context, step, rewards):
    """Learn by weighted majority, w ← w β^loss, and fixed share: each then shares α of its weight with the others."""
    mark_correct(state, context, rewards)
    for expert in range(len(state.logs)):
        reward = rewards[state.advice[expert]] if state.advice[expert] < len(rewards) else 0.0
        state.logs[expert] += state.params[PENALTY] * (1.0 - reward)
    weigh_by_logs(state)
    share, experts = state.params[SHARE], len(state.logs)
    if share > 0.0 and experts > 1:
        for expert in range(experts):
            weight = state.weights[expert]
            state.weights[expert] = (1.0 - share) * weight + share * (1.0 - weight) / (experts - 1)
            state.logs[expert] = math.log(state.weights[expert])


@inlined
def learn_by_mistakes(state, context, step, rewards):
    """Learn by Blum's rule: only after a wrong vote, w ← w/2 for wrong classifiers, and 3w/2 for right ones."""
    highest = mark_correct(state, context, rewards)
    chosen = count_votes(state)
    if chosen < len(rewards) and rewards[chosen] == highest:
        return
    for expert in range(len(state.logs)):
        state.logs[expert] += THREE_HALVES if state.right[expert] else HALF
    weigh_by_logs(state)


@inlined
def boost_weights(right, rows, actions, weights):
    """Compute AdaBoost weights of given classifiers from a table of correct predictions.

    In each round the remaining classifier with the smallest weighted error ε gets ½ (ln((1-ε)/ε) + ln(A-1)), and the
    rows that it got wrong gain weight, until the remaining ones are no better than chance. An ε of 0 counts as half a
    row. Of classifiers with equal ε, up to the rounding of sums, the first is taken.
    """
    experts = right.shape[1]
    for expert in range(experts):
        weights[expert] = 0.0
    share = np.full(rows, 1.0 / rows)
    for _ in range(experts):
        best, least = -1, 1.0 - 1.0 / actions
        for expert in range(experts):
            if weights[expert] == 0.0:
                error = 0.0
                for row in range(rows):
                    if right[row, expert] == 0:
                        error += share[row]
                if error < least - TIE:
                    best, least = expert, error
        if best < 0:
            break
        error = max(least, 0.5 / rows)
        gain = math.log((1.0 - error) / error) + math.log(actions - 1.0)
        weights[best] = 0.5 * gain
        reweigh(share, right, rows, best, math.exp(gain))


@inlined
def reweigh(share, right, rows, expert, factor):
    total = 0.0
    for row in range(rows):
        if right[row, expert] == 0:
            share[row] *= factor
        total += share[row]
    for row in range(rows):
        share[row] /= total


@inlined
def equalize_if_all_zero(weights):
    """Give all votes equal weights where no classifier is better than chance."""
    for weight in weights:
        if weight > 0.0:
            return
    for expert in range(len(weights)):
        weights[expert] = 1.0


@inlined
def known_actions(state):
    """Number of actions that the base classifiers were trained for."""
    known = 0
    for action in range(state.intercepts.shape[1]):
        trained = False
        for expert in range(len(state.intercepts)):
            trained = trained or state.intercepts[expert, action] > UNKNOWN
        known += trained
    return known


@inlined
def learn_by_boosting(state, context, step, rewards):
    """Learn by online AdaBoost: weights from the window of latest labels."""
    mark_correct(state, context, rewards)
    place = state.clock[USED] % len(state.window)
    state.clock[USED] += 1
    for expert in range(len(state.right)):
        state.window[place, expert] = state.right[expert]
    rows = min(state.clock[USED], len(state.window))
    boost_weights(state.window, rows, known_actions(state), state.weights)
    equalize_if_all_zero(state.weights)


@entry_point
def boost(right, actions, weights):
    """Compute AdaBoost weights from a table of correct predictions."""
    boost_weights(right, len(right), actions, weights)
    equalize_if_all_zero(weights)


FIXED = EntryPoints(vote, learn_nothing, Votes, rewards="none")
WEIGHTED_MAJORITY = EntryPoints(vote, learn_by_loss, MultiplicativeVotes, rewards="all")
BLUM = EntryPoints(vote, learn_by_mistakes, MultiplicativeVotes, rewards="all")
ONLINE_BOOSTING = EntryPoints(vote, learn_by_boosting, BoostedVotes, rewards="all")
