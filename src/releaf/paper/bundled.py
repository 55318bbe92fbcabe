"""Tables of several classes that installed packages carry in themselves, as streams."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from releaf.arrays import Array
from releaf.streams import DataError, Stream, table

PACKAGES = {"wine": "sklearn", "segments": "river"}  # what carries each table


def bundled(name: str, steps: int = 10_000, seed: int = 0) -> Stream:
    """Rows of a table one by one, in which the right class earns 1; all rows come equally often, up to one.

    Parameters
    ----------
    name
        "wine": 178 wines of three cultivars, by 13 measurements, which scikit-learn carries; "segments": 2,310 regions
        of outdoor images, which show brick, sky, foliage, …, by 18 measurements, which river carries.
    steps
        How many rows.
    seed
        For their order.

    Examples
    --------
    >>> bundled("wine", 1_000)
    Stream(1,000 steps, 3 actions)
    """
    import pyarrow

    values, classes, features = load(name)
    order = np.random.default_rng(seed).permutation(np.arange(steps) % len(values))
    columns = {feature: values[order, index] for index, feature in enumerate(features)}
    return table(pyarrow.table({**columns, "class": classes[order]}), label="class")


def available() -> list[str]:
    """Names of the tables whose package is installed."""
    return [name for name, package in PACKAGES.items() if find_spec(package) is not None]


def load(name: str) -> tuple[Array, Array, list[str]]:
    """The values (rows × features), the class of each row, and the names of the features."""
    if name not in PACKAGES:
        raise ValueError(f"name is {name!r}: expected one of {', '.join(PACKAGES)}")
    if name not in available():
        raise DataError(f"the table {name!r} comes with the package {PACKAGES[name]!r}, which is not installed")
    return _wine() if name == "wine" else _segments()


def _wine() -> tuple[Array, Array, list[str]]:
    from sklearn.datasets import load_wine

    found = load_wine()
    cultivars = np.array([f"cultivar {index + 1}" for index in found.target])
    return found.data, cultivars, [str(feature).replace("_", " ") for feature in found.feature_names]


def _segments() -> tuple[Array, Array, list[str]]:
    from river.datasets import ImageSegments

    rows = list(ImageSegments())
    features = list(rows[0][0])
    values = np.array([[context[feature] for feature in features] for context, _ in rows], dtype=np.float64)
    return values, np.array([label for _, label in rows]), features
