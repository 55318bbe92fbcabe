"""`ContextValues`: the values of a context to explain, in the units of their features."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any, NamedTuple

from releaf.arrays import Array
from releaf.core.adaptive.intervals import FAR
from releaf.core.adaptive.model import MARGIN
from releaf.datetimes import Trend
from releaf.features import MISSING, Quantile
from releaf.schema import Encoder


class ContextValues(NamedTuple):
    """An encoded context, its encoder, and the values ``given`` for quantile features, of which it has ranks only."""

    encoder: Encoder
    context: Array
    given: dict[int, float]

    def text_of(self, features: tuple[int, ...]) -> str:
        """Name and value of a feature, or of two; of more the first one's, and how many others there are."""
        if len(features) > 2:
            return f"{self._text_of_one(features[0])} and {len(features) - 1} others"
        return " and ".join(map(self._text_of_one, features))

    def beyond_all_seen(self, named: tuple[int, ...]) -> list[int]:
        """Quantile features whose given value is out of the range of the sample that their ranks are of.

        Far out of it, if a feature is not ``named``.
        """
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
        value, kind = (
            self.given.get(feature, self.encoder.from_unit(feature, unit)),
            self.encoder.schema.features[feature],
        )
        if unit == MISSING or value is None:
            return f"{name} missing"
        if isinstance(kind, Quantile) and feature not in self.given and not 0.0 < unit < 1.0:
            return f"{name} {'above' if unit >= 1.0 else 'below'} {value_text(value)}"
        beyond = (
            "" if not isinstance(kind, Trend) or 0.0 < unit < 1.0 else " or later" if unit >= 1.0 else " or earlier"
        )
        return f"{name} = {value_text(value)}{beyond}"


def value_text(value: Any) -> str:
    """A value for people: large numbers in full, dates without midnight.

    >>> [value_text(value) for value in (30_000.0, 0.123456, 41.0, "tea")]
    ['30,000', '0.1235', '41', 'tea']
    """
    if isinstance(value, float):
        return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, datetime) and value.time() == time():
        return str(value.date())
    return str(value)
