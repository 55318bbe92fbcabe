"""From the description of a policy in a request to a learner: any policy of the package."""

from __future__ import annotations

import base64
import copy
import inspect
import math
import secrets
import time
from collections.abc import Callable
from typing import Any

import msgspec

from releaf import Schema, StateError, ensembles, from_bytes, policies
from releaf.core import state
from releaf.service.errors import Problem, invalid
from releaf.service.messages import NewExperiment, PolicyInfo, PolicySpec

MOST_TUPLES = 1_000_000  # of features, whose rewards RELEAF keeps
MOST_BYTES = 256 << 20  # of a learner: it is copied for snapshots, and when actions come and go
MOST_PENDING = 1_000_000
MOST_VALUES = 1_000_000  # of categories and samples of quantiles, all features together
LARGE = 2_000  # actions times features, from which on a learner's size is looked at first
TIMED = 5  # decisions, the fastest of which counts: the others had to wait for something else
KNOWN: dict[str, Any] = {
    name: getattr(policies, name) for name in policies.__all__ if hasattr(getattr(policies, name), "traits")
}
VOTING = tuple(name for name in ensembles.__all__ if hasattr(getattr(ensembles, name), "traits"))  # as models only
_OWN = ("actions", "features")


def known_policies() -> list[PolicyInfo]:
    """The policies that can be named in a request, with their parameters and defaults."""
    return [
        PolicyInfo(
            name=name,
            summary=(inspect.getdoc(policy) or "").split("\n\n")[0].replace("\n", " "),
            parameters={
                parameter.name: None if parameter.default is inspect.Parameter.empty else parameter.default
                for parameter in inspect.signature(policy).parameters.values()
                if parameter.name not in _OWN
            },
        )
        for name, policy in KNOWN.items()
    ]


def new_learner(spec: NewExperiment) -> Any:
    """The learner that an experiment begins with."""
    schema = schema_of(spec)
    if len({str(action) for action in spec.actions}) < len(spec.actions):
        raise invalid(f"actions must read differently, got {spec.actions}")
    if spec.model is None:
        return build(spec.policy, tuple(spec.actions), schema)
    try:
        content = base64.b64decode(spec.model, validate=True)
        _require_modest_model(state.from_bytes(content, "content")[0], spec.actions, schema)
        return from_bytes(content)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, MemoryError, RecursionError) as error:
        raise invalid(f"model is no learner in base64 that this version can go on with: {error}") from None


def _require_modest_model(header: dict[str, Any], actions: list[Any], schema: Schema) -> None:
    """Refuse a model that is of another experiment or too large, going by its header, before anything is made of it."""
    name, labels, features = header["class"], header["actions"], Schema.from_dict(header["schema"])
    if not isinstance(name, str) or name not in (*KNOWN, *VOTING):
        raise StateError(f"it holds a {name!r}: expected one of {', '.join((*KNOWN, *VOTING))}")
    same = [(type(label), label) for label in labels] == [(type(action), action) for action in actions]
    if not same or features != schema:
        raise invalid(
            f"the model decides on actions {labels} and features {list(features.names)}: "
            "expected those of the experiment"
        )
    if name in KNOWN:  # an ensemble is no larger than what was sent
        _require_modest(name, tuple(actions), schema, header["parameters"])


def spec_of(learner: Any) -> PolicySpec:
    """What a learner was made with, as a request would say it."""
    plain = msgspec.to_builtins({name: getattr(learner, name, None) for name in learner.parameters}, enc_hook=str)
    return PolicySpec(name=type(learner).__name__, parameters=plain)


def schema_of(spec: NewExperiment) -> Schema:
    """The features of an experiment: a count, names, or descriptions."""
    features = spec.features
    try:
        if isinstance(features, int):
            return Schema.of(features)
        if all(isinstance(feature, str) for feature in features):
            return Schema.of([str(feature) for feature in features])
        schema = Schema.from_dict([_described(feature) for feature in features])
        values = sum(getattr(feature, "size", 0) + feature.categories for feature in schema.features)
        if values > MOST_VALUES:
            raise ValueError(f"they have {values:,} categories and sampled values: more than {MOST_VALUES:,}")
        return schema
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        hint = error if isinstance(error, ValueError | TypeError) else f"{error} is not a kind or is lacking"
        raise invalid(f"features can't be understood: {hint}") from None


