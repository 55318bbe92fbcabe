"""Webpage recommendation: the Yahoo! front page log that the paper uses, and the Open Bandit Dataset in its place."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from releaf.features import Categorical, Feature
from releaf.schema import Schema
from releaf.streams.files import DataError, find, open_text
from releaf.streams.stream import Log

Source = str | os.PathLike[str]
CAMPAIGNS = ("all", "men", "women")
_USER_FEATURES = ("2", "3", "4", "5", "6")  # feature 1 is always 1


class BrokenLineError(ValueError):
    """A line that can't be read: which one, and why."""


class Visit(NamedTuple):
    """One event of the Yahoo! log: the user's features, the pool of articles, the one displayed, and the click."""

    time: int
    displayed: str
    clicked: bool
    user: tuple[float, ...]
    pool: tuple[str, ...]


def read_yahoo(path: Source, skip_bad: bool = False, skipped: list[int] | None = None) -> Iterator[Visit]:
    """The events of a file of Yahoo!'s R6A data set, line by line; the file may be of any size, gzipped or not.

    Parameters
    ----------
    path
        The file, which Yahoo! gives to those who ask for it only.
    skip_bad
        Leave out lines that can't be read; their numbers go to ``skipped``. Otherwise the first raises.
    skipped
        A list that takes up the numbers of the lines left out.
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

    Taken are the events in whose pool all the articles are, and that display one of them. Articles come and go; so
    the events of a few popular ones that overlap in time are the paper's "5 items". Each was displayed at random, so
    with probability 1 / (articles) among them.

    Parameters
    ----------
    path
        The file; read twice where articles must be found, never held in memory as a whole.
    steps
        How many of these events to take at most.
    articles
        Their numbers, or how many: those that were displayed most often of the pool that was up longest.
    skip_bad
        Leave out broken lines, and count them in ``skipped``.
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
    """The articles that were displayed most often within the pool that was up longest with enough of them."""
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

    The campaign's 10,000 displays show one of some dozens of items each, by chance. The items that were clicked most
    often in the first half are chosen; taken are their displays in the second half, so that the choice says nothing
    about the clicks. The items have equal probabilities among them. Contexts are four hashed features of the user.

    Needs ``obd-random-*.csv.gz`` in ``$RELEAF_DATA``: the sample that the package ``obp`` carries (Saito et al. 2021).

    Parameters
    ----------
    campaign
        "all", "men" or "women".
    items
        How many items to keep.
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
    names = [f"user_feature_{place}" for place in range(4)]
    features: dict[str, Feature] = {name: Categorical(sorted({row[name] for row in rows})) for name in names}
    return Log(
        [[row[name] for name in names] for row in rows],
        np.array([chosen.index(row["item_id"]) for row in rows], dtype=np.int64),
        np.array([float(row["click"]) for row in rows]),
        np.full(len(rows), 1.0 / len(chosen)),
        Schema(features),
        tuple(f"item {item}" for item in chosen),
    )
