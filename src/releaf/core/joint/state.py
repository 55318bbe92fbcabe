"""State of the policies that learn one regression for all actions."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from releaf.arrays import Array
from releaf.core.joint.columns import CURVE, FEATURE, KIND, LINE, columns_of
from releaf.core.joint.slates import POOL, SLATE
from releaf.core.runtime.primitives import CLOCK_LENGTH, new_clock
from releaf.core.runtime.state import LearnerState, constant, learnt, scratch

# numbers: rewards learnt, sum of their squared residuals of zero, variance of a reward, variance of the effects of
# actions, and the number of rewards from which on a fit is due
REWARDS, SQUARES, VARIANCE, EFFECT_VARIANCE, NEXT = range(5)
FIRST_VARIANCE, FIRST_EFFECT_VARIANCE, FIRST_FIT = 0.15, 0.01, 8.0
MOST_DEGREE = 3  # of a cross: all but that of two curves
CONSTANT_PRECISION = 5.0
GROUP_PRECISION = 8.0  # times the root of the number of groups: prior precision of a term
CONSTANT = -1  # group of the constant term


class Terms(NamedTuple):
    """Terms of the regression: products of a column of the context and one of the action.

    They are in the order of the action's columns; ``blocks`` has the first term of each, and the number of terms.
    ``groups`` names the features of a term, those of the action after those of the context, -1 for none.
    """

    context: Array
    action: Array
    group: Array
    blocks: Array
    groups: list[tuple[int, int]]


def terms_of(contexts: Array, actions: Array, crosses: Collection[tuple[int, int]] | None) -> Terms:
    """Terms of these columns: main effects, and crosses of these pairs of features, or of all."""
    degrees = {LINE: 1, CURVE: 2}
    rows, blocks, groups = [], [0], dict[tuple[int, int], int]()
    for j, own in enumerate(actions.tolist()):
        for i, other in enumerate(contexts.tolist()):
            pair = (other[FEATURE], own[FEATURE])
            degree = degrees.get(own[KIND], 0) + degrees.get(other[KIND], 0)
            if min(pair) >= 0 and (degree > MOST_DEGREE or (crosses is not None and pair not in crosses)):
                continue
            group = CONSTANT if max(pair) < 0 else groups.setdefault(pair, len(groups))
            rows.append((i, j, group))
        blocks.append(len(rows))
    columns = np.array(rows, dtype=np.int64).T
    return Terms(columns[0], columns[1], columns[2], np.array(blocks, dtype=np.int64), list(groups))


class Scores(LearnerState):
    """Scores of the eligible actions, and the slate of a decision.

    ``bonuses``, ``inclusions`` and ``firsts`` are by place in the ``pool``, the eligible actions in order; so are
    ``estimates`` within a decision, and by action after it. ``profiles`` are the columns of the actions.
    """

    clock: Array = learnt(np.int64, CLOCK_LENGTH)
    params: Array = constant(np.float64, "parameters")
    limits: Array = constant(np.float64, "features")
    layout_of_context: Array = constant(np.int64, "context columns", 4)
    term_context: Array = constant(np.int64, "terms")
    term_action: Array = constant(np.int64, "terms")
    blocks: Array = constant(np.int64, "block ends")
    profiles: Array = learnt(np.float64, "actions", "action columns")
    latest: Array = learnt(np.int64, "actions", least=0)  # the decision for which it was eligible last
    columns: Array = scratch(np.float64, "context columns")
    eligible: Array = scratch(np.uint8, "actions")
    pool: Array = scratch(np.int64, "actions")
    sizes: Array = scratch(np.int64, 2)
    estimates: Array = scratch(np.float64, "actions")
    bonuses: Array = scratch(np.float64, "actions")
    candidates: Array = scratch(np.int64, "actions")
    heap: Array = scratch(np.float64, "actions")
    slate: Array = scratch(np.int64, "actions")
    inclusions: Array = scratch(np.float64, "actions")
    firsts: Array = scratch(np.float64, "actions")
    chance: Array = scratch(np.float64, 1)


class Joint(Scores):
    """State of the joint regression.

    ``gram`` (its lower half) and ``moment`` are XᵀX and Xᵀy of the rewards, less the effects of actions; ``covariance``
    and ``weights`` the posterior. ``seen`` are sums of a context's columns and of their squares. Of each action:
    number and sum of its rewards, sum of their contexts' columns, and its effect.
    """

    group: Array = constant(np.int64, "terms")
    precisions: Array = learnt(np.float64, "groups", least=0.0)
    numbers: Array = learnt(np.float64, 5, least=0.0)
    gram: Array = learnt(np.float64, "terms", "terms")
    moment: Array = learnt(np.float64, "terms")
    covariance: Array = learnt(np.float64, "terms", "terms")
    weights: Array = learnt(np.float64, "terms")
    seen: Array = learnt(np.float64, 2, "context columns")
    counts: Array = learnt(np.float64, "actions", least=0.0)
    sums: Array = learnt(np.float64, "actions")
    context_sums: Array = learnt(np.float64, "actions", "context columns")
    effects: Array = learnt(np.float64, "actions")
    row: Array = scratch(np.float64, "terms")
    push: Array = scratch(np.float64, "terms")
    mean: Array = scratch(np.float64, "action columns")
    spread: Array = scratch(np.float64, "action columns", "action columns")
    block: Array = scratch(np.float64, "action columns", 64)


class JointSettings(NamedTuple):
    """What a new state is made of."""

    seed: int | None
    limits: Array
    categories: list[int]
    action_limits: Array
    action_categories: list[int]
    degree: int
    crosses: Collection[tuple[int, int]] | None
    params: tuple[float, ...]

    def action_layout(self) -> Array:
        return columns_of(self.action_limits, self.action_categories, self.degree)

    def terms(self) -> Terms:
        layout = columns_of(self.limits, self.categories, self.degree)
        return terms_of(layout, self.action_layout(), self.crosses)


def first_precision(groups: int) -> float:
    """Prior precision of a term's weight before the first fit."""
    return GROUP_PRECISION * math.sqrt(max(groups, 1))