def _described(feature: Any) -> dict[str, Any]:
    """A feature's description, from a name alone where values are in [0, 1]."""
    if isinstance(feature, str):
        return {"name": feature, "kind": "continuous", "low": 0.0, "high": 1.0}
    if not isinstance(feature.get("name"), str) or "kind" not in feature:
        raise ValueError(f"{feature!r} needs a name and a kind (continuous, quantile, categorical, boolean)")
    return dict(feature)


def build(policy: PolicySpec, actions: tuple[Any, ...], schema: Schema) -> Any:
    """A learner by the name of its policy; the seed is drawn here where none is given, so that the log knows it."""
    if policy.name not in KNOWN:
        known = ", ".join(KNOWN)
        raise Problem(422, "unknown_policy", f"there is no policy {policy.name!r}: expected one of {known}")
    make, given = KNOWN[policy.name], dict(policy.parameters)
    unknown = [name for name in given if name in _OWN or name not in inspect.signature(make).parameters]
    if unknown:
        raise invalid(f"{policy.name} has no parameter {unknown[0]!r}; see /v1/policies")
    if "seed" in inspect.signature(make).parameters and given.get("seed") is None:
        given["seed"] = policy.parameters["seed"] = secrets.randbits(32)
    try:
        _require_modest(policy.name, actions, schema, given)
        return make(actions, schema, **given)
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise invalid(f"{policy.name} can't be made: {error}") from None


def _require_modest(name: str, actions: tuple[Any, ...], schema: Schema, given: dict[str, Any]) -> None:
    """Refuse parameters with which a learner would take too much memory."""
    make = KNOWN[name]
    pending = given.get("max_pending", 1)
    if isinstance(pending, int) and pending > MOST_PENDING:
        raise invalid(f"max_pending is {pending:,}: expected at most {MOST_PENDING:,}")
    size = given.get("gamma_rel", 1)
    if "gamma_rel" in inspect.signature(make).parameters and isinstance(size, int) and size > 0:
        tuples = math.comb(len(schema), min(2 * size, len(schema)))
        if tuples > MOST_TUPLES:
            raise invalid(f"{len(schema)} features have {tuples:,} tuples of {2 * size}: more than {MOST_TUPLES:,}")
    if len(actions) * len(schema) > LARGE:
        _require_small(name, len(actions), lambda few: make(actions[:few], schema, **given))


def _require_small(name: str, actions: int, make: Callable[[int], Any]) -> None:
    """Refuse a learner that would be too large, going by those of one and of two actions."""
    one, two = len(make(1).to_bytes()), len(make(2).to_bytes())
    size = one + (actions - 1) * (two - one)
    if size > MOST_BYTES:
        few = max(1, 1 + (MOST_BYTES - one) // max(two - one, 1))
        raise invalid(
            f"{name} with {actions:,} actions would take {size >> 20:,} MB, more than {MOST_BYTES >> 20:,}: "
            f"expected at most {few:,} actions with these features, or another policy"
        )


def warm(learner: Any) -> float:
    """Compile what the first decisions and the first reward need, on a copy, so that no request has to wait for it.

    Returns how many seconds a decision takes.
    """
    twin = copy.deepcopy(learner)
    context = [_any_value(feature) for feature in twin.schema.features]
    choice = twin.preview(context)
    if hasattr(twin, "explain"):
        twin.explain(choice)
    if hasattr(twin, "effect"):
        twin.effect(0)
    choice = twin.decide(context)
    if choice.wants_reward:
        low = getattr(twin, "reward_range", (0.0, 1.0))[0]
        twin.learn(choice, [low] * len(twin.actions) if twin.wants_all else low)
    twin.decide_many([context, context])
    return min(_seconds(lambda: twin.decide(context)) for _ in range(TIMED))


def _seconds(do: Callable[[], object]) -> float:
    started = time.perf_counter()
    do()
    return time.perf_counter() - started


def _any_value(feature: Any) -> Any:
    return feature.values[0] if feature.kind == "categorical" else getattr(feature, "low", 0)
