"""Features as plain data, for JSON and TOML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from releaf.datetimes import DateTime
from releaf.features import Boolean, Categorical, Continuous, Feature, Quantile

Declared = Feature | DateTime  # what a schema is made of
KINDS: dict[str, Callable[..., Declared]] = {cls.kind: cls for cls in (Continuous, Quantile, Boolean, DateTime)}


def feature_to_dict(feature: Declared) -> dict[str, Any]:
    """Convert a feature to plain data."""
    if isinstance(feature, Categorical):
        options = {"missing": feature.missing} | ({"other": True} if feature.other else {})
        return {"kind": feature.kind, "values": list(feature.values), **options}
    if isinstance(feature, DateTime):
        bounds = {} if feature.start is None else {"start": feature.start, "end": feature.end}
        rest = {"parts": list(feature.parts or ()), "time_zone": feature.time_zone, "missing": feature.missing}
        return {"kind": feature.kind, **bounds, **rest}
    return {"kind": feature.kind, **asdict(feature)}


def feature_from_dict(entry: dict[str, Any]) -> Declared:
    """Build a feature from what ``feature_to_dict`` returned."""
    options = {key: value for key, value in entry.items() if key not in ("name", "kind", "values")}
    if entry["kind"] == Categorical.kind:
        return Categorical(*entry["values"], **options)
    return KINDS[entry["kind"]](**options)
