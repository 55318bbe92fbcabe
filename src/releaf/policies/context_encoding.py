"""How a policy reads the contexts that users pass."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from releaf.schema import Encoder, Features, Schema
from releaf.table import width_error

Array = np.ndarray[Any, np.dtype[Any]]
NOT_NUMBERS = frozenset((str, bytes, np.str_, np.bytes_, type(None)))  # what numpy would make a number of, but is none
LISTS = frozenset((list,))


class ContextEncoding:
    """Makes rows of numbers of contexts of any kind; what it decides by them is elsewhere."""

    _schema: Schema
    _encoder: Encoder
    _lock: threading.RLock

    def _set_schema(self, features: Features) -> None:
        """Read contexts of these features from now on."""
        self._schema = Schema.of(features)
        self._encoder = self._schema.encoder()
        self._shape = (len(self._schema),)
        self._plain_shape = self._shape if self._encoder.is_unit else None

    def _encode(self, context: Any) -> Array:
        """The context as a row of its own; values in [0, 1] by the schema, or still to be checked by the rule."""
        if not self._encoder.is_unit:
            with self._lock:  # quantiles learn
                return self._encoder.encode(context)
        if isinstance(context, list | tuple):
            if len(context) != self._shape[0]:
                raise ValueError(width_error(len(context), self._schema.names))
            try:
                row = np.array(context, dtype=np.float64)
            except (TypeError, ValueError, OverflowError):
                return self._encoder.encode(context)  # names the feature that is wrong
            if row.shape == self._shape and NOT_NUMBERS.isdisjoint(map(type, context)):
                return row
        return self._encoder.encode(context)

    def _encode_many(self, contexts: Any, learns: bool = True) -> Array:
        """All contexts as a matrix, checked; quantiles learn from them, or stay as they are."""
        if self._encoder.is_unit and type(contexts) is list and LISTS.issuperset(map(type, contexts)):
            contexts = _as_numbers(contexts, self._shape)
        plain = self._encoder.is_unit and isinstance(contexts, np.ndarray) and contexts.dtype.kind in "fiub"
        if plain and contexts.ndim == 2 and contexts.shape[1] == self._shape[0]:
            matrix = np.require(contexts, dtype=np.float64, requirements=["C", "W"])  # kernels are compiled for that
            if bool(np.all((matrix >= 0.0) & (matrix <= 1.0))):
                return matrix
        return self._encoder.encode_many(contexts, learns)

    def _out_of_range(self, context: Array, place: int) -> ValueError:
        feature, name = self._schema.features[place], self._schema.names[place]
        return ValueError(f"feature {name!r} is {context[place]}: expected {feature.expects}")


def _as_numbers(rows: list[list[Any]], shape: tuple[int]) -> Any:
    """Rows of numbers as a matrix; all others as they are, to be looked at one by one.

    Numpy says what they are together: with a text, None or too large a number among them, floats no longer.
    """
    try:
        matrix = np.array(rows)
    except (TypeError, ValueError, OverflowError):  # such as rows of several lengths
        return rows
    return matrix if matrix.dtype == np.float64 and matrix.shape[1:] == shape else rows
