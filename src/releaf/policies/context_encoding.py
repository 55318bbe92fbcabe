"""Encoding of the contexts that users pass to a policy."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from releaf.arrays import Array
from releaf.schema import Encoder, Features, Schema
from releaf.table import width_error

NOT_NUMBERS = frozenset((str, bytes, np.str_, np.bytes_, type(None)))  # types that numpy would convert to numbers
LISTS = frozenset((list,))


class ContextEncoding:
    """Mixin that encodes contexts as rows of numbers."""

    _schema: Schema
    _encoder: Encoder
    _lock: threading.RLock

    def _set_schema(self, features: Features) -> None:
        """Set the schema and create its encoder."""
        self._schema = Schema.of(features)
        self._encoder = self._schema.encoder()
        self._shape = (len(self._schema),)
        self._plain_shape = self._shape if self._encoder.is_unit else None

    def _encode(self, context: Any) -> Array:
        """Encode a context as a new row; the rule's kernel checks the range of plain values."""
        if not self._encoder.is_unit:
            with self._lock:  # the encoder updates quantiles
                return self._encoder.encode(context)
        if isinstance(context, list | tuple):
            if len(context) != self._shape[0]:
                raise ValueError(width_error(len(context), self._schema.names))
            try:
                row = np.array(context, dtype=np.float64)
            except (TypeError, ValueError, OverflowError):
                return self._encoder.encode(context)  # raises with the feature's name
            if row.shape == self._shape and NOT_NUMBERS.isdisjoint(map(type, context)):
                return row
        return self._encoder.encode(context)

    def _encode_many(self, contexts: Any, learns: bool = True) -> Array:
        """Encode and validate contexts as a matrix; ``learns`` tells whether quantiles are updated."""
        if self._encoder.is_unit and type(contexts) is list and LISTS.issuperset(map(type, contexts)):
            contexts = _as_numbers(contexts, self._shape)
        plain = self._encoder.is_unit and isinstance(contexts, np.ndarray) and contexts.dtype.kind in "fiub"
        if plain and contexts.ndim == 2 and contexts.shape[1] == self._shape[0]:
            matrix = np.require(
                contexts, dtype=np.float64, requirements=["C", "W"]
            )  # the type for which kernels are compiled
            if bool(np.all((matrix >= 0.0) & (matrix <= 1.0))):
                return matrix
        return self._encoder.encode_many(contexts, learns)

    def _out_of_range(self, context: Array, position: int) -> ValueError:
        feature, name = self._schema.features[position], self._schema.names[position]
        return ValueError(f"feature {name!r} is {context[position]}: expected {feature.expects}")


def _as_numbers(rows: list[list[Any]], shape: tuple[int]) -> Any:
    """Convert rows of numbers to a matrix; return any others unchanged, to be encoded one by one.

    NumPy's common type tells: with a text, None or a too large integer among the values it is not float64.
    """
    try:
        matrix = np.array(rows)
    except (TypeError, ValueError, OverflowError):  # such as rows of different lengths
        return rows
    return matrix if matrix.dtype == np.float64 and matrix.shape[1:] == shape else rows


def require_same_quantiles(one: dict[str, Array], other: dict[str, Array]) -> None:
    """Raise a ValueError if the states of two encoders differ."""
    for name, state in one.items():
        if not np.array_equal(state, other[name]):
            raise ValueError(
                "learners with different quantiles can't be merged, since the same interval holds different values "
                "for them: describe the feature as Continuous, or use releaf.fit_log"
            )
