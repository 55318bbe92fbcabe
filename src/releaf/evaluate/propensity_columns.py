"""Columns of contexts for models of propensities, in memory that does not grow with the number of categories."""

from __future__ import annotations

from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.schema import Schema

TREE_CATEGORIES = 254  # of a feature, that gradient-boosted trees tell apart; rarer ones share the last


def sparse_columns(units: Array, schema: Schema, further: Array | None) -> Any:
    """A sparse design matrix of encoded contexts, as ``columns_of`` makes a dense one, and further columns."""
    from scipy import sparse

    parts: list[Any] = []
    for index, feature in enumerate(schema.features):
        values = units[:, index]
        if feature.categories:
            ones, rows = np.ones(len(values)), np.arange(len(values))
            places = (rows, category_codes(values, feature.categories))
            parts.append(sparse.csr_matrix((ones, places), shape=(len(values), feature.categories)))
        else:
            parts.append(sparse.csr_matrix(np.maximum(values, 0.0)[:, None]))
            if feature.missing:
                parts.append(sparse.csr_matrix((values < 0.0).astype(np.float64)[:, None]))
    if further is not None:
        parts.append(sparse.csr_matrix(further.astype(np.float64)))
    return sparse.hstack(parts, format="csr")


def tree_columns(units: Array, schema: Schema, further: Array | None) -> tuple[Array, list[int]]:
    """A column for each encoded feature, with codes of categories, and further columns; and which have codes."""
    columns = units.copy()
    coded = [index for index, feature in enumerate(schema.features) if feature.categories]
    for index in coded:
        codes = category_codes(units[:, index], schema.features[index].categories)
        by_frequency = np.argsort(-np.bincount(codes), kind="stable")
        ranks = np.empty(len(by_frequency), dtype=np.int64)
        ranks[by_frequency] = np.arange(len(by_frequency))
        columns[:, index] = np.minimum(ranks, TREE_CATEGORIES - 1)[codes]
    return columns if further is None else np.column_stack([columns, further]), coded


def category_codes(units: Array, categories: int) -> Array:
    """Indices of encoded categories."""
    codes: Array = np.minimum((units * categories).astype(np.int64), categories - 1)
    return codes
