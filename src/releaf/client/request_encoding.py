"""Encoding of requests: paths, contexts, features, models and bodies."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from releaf.client.responses import Decision
from releaf.features import is_missing
from releaf.schema import Schema

CHUNK_BYTES = 1 << 20  # of a request with lines; a quarter of the service's default limit


def experiment_path(*parts: str | int) -> str:
    """URL path below ``/v1/experiments``. Dots are escaped, because ".." would change the path."""
    return "/v1/experiments" + "".join(f"/{quote(str(part), safe='').replace('.', '%2E')}" for part in parts)


def encode_json(value: Any) -> bytes:
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_to_python).encode()
    except ValueError as error:
        raise ValueError(f"numbers must be finite, got {value!r}") from error


def _to_python(value: Any) -> Any:
    """Convert NumPy scalars and arrays to Python objects, and dates to ISO text."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, np.datetime64):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} of type {type(value).__name__} can't be sent as JSON")


def encode_context(context: Any) -> Any:
    """Convert a context (a mapping, a sequence, or a row of NumPy or pandas), with None for missing values."""
    if hasattr(context, "to_dict"):
        context = context.to_dict()
    if isinstance(context, Mapping):
        return {str(name): None if is_missing(value) else value for name, value in context.items()}
    if isinstance(context, str | bytes) or not isinstance(context, Iterable):
        raise TypeError(f"a context must be a mapping or a sequence of values, got {context!r}")
    return [None if is_missing(value) else value for value in context]


def encode_actions(actions: Any) -> dict[str, Any]:
    """Actions by name with the features of each; None where they are those that the service has."""
    if not isinstance(actions, Mapping):
        raise TypeError(f"actions must be a mapping from names to features, got {actions!r}")
    return {str(name): None if own is None else encode_context(own) for name, own in actions.items()}


def encode_eligible(eligible: Any) -> list[Any] | None:
    """Names of the eligible actions of a decision as a list."""
    if eligible is None:
        return None
    if isinstance(eligible, str | bytes | Mapping) or not isinstance(eligible, Iterable):
        raise TypeError(f"eligible must be a sequence of action names, got {eligible!r}")
    return list(eligible)


def encode_baseline(baseline: Any) -> dict[str, Any] | None:
    """What the application decides by itself: an action, or an action and its probability."""
    if baseline is None:
        return None
    if not isinstance(baseline, tuple):
        return {"action": baseline}
    if len(baseline) != 2:
        raise TypeError(f"baseline must be an action, or an action and its probability, got {baseline!r}")
    return {"action": baseline[0], "probability": baseline[1]}


def encode_cost(cost: Any) -> Any:
    """Costs of the actions of a decision as an object or a list; None for the fixed ones."""
    if cost is None:
        return None
    if isinstance(cost, Mapping):
        return {str(name): value for name, value in cost.items()}
    if isinstance(cost, str | bytes) or not isinstance(cost, Iterable):
        raise TypeError(f"cost must be a mapping from actions to costs, or one cost for each action, got {cost!r}")
    return list(cost)


def encode_eligible_of_many(eligible: Any) -> list[Any] | None:
    """Names of the eligible actions of all contexts, or a list of names for each of them."""
    rows = encode_eligible(eligible)
    if rows is None or not any(row is None or (isinstance(row, Iterable) and not isinstance(row, str)) for row in rows):
        return rows
    return [encode_eligible(row) for row in rows]


def encode_features(features: Any) -> Any:
    return Schema.of(features).to_dict() if isinstance(features, Schema | Mapping) else features


def encode_model(model: Any) -> str | None:
    """Encode a learner, its bytes, or its file in base64."""
    if model is None:
        return None
    if hasattr(model, "to_bytes"):
        model = model.to_bytes()
    if not isinstance(model, bytes):
        model = Path(model).read_bytes()
    return base64.b64encode(model).decode()


def decision_number(decision: Decision | int) -> int:
    if isinstance(decision, Decision) and decision.is_default:
        raise ValueError(f"the service did not make the default decision {decision.action!r} and can't look it up")
    number = decision.id if isinstance(decision, Decision) else decision
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"decision must be a decision or its number, got {decision!r}")
    return int(number)


def policy_spec(policy: str, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"name": policy, "parameters": dict(parameters or {})}


def split_by_size(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Split lines into chunks of at most CHUNK_BYTES; a longer line is a chunk by itself."""
    chunk: list[bytes] = []
    size = 0
    for line in lines:
        if chunk and size + len(line) > CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(line)
        size += len(line) + 1
    if chunk:
        yield chunk
