"""Synthetic streams with known expected rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from releaf.arrays import Matrix
from releaf.streams.data_files import min_max_scale
from releaf.streams.stream import Stream

DRAFT_RELEVANCE = (3, 3, 6, 9, 12)  # relevant feature of each action, counted from 1
_erf = np.vectorize(math.erf, otypes=[float])


def draft(steps: int = 50_000, seed: int = 0) -> Stream:
    """The synthetic stream of the paper's draft: 12 features, and 5 actions that depend on one feature each.

    Contexts are normal, independent, and scaled to [0, 1] by one minimum and maximum of all features, as the means of
    the draft's single actions tell: they are within 0.005 of one another. The reward of an action is normal around its
    relevant feature with standard deviation 0.3 (the draft says "N(x, 0.3)"), cut off at 0 and 1, since rewards must
    be in [0, 1]; ``expected`` is what the cut leaves on average.
    """
    generator = np.random.default_rng(seed)
    contexts = _scale_jointly(generator.normal(size=(steps, 12)))
    centres = contexts[:, [feature - 1 for feature in DRAFT_RELEVANCE]]
    rewards = np.clip(generator.normal(centres, 0.3), 0.0, 1.0)
    names = tuple(f"x{index}" for index in range(1, 13))
    return Stream(contexts, rewards, names, tuple(range(1, 6)), _clipped_normal_mean(centres, 0.3))


def _scale_jointly(values: Matrix) -> Matrix:
    """Values scaled to [0, 1] by the minimum and maximum of the whole matrix."""
    return min_max_scale(values.reshape(-1)).reshape(values.shape)  # type: ignore[no-any-return]


def _clipped_normal_mean(centres: Matrix, deviation: float) -> Matrix:
    """E[min(max(N(m, s), 0), 1)]."""
    low, high = -centres / deviation, (1.0 - centres) / deviation
    below, above = (0.5 * (1.0 + _erf(z / math.sqrt(2.0))) for z in (low, high))
    density_low, density_high = (np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) for z in (low, high))
    mean: Matrix = centres * (above - below) + deviation * (density_low - density_high) + (1.0 - above)
    return mean


def lemma1(steps: int = 100_000, seed: int = 0) -> Stream:
    """The process of Lemma 1, on which a learner that judges features separately has linear regret.

    The expected reward of action a is 0.5; that of b is x_j, which is 1 in 80 % of the steps and 0 in the others. x_i
    is constant, so that by x_i alone b has an expected reward of 0.8, although it is 0 if x_j = 0.
    """
    generator = np.random.default_rng(seed)
    x_j = (generator.random(steps) < 0.8).astype(np.float64)
    expected = np.column_stack([np.full(steps, 0.5), x_j])
    rewards = (generator.random((steps, 2)) < expected).astype(np.float64)
    return Stream(np.column_stack([np.full(steps, 0.3), x_j]), rewards, ("x_i", "x_j"), ("a", "b"), expected)


def generate(
    steps: int = 10_000,
    *,
    features: int = 10,
    actions: int = 3,
    relevant: Sequence[Sequence[int]] | None = None,
    gamma_rel: int = 1,
    lipschitz: float = 1.0,
    noise: float = 0.1,
    shape: Literal["wave", "line"] = "wave",
    drift: Literal["none", "abrupt", "gradual"] = "none",
    changes: int = 1,
    problem: int | None = None,
    seed: int = 0,
) -> Stream:
    """A stream with a given relevance relation and known expected rewards.

    Contexts are uniform. The expected reward of an action is a wave of slope ±L along some direction of its relevant
    features, so it is Lipschitz with constant L and depends on them together; or a straight line. The reward is uniform
    around it.

    Parameters
    ----------
    steps, features, actions
        T, D and A.
    relevant
        For each action its relevant features, counted from 0; drawn at random when None.
    gamma_rel
        Number of relevant features per action (γ_rel), if they are drawn.
    lipschitz
        How fast expected rewards change (L).
    noise
        How far a reward may be from its expectation, at most 0.5.
    shape
        "wave": a triangle wave, which a linear model may miss altogether; "line": linear in the relevant features,
        with the slope L, or the steepest at which rewards stay between 0 and 1.
    drift
        "abrupt": relevance and waves are drawn anew ``changes`` times, at equal distances; "gradual": they pass over
        into the next, little by little, all the time.
    changes
        Number of changes.
    problem
        A seed for relevance and waves alone: streams of the same ``problem`` and ``relevant`` have the same expected
        rewards as functions of the relevant features, whatever their other features and seeds. From ``seed`` when None.
    seed
        For everything else that is random.

    Examples
    --------
    >>> stream = generate(1_000, features=4, relevant=[[0], [2]], actions=2)
    >>> bool(abs(stream.rewards - stream.expected).max() <= 0.1)
    True
    """
    if not 0.0 <= noise <= 0.5:
        raise ValueError(f"noise must be from 0 to 0.5, got noise={noise!r}")
    if shape not in ("wave", "line"):
        raise ValueError(f"shape must be 'wave' or 'line', got shape={shape!r}")
    if drift not in ("none", "abrupt", "gradual"):
        raise ValueError(f"drift must be 'none', 'abrupt' or 'gradual', got drift={drift!r}")
    if relevant is not None and len(relevant) != actions:
        raise ValueError(f"relevant must have the features of each of the {actions} actions, got {relevant!r}")
    generator = np.random.default_rng(seed)
    contexts = generator.random((steps, features))
    model_generator = generator if problem is None else np.random.default_rng(problem)
    epochs = 1 if drift == "none" else changes + 1
    models = []
    for epoch in range(epochs):
        chosen = relevant if relevant is not None and (epoch == 0 or drift == "none") else None
        slope = lipschitz / (1.0 - 2.0 * noise or 1.0)
        models.append(_reward_model(contexts, actions, chosen, gamma_rel, slope, shape, model_generator))
    expected = noise + (1.0 - 2.0 * noise) * _blend(models, drift)
    rewards = expected + generator.uniform(-noise, noise, expected.shape)
    names = tuple(f"x{index}" for index in range(features))
    return Stream(contexts, np.clip(rewards, 0.0, 1.0), names, tuple(range(actions)), expected)


def _reward_model(
    contexts: Matrix,
    actions: int,
    relevant: Sequence[Sequence[int]] | None,
    gamma: int,
    slope: float,
    shape: str,
    generator: np.random.Generator,
) -> Matrix:
    """For each action a wave or a line between 0 and 1 along a direction of its relevant features (T × A)."""
    columns = []
    for action in range(actions):
        indices = (
            relevant[action] if relevant is not None else generator.choice(contexts.shape[1], gamma, replace=False)
        )
        direction = generator.choice([-1.0, 1.0], len(indices)) / math.sqrt(len(indices))
        phase = generator.uniform(0.0, 2.0)
        chosen = contexts[:, list(indices)]
        if shape == "line":
            steepest = 1.0 / np.abs(direction).sum()
            columns.append(0.5 + min(slope, steepest) * ((chosen - 0.5) @ direction))
        else:
            turned = np.mod(slope * chosen @ direction + phase, 2.0)
            columns.append(np.minimum(turned, 2.0 - turned))
    return np.column_stack(columns)


def _blend(models: list[Matrix], drift: str) -> Matrix:
    """Expected rewards of each step under drift, abrupt or gradual."""
    steps = len(models[0])
    if len(models) == 1:
        return models[0]
    if drift == "abrupt":
        epoch = np.minimum(np.arange(steps) * len(models) // steps, len(models) - 1)
        return np.stack(models)[epoch, np.arange(steps)]
    position = np.linspace(0.0, len(models) - 1, steps)
    before = np.minimum(position.astype(int), len(models) - 2)
    share = (position - before)[:, None]
    stacked, rows = np.stack(models), np.arange(steps)
    blended: Matrix = (1.0 - share) * stacked[before, rows] + share * stacked[before + 1, rows]
    return blended