def new_scores(settings: JointSettings, profiles: Array, terms: Terms) -> dict[str, Array]:
    """Arrays of ``Scores`` for actions with these columns, all of them eligible."""
    actions = len(profiles)
    layout = columns_of(settings.limits, settings.categories, settings.degree)
    sizes = np.zeros(2, dtype=np.int64)
    sizes[POOL], sizes[SLATE] = actions, 1
    return {
        "clock": new_clock(settings.seed),
        "params": np.array(settings.params),
        "limits": settings.limits,
        "layout_of_context": layout,
        "term_context": terms.context,
        "term_action": terms.action,
        "blocks": terms.blocks,
        "profiles": profiles,
        "latest": np.zeros(actions, dtype=np.int64),
        "columns": np.zeros(len(layout)),
        "eligible": np.ones(actions, dtype=np.uint8),
        "pool": np.arange(actions),
        "sizes": sizes,
        "candidates": np.zeros(actions, dtype=np.int64),
        "slate": np.zeros(actions, dtype=np.int64),
        "chance": np.zeros(1),
        **{name: np.zeros(actions) for name in ("estimates", "bonuses", "heap", "inclusions", "firsts")},
    }


def new_joint(settings: JointSettings, profiles: Array) -> Joint:
    """Initial state for actions with these columns."""
    terms = settings.terms()
    count, (actions, width) = len(terms.group), profiles.shape
    scores = new_scores(settings, profiles, terms)
    contexts = len(scores["columns"])
    groups = max(len(terms.groups), 1)
    precisions = np.full(groups, first_precision(groups))
    prior = np.where(terms.group == CONSTANT, CONSTANT_PRECISION, precisions[terms.group])
    numbers = np.zeros(5)
    numbers[VARIANCE], numbers[EFFECT_VARIANCE], numbers[NEXT] = FIRST_VARIANCE, FIRST_EFFECT_VARIANCE, FIRST_FIT
    return Joint(
        **scores,
        group=terms.group,
        precisions=precisions,
        numbers=numbers,
        gram=np.zeros((count, count)),
        moment=np.zeros(count),
        covariance=np.diag(1.0 / prior),
        weights=np.zeros(count),
        seen=np.zeros((2, contexts)),
        counts=np.zeros(actions),
        sums=np.zeros(actions),
        context_sums=np.zeros((actions, contexts)),
        effects=np.zeros(actions),
        row=np.zeros(count),
        push=np.zeros(count),
        mean=np.zeros(width),
        spread=np.zeros((width, width)),
        block=np.zeros((width, 64)),
    )
