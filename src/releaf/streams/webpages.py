"""Webpage recommendation: the paper's Yahoo! front page log (R6A), and the Open Bandit Dataset."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from releaf.features import Categorical, Feature
from releaf.schema import Schema
from releaf.streams.data_files import DataError, find, open_text
from releaf.streams.stream import Log

Source = str | os.PathLike[str]
CAMPAIGNS = ("all", "men", "women")
_USER_FEATURES = ("2", "3", "4", "5", "6")  # feature 1 is always 1


class BrokenLineError(ValueError):
    """A malformed line of a log."""


class Visit(NamedTuple):
    """One event of the Yahoo! log: user features, pool of articles, displayed article, click."""

    time: int
    displayed: str
    clicked: bool
    user: tuple[float, ...]
    pool: tuple[str, ...]


def read_yahoo(path: Source, skip_bad: bool = False, skipped: list[int] | None = None) -> Iterator[Visit]:
    """Read the events of a Yahoo! R6A file line by line; the file may be of any size, gzipped or not.

    Parameters
    ----------
    path
        The file, which Yahoo! provides on request only.
    skip_bad
        Skip malformed lines; their numbers go to ``skipped``. Otherwise the first raises.
    skipped
        A list to which the numbers of skipped lines are appended.
    """
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield _visit(line)
            except (ValueError, KeyError, IndexError) as error:
                if not skip_bad:
                    raise BrokenLineError(f"{path}, line {number}: {error}") from None
                if skipped is not None:
                    skipped.append(number)


def _visit(line: str) -> Visit:
    head, user, *articles = line.split("|")
    fields = head.split()
    if len(fields) != 3 or fields[2] not in ("0", "1"):
        raise ValueError(f"expected a time, an article and a click, 0 or 1, got {head.strip()!r}")
    name, *pairs = user.split()
    values = dict(pair.split(":") for pair in pairs)
    lacking = [feature for feature in _USER_FEATURES if feature not in values]
    if name != "user" or lacking:
        raise ValueError(f"expected the user's features {', '.join(_USER_FEATURES)}, got {user.strip()!r}")
    numbers = tuple(float(values[feature]) for feature in _USER_FEATURES)
    if not all(0.0 <= number <= 1.0 for number in numbers):
        raise ValueError(f"expected user features from 0 to 1, got {user.strip()!r}")
    pool = tuple(article.split()[0] for article in articles)
    if fields[1] not in pool:
        raise ValueError(f"article {fields[1]} is displayed, but not in the pool")
    return Visit(int(fields[0]), fields[1], fields[2] == "1", numbers, pool)


def yahoo(path: Source, steps: int = 10_000, articles: int | Iterable[str] = 5, skip_bad: bool = False) -> Log:
    """Recommendations of a few articles, from a file of Yahoo!'s R6A data set.

    The log has the events whose pool contains all chosen articles and that display one of them. The articles of the
    front page change over time; the events of a few popular ones that overlap in time are the paper's "5 items".
    Displays were uniformly random, so each propensity is 1 / (number of articles).

    Parameters
    ----------
    path
        The file; read twice if the articles must be chosen, and never held in memory as a whole.
    steps
        Maximum number of events.
    articles
        Ids of the articles, or their number: the most displayed ones of the most frequent pool.
    skip_bad
        Skip malformed lines, and count them in ``skipped``.
    """
    skipped: list[int] = []
    chosen = _popular(path, articles, skip_bad) if isinstance(articles, int) else tuple(articles)
    contexts, taken, rewards = [], [], []
    for visit in read_yahoo(path, skip_bad, skipped):
        if visit.displayed in chosen and set(chosen) <= set(visit.pool):
            contexts.append(visit.user)
            taken.append(chosen.index(visit.displayed))
            rewards.append(float(visit.clicked))
            if len(taken) == steps:
                break
    if not taken:
        raise DataError(f"{path} displays none of the articles {', '.join(chosen)} while all of them are in the pool")
    probabilities = np.full(len(taken), 1.0 / len(chosen))
    names = tuple(f"user_{feature}" for feature in _USER_FEATURES)
    matrix = np.array(contexts).reshape(-1, len(names))
    return Log(matrix, np.array(taken, dtype=np.int64), np.array(rewards), probabilities, names, chosen, len(skipped))


def _popular(path: Source, count: int, skip_bad: bool) -> tuple[str, ...]:
    """The most displayed articles of the most frequent pool that has enough articles."""
    displays: Counter[str] = Counter()
    together: Counter[frozenset[str]] = Counter()
    for visit in read_yahoo(path, skip_bad):
        displays[visit.displayed] += 1
        together[frozenset(visit.pool)] += 1
    pools = [pool for pool, _ in together.most_common() if len(pool) >= count]
    if not pools:
        raise DataError(f"{path} has no pool of {count} articles")
    return tuple(sorted(sorted(pools[0], key=lambda article: -displays[article])[:count]))


def open_bandit(campaign: str = "all", items: int = 5) -> Log:
    """Recommendations of a few fashion items, from the random policy's sample of the Open Bandit Dataset.

    Each of the campaign's 10,000 displays shows one of some dozens of items at random. The items with the most clicks
    in the first half are chosen, and the log has their displays in the second half, so that the choice does not bias
    the click rates. All propensities are equal. Contexts are four hashed user features.

    Needs ``obd-random-*.csv.gz`` in ``$RELEAF_DATA``: the sample that the package ``obp`` carries (Saito et al. 2021).

    Parameters
    ----------
    campaign
        "all", "men" or "women".
    items
        Number of items.
    """
    if campaign not in CAMPAIGNS:
        raise ValueError(f"campaign must be one of {', '.join(map(repr, CAMPAIGNS))}, got campaign={campaign!r}")
    path = find(f"obd-random-{campaign}.csv.gz")
    if path is None:
        raise DataError(
            f"obd-random-{campaign}.csv.gz is in neither $RELEAF_DATA nor the cache: gzip obd/random/{campaign}/"
            f"{campaign}.csv of the package obp to it"
        )
    with open_text(path) as file:
        rows = list(csv.DictReader(file))
    half = len(rows) // 2
    clicks = Counter({row["item_id"]: 0 for row in rows[:half]})
    clicks.update(row["item_id"] for row in rows[:half] if row["click"] == "1")
    chosen = sorted(clicks, key=lambda item: (-clicks[item], int(item)))[:items]
    rows = [row for row in rows[half:] if row["item_id"] in chosen]
    names = [f"user_feature_{index}" for index in range(4)]
    features: dict[str, Feature] = {name: Categorical(sorted({row[name] for row in rows})) for name in names}
    return Log(
        [[row[name] for name in names] for row in rows],
        np.array([chosen.index(row["item_id"]) for row in rows], dtype=np.int64),
        np.array([float(row["click"]) for row in rows]),
        np.full(len(rows), 1.0 / len(chosen)),
        Schema(features),
        tuple(f"item {item}" for item in chosen),
    )
