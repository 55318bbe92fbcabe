"""Streams of the catalogue's data sets, and which of them are on this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from benchmarks.quality.catalogue import BY_NAME, CATALOGUE
from benchmarks.quality.problems import Problem, order, problem_of_table
from benchmarks.quality.sources import Absent

__all__ = ["Size", "present", "size", "stream"]


@lru_cache(maxsize=4)
def _problem(name: str) -> Problem:
    """The rows of a table, in its own order."""
    read = BY_NAME[name].read
    assert read is not None
    return problem_of_table(read())


@lru_cache(maxsize=4)
def stream(name: str, seed: int, shuffled: bool = True) -> Problem:
    """A data set's steps for a seed. A table is shuffled anew for each seed; what is generated is drawn anew.

    Without ``shuffled``, the rows come in the table's own order.
    """
    draw = BY_NAME[name].draw
    if draw is not None:
        return draw(seed)
    whole = _problem(name)
    return whole.taken(order(len(whole), seed if shuffled else None))


def examples(name: str, steps: int) -> int:
    """The number of different rows among so many steps."""
    return steps if BY_NAME[name].draw else min(len(_problem(name)), steps)


@dataclass(frozen=True)
class Size:
    """A data set on this machine; the digest tells its contents from others of the same name."""

    steps: int
    features: int
    categorical: int
    columns: int  # one-hot
    actions: int
    missing: bool
    examples: int  # different rows among the steps
    regret: bool  # measured against expected rewards, where they are known
    digest: str

    @property
    def passes(self) -> bool:
        """Whether there are several passes over the same rows."""
        return self.examples < self.steps


def size(name: str) -> Size:
    """Measured on the stream of seed 0."""
    first = stream(name, 0)
    content = first.encoded().tobytes() + first.rewards.tobytes()
    features = first.schema.features
    return Size(
        steps=len(first),
        features=len(features),
        categorical=sum(feature.categories > 0 for feature in features),
        columns=first.onehot.shape[1],
        actions=len(first.actions),
        missing=bool(np.isnan(first.contexts).any()),
        examples=examples(name, len(first)),
        regret=first.expected is not None,
        digest=hashlib.sha256(content).hexdigest()[:12],
    )


def present(splits: Collection[str], wanted: Collection[str] | None = None) -> tuple[dict[str, Size], list[str]]:
    """The data sets of some parts of the split that are on this machine, and a line for each that is not.

    Parameters
    ----------
    splits
        Parts of the split.
    wanted
        Names of some data sets; all when None.
    """
    unknown = [name for name in wanted or () if name not in BY_NAME or BY_NAME[name].split not in splits]
    if unknown:
        raise SystemExit(f"RELEAF_QUALITY_DATA: {unknown[0]!r} is not a data set of the {' or '.join(splits)} part")
    sizes, absent = {}, []
    for data in CATALOGUE:
        if data.split in splits and (wanted is None or data.name in wanted):
            try:
                sizes[data.name] = size(data.name)
            except Absent as error:
                absent.append(f"{data.name} is left out: {error}")
    return sizes, absent
