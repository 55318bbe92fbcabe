"""The data sets, each as a bandit problem: one action for each class, 1 for the right one, 0 for the others.

Contexts are scaled to [0, 1] by the minimum and maximum of their column, the same for all methods. A table is
shuffled anew for each seed, and passed over again where it is small; what is generated is drawn anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from releaf import streams
from releaf.streams import Stream
from releaf.streams.data_files import min_max_scale

SMALL = 2_000  # steps that small tables are passed over again to reach
DRAWN = 5_000  # steps of what is generated
Make = Callable[[int], Stream]


@dataclass(frozen=True)
class DataSet:
    """A problem: what it is called, whose it is, and a stream of it for each seed."""

    name: str
    source: str
    make: Make
    passes: bool = False  # over the same rows several times

    def stream(self, seed: int) -> Stream:
        drawn = self.make(seed)
        return Stream(min_max_scale(drawn.contexts), drawn.rewards, drawn.features, drawn.actions, drawn.expected)


def _labelled(contexts: Any, labels: Iterable[Any], order: Any = slice(None)) -> Stream:
    """Rows in some order, with a reward of 1 for the action that is the row's label."""
    classes, places = np.unique(np.array(list(labels)), return_inverse=True)
    matrix = np.asarray(contexts, dtype=np.float64)
    rewards = np.eye(len(classes))[places]
    names = tuple(f"x{place}" for place in range(matrix.shape[1]))
    return Stream(matrix[order], rewards[order], names, tuple(range(len(classes))))


def _order(rows: int, seed: int, least: int = 0) -> Any:
    """Shuffled passes over all rows, as many as make about so many steps."""
    generator = np.random.default_rng(seed)
    return np.concatenate([generator.permutation(rows) for _ in range(max(1, round(least / rows)))])


def _sklearn(name: str, least: int = 0) -> Make:
    def make(seed: int) -> Stream:
        from sklearn import datasets

        table = getattr(datasets, f"load_{name}")()
        return _labelled(table.data, table.target, _order(len(table.data), seed, least))

    return make


def _river_rows(rows: Iterable[tuple[dict[Any, Any], Any]]) -> tuple[list[list[float]], list[Any]]:
    contexts, labels = zip(*rows, strict=True)
    return [[float(value) for value in context.values()] for context in contexts], list(labels)


def _river(name: str) -> Make:
    def make(seed: int) -> Stream:
        from river import datasets

        contexts, labels = _river_rows(getattr(datasets, name)())
        return _labelled(contexts, labels, _order(len(labels), seed))

    return make


def _generator(name: str, seeds: tuple[str, ...] = ("seed",), **arguments: Any) -> Make:
    def make(seed: int) -> Stream:
        from river.datasets import synth

        made = getattr(synth, name)(**dict.fromkeys(seeds, seed + 1), **arguments)
        return _labelled(*_river_rows(made.take(DRAWN)))

    return make


def _intrusion(seed: int) -> Stream:
    """The first 20,000 records, shuffled: in the file's order attacks come in runs of thousands."""
    records = streams.intrusion(20_000, scaled_by=20_000)
    order = _order(len(records), seed)
    return Stream(records.contexts[order], records.rewards[order], records.features, records.actions)


def _generate(**arguments: Any) -> Make:
    return lambda seed: streams.generate(DRAWN, seed=seed, **arguments)


SUITE = (
    DataSet("iris", "scikit-learn", _sklearn("iris", SMALL), passes=True),
    DataSet("wine", "scikit-learn", _sklearn("wine", SMALL), passes=True),
    DataSet("WDBC", "scikit-learn", _sklearn("breast_cancer", SMALL), passes=True),
    DataSet("digits", "scikit-learn", _sklearn("digits")),
    DataSet("phishing", "river", _river("Phishing")),
    DataSet("segments", "river", _river("ImageSegments")),
    DataSet("bananas", "river", _river("Bananas")),
    DataSet("Agrawal 0", "river", _generator("Agrawal")),
    DataSet("Agrawal 6", "river", _generator("Agrawal", classification_function=6)),
    DataSet("SEA", "river", _generator("SEA", noise=0.1)),
    DataSet("LED", "river", _generator("LED", noise_percentage=0.1, irrelevant_features=True)),
    DataSet("waveform", "river", _generator("Waveform")),
    DataSet("RBF", "river", _generator("RandomRBF", ("seed_model", "seed_sample"), n_classes=4)),
    DataSet("hyperplane", "river", _generator("Hyperplane")),
    DataSet("breast cancer", "releaf", lambda seed: streams.breast_cancer(10_000, seed, rows="complete"), passes=True),
    DataSet("intrusion", "releaf", _intrusion),
    DataSet("1 relevant", "releaf", _generate(gamma_rel=1)),
    DataSet("2 relevant", "releaf", _generate(gamma_rel=2)),
    DataSet("20 actions", "releaf", _generate(actions=20, gamma_rel=1)),
    DataSet("draft", "releaf", lambda seed: streams.draft(DRAWN, seed)),
)
BY_NAME = {data.name: data for data in SUITE}


@lru_cache(maxsize=4)
def stream(name: str, seed: int) -> Stream:
    """A data set's stream for a seed; the last few are kept, since many methods run over the same."""
    return BY_NAME[name].stream(seed)


@dataclass(frozen=True)
class Size:
    """What a data set amounts to on this machine; the digest tells its contents from others of the same name."""

    steps: int
    features: int
    actions: int
    regret: bool  # measured against known expectations, where there are such
    digest: str


def size(name: str) -> Size:
    """Measured on the stream of seed 0."""
    first = stream(name, 0)
    digest = hashlib.sha256(np.ascontiguousarray(first.contexts).tobytes() + first.rewards.tobytes()).hexdigest()[:12]
    steps, features = first.contexts.shape
    return Size(steps, features, len(first.actions), first.expected is not None, digest)


def present() -> tuple[dict[str, Size], list[str]]:
    """The data sets that are on this machine with their sizes, and for each that is not a line that says why."""
    sizes, absent = {}, []
    for data in SUITE:
        try:
            sizes[data.name] = size(data.name)
        except (ImportError, OSError, streams.DataError) as error:
            absent.append(f"{data.name} is left out: {error}")
    return sizes, absent
