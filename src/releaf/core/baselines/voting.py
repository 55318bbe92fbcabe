"""Base classifiers that vote, and the ways to learn whose vote counts how much."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from releaf.core.baselines.design_matrix import dot, lay_out
from releaf.core.runtime.entry_points import Doors, learn_nothing
from releaf.core.runtime.jit import door, inner
from releaf.core.runtime.primitives import USED, Array, best_of, new_clock

PENALTY, SHARE = 0, 1  # params: ln β, and α of fixed share
UNKNOWN = -1e18  # the score of an action that a base classifier has never heard of
HALF, THREE_HALVES = math.log(0.5), math.log(1.5)


class Votes(NamedTuple):
    """Linear base classifiers, the weight of each one's vote, and what those weights rest on.

    ``logs`` are the logarithms of weights that are learnt by multiplying; ``window`` tells who was right of late.
    """

    clock: Array
    params: Array
    limits: Array
    design: Array
    coefficients: Array
    intercepts: Array
    weights: Array
    logs: Array
    window: Array
    columns: Array
    advice: Array
    right: Array
    estimates: Array
    chance: Array


def new_votes(
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
    """Votes that count alike. Actions beyond those that the base classifiers know get none."""
    experts, known, width = coefficients.shape
    wider = np.zeros((experts, actions, width))
    wider[:, :known] = coefficients
    scores = np.full((experts, actions), UNKNOWN)
    scores[:, :known] = intercepts
    return Votes(
        new_clock(seed),
        np.array(params),
        limits,
        design,
        wider,
        scores,
        np.ones(experts),
        np.zeros(experts),
        np.zeros((window, experts), dtype=np.uint8),
        np.zeros(width),
        np.zeros(experts, dtype=np.int64),
        np.zeros(experts, dtype=np.uint8),
        np.zeros(actions),
        np.ones(1),
    )


# --- the vote -------------------------------------------------------------------------------------------------


@inner
def advise(state, context):
    """The action that each base classifier predicts: the one it gives the highest score, the first on ties."""
    lay_out(state.design, context, state.columns)
    for expert in range(len(state.advice)):
        highest = -math.inf
        for action in range(state.coefficients.shape[1]):
            score = state.intercepts[expert, action] + dot(state.coefficients[expert, action], state.columns)
            if score > highest:
                highest = score
                state.advice[expert] = action


@inner
def count_votes(state):
    """The action with the most votes; each action's share of them goes to ``estimates``."""
    total = 0.0
    for action in range(len(state.estimates)):
        state.estimates[action] = 0.0
    for expert in range(len(state.advice)):
        state.estimates[state.advice[expert]] += state.weights[expert]
        total += state.weights[expert]
    for action in range(len(state.estimates)):
        state.estimates[action] /= total
    return best_of(state.estimates)


@inner
def vote(state, context):
    advise(state, context)
    return 2 * count_votes(state)


@inner
def judge(state, context, rewards):
    """Who was right: whose action has the highest reward. Returns it."""
    advise(state, context)
    highest = rewards[best_of(rewards)]
    for expert in range(len(state.advice)):
        state.right[expert] = state.advice[expert] < len(rewards) and rewards[state.advice[expert]] == highest
    return highest


# --- what each vote counts ------------------------------------------------------------------------------------


@inner
def weigh_by_logs(state):
    """Weights that add up to 1, of their logarithms, which may be far too small to be weights themselves."""
    highest = state.logs[best_of(state.logs)]
    total = 0.0
    for expert in range(len(state.logs)):
        state.weights[expert] = math.exp(state.logs[expert] - highest)
        total += state.weights[expert]
    for expert in range(len(state.logs)):
        state.weights[expert] /= total


@inner
def learn_by_loss(state, context, step, rewards):
    """Weighted majority: w ← w β^loss; and fixed share: each then passes α of its weight on to the others."""
    judge(state, context, rewards)
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


@inner
def learn_by_mistakes(state, context, step, rewards):
    """Blum: only when the vote was wrong, w ← w/2 for those who were wrong too, and 3w/2 for those who were right."""
    highest = judge(state, context, rewards)
    chosen = count_votes(state)
    if chosen < len(rewards) and rewards[chosen] == highest:
        return
    for expert in range(len(state.logs)):
        state.logs[expert] += THREE_HALVES if state.right[expert] else HALF
    weigh_by_logs(state)


@inner
def boost_weights(right, rows, actions, weights):
    """AdaBoost over given classifiers: who was right on each of so many rows makes the weights.

    In each round the one with the smallest weighted error ε of those left gets ½ (ln((1-ε)/ε) + ln(A-1)), and the
    rows that it got wrong gain weight accordingly, until those left are no better than chance. An ε of 0 counts as
    half a row.
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
                if error < least:
                    best, least = expert, error
        if best < 0:
            break
        error = max(least, 0.5 / rows)
        gain = math.log((1.0 - error) / error) + math.log(actions - 1.0)
        weights[best] = 0.5 * gain
        reweigh(share, right, rows, best, math.exp(gain))


@inner
def reweigh(share, right, rows, expert, factor):
    total = 0.0
    for row in range(rows):
        if right[row, expert] == 0:
            share[row] *= factor
        total += share[row]
    for row in range(rows):
        share[row] /= total


@inner
def or_alike(weights):
    """Where nobody is better than chance all votes count alike."""
    for weight in weights:
        if weight > 0.0:
            return
    for expert in range(len(weights)):
        weights[expert] = 1.0


@inner
def known_actions(state):
    """How many actions the base classifiers can vote for; those that were added later don't count."""
    known = 0
    for action in range(state.intercepts.shape[1]):
        heard_of = False
        for expert in range(len(state.intercepts)):
            heard_of = heard_of or state.intercepts[expert, action] > UNKNOWN
        known += heard_of
    return known


@inner
def learn_by_boosting(state, context, step, rewards):
    """Online AdaBoost: weights from who was right of late."""
    judge(state, context, rewards)
    place = state.clock[USED] % len(state.window)
    state.clock[USED] += 1
    for expert in range(len(state.right)):
        state.window[place, expert] = state.right[expert]
    rows = min(state.clock[USED], len(state.window))
    boost_weights(state.window, rows, known_actions(state), state.weights)
    or_alike(state.weights)


@door
def boost(right, actions, weights):
    """AdaBoost's weights from who was right on each row."""
    boost_weights(right, len(right), actions, weights)
    or_alike(weights)


FIXED = Doors(vote, learn_nothing, file=__file__, rewards="none")
WEIGHTED_MAJORITY = Doors(vote, learn_by_loss, file=__file__, rewards="all")
BLUM = Doors(vote, learn_by_mistakes, file=__file__, rewards="all")
ONLINE_BOOSTING = Doors(vote, learn_by_boosting, file=__file__, rewards="all")
