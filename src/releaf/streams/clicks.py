"""A generated click log: user features in the form of Yahoo!'s front page log, and clicks from a known model."""

from __future__ import annotations

import numpy as np

from releaf.arrays import Matrix
from releaf.streams.stream import Stream

USER_FEATURES = tuple(f"user_{index}" for index in range(1, 6))
ARTICLES = ("article a", "article b", "article c", "article d", "article e")
# The features that each article's click rate depends on, counted from 0. Those of a and b are the two that the paper's
# table of relevance has first for its webpages a and b.
CLICK_RELEVANCE = ((2, 0), (1, 0), (4,), (3,), (0,))
_CONCENTRATION = 0.5  # below 1, most users belong to one or two of the five clusters; our choice


def click_rates(users: Matrix) -> Matrix:
    """The probability that each user (T × 5 features) clicks on each article (T × 5).

    The curves are of several shapes (straight, concave, a step, convex, falling), so that no method's model is right
    for all of them.
    """
    first, second, third, fourth, fifth = users.T
    return np.column_stack(
        [
            0.02 + 0.08 * third + 0.03 * first,
            0.02 + 0.07 * np.sqrt(second) + 0.03 * first,
            0.03 + 0.06 * (fifth > 0.4),
            0.02 + 0.09 * fourth**2,
            0.06 - 0.05 * first,
        ]
    )


def clicks(steps: int = 10_000, seed: int = 0) -> Stream:
    """A generated stream of front-page visits: which of five articles to recommend, rewarded by a click.

    Visitors have the form of Yahoo!'s: five features in [0, 1] that sum to one. They are drawn from a Dirichlet
    distribution, not from Yahoo!'s users. The probability of a click on each article depends on one or two features,
    and is a few per cent, as in the paper. Unlike in a log, the click on every article is known, and so is its
    probability: ``expected`` tells the click-through rate of any decisions without the noise of rare clicks.

    Parameters
    ----------
    steps
        Number of visits; the paper has 10,000.
    seed
        Seed of the visitors and their clicks; the articles are always the same.

    Examples
    --------
    >>> visits = clicks(1_000)
    >>> visits
    Stream(1,000 steps, 5 actions)
    >>> bool(0.06 < visits.expected.max(axis=1).mean() < 0.09)
    True
    """
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got steps={steps!r}")
    generator = np.random.default_rng(seed)
    users = generator.dirichlet(np.full(len(USER_FEATURES), _CONCENTRATION), steps)
    expected = click_rates(users)
    clicked = (generator.random(expected.shape) < expected).astype(np.float64)
    return Stream(users, clicked, USER_FEATURES, ARTICLES, expected)
