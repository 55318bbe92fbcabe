"""A click log with planted relevance: the file that `releaf sample` writes, and the truth behind it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from releaf.arrays import Array, Matrix

ACTIONS = ("news", "sport", "travel", "deals")
CITIES = (
    *("Aalen", "Albi", "Annecy", "Arles", "Bath", "Bergen", "Bonn", "Bremen", "Brno", "Cadiz", "Cork", "Davos"),
    *("Delft", "Derby", "Dublin", "Faro", "Gdansk", "Genoa", "Ghent", "Graz", "Leeds", "Lille", "Linz", "Lodz"),
    *("Lucca", "Lyon", "Malmo", "Mons", "Nice", "Oulu", "Parma", "Pisa", "Porto", "Split", "Turku", "York"),
)
PORTS = frozenset(("Bergen", "Bremen", "Cadiz", "Cork", "Dublin", "Faro", "Gdansk", "Genoa", "Malmo", "Nice", "Split"))
DEVICES = ("phone", "desktop", "tablet")
# The columns that the chance of a reward depends on, the strongest first; "at" by its hour or weekday.
RELEVANT = {
    "news": ("at: hour", "returning"),
    "sport": ("at: weekday", "age"),
    "travel": ("city",),
    "deals": ("basket", "device"),
}
START = np.datetime64("2025-01-01T00:00:00")
DAYS = 364  # whole weeks
MISSING = {"age": 0.06, "basket": 0.04}  # share of missing values, which are lost by chance
NO_FEATURES = ("visit", "action", "reward", "probability")


class PlantedLog(NamedTuple):
    """A log of decisions with known truth.

    Attributes
    ----------
    columns
        The values of each column: visit (an identifier), at, city, device, age, basket, earlier_visits, returning,
        action, reward and probability (the propensity of the action).
    actions
        Names of the actions.
    expected
        The probability of a reward in each row (rows × actions), which a log of one's own does not have.
    relevant
        For each action, the features that this probability depends on, the strongest first.
    """

    columns: dict[str, Array]
    actions: tuple[str, ...]
    expected: Matrix
    relevant: dict[str, tuple[str, ...]]

    @property
    def contexts(self) -> list[dict[str, Any]]:
        """What is known before each decision, as `decide` and `learn_log` take it; None for a missing value."""
        names = [name for name in self.columns if name not in NO_FEATURES]
        columns = [plain_values(self.columns[name]) for name in names]
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def planted_log(rows: int = 20_000, seed: int = 0) -> PlantedLog:
    """Generate a year of visits to a page that shows one of four teasers, rewarded by a click.

    What is planted: a click on *news* depends on the hour of the visit and on whether the visitor returns, on *sport*
    on the day of the week and on age, on *travel* on the city, on *deals* on the basket's value and on the device.
    Nothing else matters. Each value adds to the chance of a click by itself. The logging policy is random, with
    propensities from 0.17 to 0.43 that depend on the device and on whether the visitor returns. Some values of age
    and basket are missing.

    Parameters
    ----------
    rows
        Number of visits. From 10,000 on, AdaptiveReleaf finds what is planted.
    seed
        Seed of the visits, the actions shown and the clicks. What is planted is always the same.

    Examples
    --------
    >>> log = planted_log(1_000)
    >>> log.relevant["sport"]
    ('at: weekday', 'age')
    >>> bool(0.1 < log.columns["reward"].mean() < log.expected.max(axis=1).mean())
    True
    """
    if rows < 1:
        raise ValueError(f"rows must be at least 1, got rows={rows!r}")
    generator = np.random.default_rng(seed)
    visits = _visits(rows, generator)
    expected, chances = _click_rates(visits), _propensities(visits)
    taken = np.minimum((chances.cumsum(axis=1) <= generator.random((rows, 1))).sum(axis=1), len(ACTIONS) - 1)
    row = np.arange(rows)
    clicked = (generator.random(rows) < expected[row, taken]).astype(np.int64)
    for name, share in MISSING.items():
        visits[name] = np.where(generator.random(rows) < share, np.nan, visits[name])
    decided = {"action": np.array(ACTIONS)[taken], "reward": clicked, "probability": chances[row, taken].round(6)}
    return PlantedLog({**visits, **decided}, ACTIONS, expected, dict(RELEVANT))


def plain_values(column: Array) -> list[Any]:
    """The values of a column as Python's, None for missing ones."""
    return [None if value != value else value for value in column.tolist()]


def _visits(rows: int, generator: np.random.Generator) -> dict[str, Array]:
    """The visits in the order of their times: all that is known before the decision."""
    seconds = np.sort(generator.integers(0, DAYS * 86_400, rows))
    popularity = 1 / np.arange(1, len(CITIES) + 1) ** 0.5
    order = np.random.default_rng(0).permutation(len(CITIES))  # of the cities by size, the same for every seed
    return {
        "visit": np.array([f"v{number:07}" for number in range(1, rows + 1)]),
        "at": START + seconds.astype("timedelta64[s]"),
        "city": np.array(CITIES)[order][generator.choice(len(CITIES), rows, p=popularity / popularity.sum())],
        "device": generator.choice(DEVICES, rows, p=(0.55, 0.35, 0.1)),
        "age": generator.integers(16, 85, rows).astype(np.float64),
        "basket": np.exp(generator.normal(3.2, 0.7, rows)).round(2),
        "earlier_visits": generator.poisson(4, rows),
        "returning": generator.random(rows) < 0.5,
    }


def _click_rates(visits: dict[str, Array]) -> Matrix:
    """The probability that each visitor clicks on each teaser: a step, a slope, categories and a curve."""
    seconds = (visits["at"] - START).astype(np.int64)
    hour, day = seconds // 3_600 % 24, seconds // 86_400
    weekend = (day + 2) % 7 >= 5  # the first day is a Wednesday
    return np.column_stack(
        [
            0.04 + 0.34 * ((hour >= 6) & (hour < 11)) + 0.14 * visits["returning"],
            0.04 + 0.26 * weekend + 0.24 * (85 - visits["age"]) / 69,
            0.04 + 0.34 * np.isin(visits["city"], list(PORTS)),
            0.04 + 0.34 / (1 + np.exp((visits["basket"] - 25) / 4)) + 0.18 * (visits["device"] == "desktop"),
        ]
    )


def _propensities(visits: dict[str, Array]) -> Matrix:
    """The probability with which the logging policy shows each teaser to each visitor."""
    scores = np.zeros((len(visits["at"]), len(ACTIONS)))
    scores[:, 1] = 0.8 * (visits["device"] == "phone")
    scores[:, 2] = 0.6 * visits["returning"]
    scores[:, 3] = 0.6 * (visits["device"] == "desktop")
    chances = np.exp(scores)
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))
