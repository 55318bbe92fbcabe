"""`ContextValues`: the values of a context to explain, in the units of their features."""

from __future__ import annotations

from typing import NamedTuple

from releaf.arrays import Array
from releaf.core.adaptive.intervals import FAR
from releaf.core.adaptive.model import MARGIN
from releaf.features import MISSING, Quantile
from releaf.schema import Encoder


class ContextValues(NamedTuple):
    """An encoded context, its encoder, and the values ``given`` for quantile features, of which it has ranks only."""

    encoder: Encoder
    context: Array
    given: dict[int, float]

    def text_of(self, features: tuple[int, ...]) -> str:
        """Names and values of some features."""
        return " and ".join(map(self._text_of_one, features))

    def beyond_all_seen(self, named: tuple[int, ...]) -> list[int]:
        """Quantile features whose given value is out of the range of those seen, if not ``named`` by far."""
        found = []
        for feature, value in self.given.items():
            sketch = self.encoder.sketches[feature]
            low, high = sketch.value(0.0), sketch.value(1.0)
            margin = (MARGIN if feature in named else FAR) * (high - low)
            if not low - margin <= value <= high + margin:
                found.append(feature)
        return found

    def _text_of_one(self, feature: int) -> str:
        name, unit = self.encoder.schema.names[feature], float(self.context[feature])
        value = self.given.get(feature, self.encoder.from_unit(feature, unit))
        if unit == MISSING or value is None:
            return f"{name} missing"
        if isinstance(self.encoder.schema.features[feature], Quantile) and feature not in self.given:
            if unit >= 1.0:
                return f"{name} above {value:.4g}"
            if unit <= 0.0:
                return f"{name} below {value:.4g}"
        return f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"
