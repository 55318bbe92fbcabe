"""Learner factory: builds and validates learners from the policy specification of a request."""

from __future__ import annotations

import base64
import copy
import inspect
import math
import secrets
import time
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import msgspec

from releaf import ActionTable, Schema, StateError, ensembles, from_bytes, policies
from releaf.core.runtime import state_file
from releaf.feature_dicts import KINDS
from releaf.features import Categorical
from releaf.policies.class_lookup import policy_classes
from releaf.policies.parameters import parameter_defaults, parameters_of
from releaf.policy import ServedPolicy
from releaf.service.errors import ApiError, invalid_request
from releaf.service.experiments.decision_costs import needs_costs
from releaf.service.messages import Features, NewExperiment, PolicyInfo, PolicySpec

MAX_TUPLES = 1_000_000  # of features for which RELEAF keeps cells
MAX_BYTES = 256 << 20  # of a learner: snapshots and changes of the actions copy it
MAX_PENDING = 10_000_000  # some 7 GB
MAX_VALUES = 1_000_000  # categories and quantile samples of all features together
COST_PARAMETERS = ("cost", "cost_weight", "spend_budget", "budget_period")
SIZE_CHECK_FROM = 2_000  # actions times features from which the size of a learner is estimated first
MAX_TABLE = 10_000  # actions with features, unless an experiment's ``max_actions`` is set
TIMED_DECISIONS = 5  # the fastest counts: the others waited for something else
POLICIES = policy_classes(policies)
FEATURE_KINDS = (*KINDS, Categorical.kind)
ENSEMBLES = tuple(policy_classes(ensembles))  # as uploaded models only


def known_policies() -> list[PolicyInfo]:
    """All policies that a request can name, with their parameters and defaults."""
    return [
        PolicyInfo(
            name=name,
            summary=(inspect.getdoc(policy) or "").split("\n\n")[0].replace("\n", " "),
            parameters=dict(parameter_defaults(policy)),
        )
        for name, policy in POLICIES.items()
    ]


def make_learner(spec: NewExperiment) -> ServedPolicy:
    """Make the first learner of an experiment."""
    schema = make_schema(spec)
    if len({str(action) for action in spec.actions}) < len(spec.actions):
        raise invalid_request(f"actions must differ as text, got {spec.actions}")
    if spec.model is None:
        return build_policy(spec.policy, make_actions(spec), schema)
    if isinstance(spec.actions, dict) or spec.action_features is not None:
        raise invalid_request("model can't be given where actions have features: expected one or the other")
    try:
        content = base64.b64decode(spec.model, validate=True)
        _validate_model_header(state_file.from_bytes(content, "content")[0], spec.actions, schema)
        learner: ServedPolicy = from_bytes(content)
        learner.keep_pending(set())  # no reward can come for what it decided elsewhere
        return learner
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, MemoryError, RecursionError) as error:
        raise invalid_request(f"model is not a learner in base64 that this version can load: {error}") from None


def _validate_model_header(header: dict[str, Any], actions: list[Any], schema: Schema) -> None:
    """Reject a model of another experiment, or one that is too large, by its header, before loading it."""
    if header.get("action_schema") is not None:
        raise StateError("its actions have features, which an uploaded model can't have")
    name, labels, features = header["class"], header["actions"], Schema.from_dict(header["schema"])
    if not isinstance(name, str) or name not in (*POLICIES, *ENSEMBLES):
        raise StateError(f"its class is {name!r}: expected one of {', '.join((*POLICIES, *ENSEMBLES))}")
    same = [(type(label), label) for label in labels] == [(type(action), action) for action in actions]
    if not same or features != schema:
        raise invalid_request(
            f"the model has actions {labels} and features {list(features.names)}: expected those of the experiment"
        )
    if name in POLICIES:  # an ensemble is no larger than the upload
        _validate_size(name, tuple(actions), schema, header["parameters"])


def policy_spec(learner: ServedPolicy) -> PolicySpec:
    """Specification of a learner, as a request would have it."""
    plain = msgspec.to_builtins(parameters_of(learner), enc_hook=str)
    return PolicySpec(name=type(learner).__name__, parameters=plain)


def has_control(spec: NewExperiment) -> bool:
    """Whether an experiment was created with a control group."""
    return bool(spec.policy.parameters.get("control_share"))


def make_schema(spec: NewExperiment) -> Schema:
    """Make the schema of an experiment from a count, names, or descriptions of features."""
    return _schema_of(spec.features, "features")


def make_actions(spec: NewExperiment) -> tuple[Any, ...] | ActionTable:
    """Make the names of an experiment's actions, or the table of actions that have features."""
    described, actions = spec.action_features, spec.actions
    if not isinstance(actions, dict):
        if described is not None:
            raise invalid_request(
                "action_features is given, but actions has names only: expected an object of names and their features, "
                "{} if all actions come with the requests"
            )
        return tuple(actions)
    if described is None:
        raise invalid_request("actions have features: expected their description in action_features")
    if isinstance(described, int):
        described = [f"y{place}" for place in range(described)]
    schema = _schema_of(described, "action_features")
    try:
        return ActionTable(actions, schema)
    except (ValueError, TypeError, OverflowError) as error:
        raise invalid_request(f"actions are invalid: {error}") from None


def describe_action_features(spec: NewExperiment) -> list[dict[str, Any]] | None:
    """Describe the features of an experiment's actions; None where they have none."""
    actions = make_actions(spec)
    return actions.schema.to_dict() if isinstance(actions, ActionTable) and actions.schema is not None else None


def _schema_of(features: Features, field: str) -> Schema:
    """Make a schema from the field of a request."""
    try:
        if isinstance(features, int):
            return Schema.of(features)
        if all(isinstance(feature, str) for feature in features):
            return Schema.of([str(feature) for feature in features])
        schema = Schema.from_dict([_describe(feature) for feature in features])
        values = sum(getattr(feature, "size", 0) + feature.categories for feature in schema.features)
        if values > MAX_VALUES:
            raise ValueError(f"they have {values:,} categories and quantile samples: expected at most {MAX_VALUES:,}")
        return schema
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise invalid_request(f"{field} are invalid: {error}") from None


def _describe(feature: Any) -> dict[str, Any]:
    """Description of a feature; a name alone means values in [0, 1]."""
    if isinstance(feature, str):
        return {"name": feature, "kind": "continuous", "low": 0.0, "high": 1.0}
    if not isinstance(feature.get("name"), str) or "kind" not in feature:
        raise ValueError(f"{feature!r} needs a name and a kind ({', '.join(FEATURE_KINDS)})")
    name, kind = feature["name"], feature["kind"]
    if kind not in FEATURE_KINDS:
        raise ValueError(f"{name!r} has the kind {kind!r}: expected one of {', '.join(FEATURE_KINDS)}")
    if kind == Categorical.kind and "values" not in feature:
        raise ValueError(f"{name!r} is {kind} and has no values: expected a list of them")
    return dict(feature)


def build_policy(policy: PolicySpec, actions: tuple[Any, ...] | ActionTable, schema: Schema) -> ServedPolicy:
    """Build a learner by the name of its policy. Without a seed, one is drawn here, so that the log has it."""
    if policy.name not in POLICIES:
        known = ", ".join(POLICIES)
        raise ApiError(422, "unknown_policy", f"unknown policy {policy.name!r}: expected one of {known}")
    make, arguments = POLICIES[policy.name], dict(policy.parameters)
    unknown = [name for name in arguments if name not in parameter_defaults(make)]
    if unknown:
        near = get_close_matches(unknown[0], parameter_defaults(make), n=1)
        hint = f"did you mean {near[0]!r}?" if near else "see /v1/policies"
        raise invalid_request(f"{policy.name} has no parameter {unknown[0]!r}: {hint}")
    if "seed" in parameter_defaults(make) and arguments.get("seed") is None:
        arguments["seed"] = policy.parameters["seed"] = secrets.randbits(32)
    if isinstance(actions, ActionTable) and not make.traits.takes_action_features:
        raise invalid_request(
            f"{policy.name} knows no features of actions: expected the policy JointReleaf or HybridLinUCB"
        )
    try:
        if isinstance(actions, ActionTable) and arguments.get("max_actions") is None:
            most = min(MAX_TABLE, _most_actions(_table_maker(make, actions, schema, {**arguments, "max_actions": 2})))
            arguments["max_actions"] = policy.parameters["max_actions"] = max(most, len(actions))
        _validate_size(policy.name, actions, schema, arguments)
        learner: ServedPolicy = make(actions, schema, **arguments)
        return learner
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise invalid_request(f"{policy.name} can't be built: {error}") from None


def _validate_size(
    name: str, actions: tuple[Any, ...] | ActionTable, schema: Schema, arguments: dict[str, Any]
) -> None:
    """Reject parameters with which a learner would take too much memory."""
    make = POLICIES[name]
    pending = arguments.get("max_pending", 1)
    if isinstance(pending, int) and pending > MAX_PENDING:
        raise invalid_request(f"max_pending is {pending:,}: expected at most {MAX_PENDING:,}")
    size = arguments.get("gamma_rel", 1)
    if "gamma_rel" in parameter_defaults(make) and isinstance(size, int) and size > 0:
        tuples = math.comb(len(schema), min(2 * size, len(schema)))
        if tuples > MAX_TUPLES:
            raise invalid_request(
                f"{len(schema)} features have {tuples:,} tuples of {2 * size}: expected at most {MAX_TUPLES:,}"
            )
    if isinstance(actions, ActionTable):  # which may grow
        most = max(arguments["max_actions"], len(actions))
        _validate_bytes(name, most, _table_maker(make, actions, schema, arguments))
    elif len(actions) * len(schema) > SIZE_CHECK_FROM:
        rest = {key: value for key, value in arguments.items() if key not in COST_PARAMETERS}  # of all actions
        _validate_bytes(name, len(actions), lambda few: make(actions[:few], schema, **rest))


def _table_maker(
    make: Callable[..., Any], actions: ActionTable, schema: Schema, arguments: dict[str, Any]
) -> Callable[[int], Any]:
    """A function that makes a learner of a number of actions with the features of a table."""
    return lambda few: make(ActionTable.without_values(range(few), actions.schema), schema, **arguments)


def _validate_bytes(name: str, actions: int, make: Callable[[int], Any]) -> None:
    """Reject a learner that would be too large."""
    one, each = _bytes_of(make)
    size = one + (actions - 1) * each
    if size > MAX_BYTES:
        raise invalid_request(
            f"{name} with {actions:,} actions would take {size >> 20:,} MB, the maximum is {MAX_BYTES >> 20:,} MB: "
            f"expected at most {_most_actions(make):,} actions with these features, or another policy"
        )


def _most_actions(make: Callable[[int], Any]) -> int:
    """Number of actions with which a learner is as large as it may be."""
    one, each = _bytes_of(make)
    return int(max(1, 1 + (MAX_BYTES - one) // max(each, 1)))


def _bytes_of(make: Callable[[int], Any]) -> tuple[int, int]:
    """Size of a learner of one action, and of each further one, from learners of one and of two actions."""
    one, two = len(make(1).to_bytes()), len(make(2).to_bytes())
    return one, two - one


def precompile(learner: ServedPolicy) -> float:
    """Compile the kernels of decisions, rewards and explanations, on a copy, so that no request waits for JIT.

    Returns the seconds that one decision takes.
    """
    clone = copy.deepcopy(learner)
    context = [_example_value(feature) for feature in clone.schema.inputs.values()]
    if clone.traits.takes_action_features:
        _precompile_slates(clone, context)
    costs = [0.0] * len(clone.actions) if needs_costs(clone) else None
    choice = clone.decide(context, None, costs)  # first: what is relevant is computed from contexts of decisions
    if choice.wants_reward:
        low = clone.reward_range[0]
        clone.learn(choice, [low] * len(clone.actions) if clone.wants_all else low)
    clone.decide_many([context, context], None, costs)
    choice = clone.preview(context, None, costs)
    if clone.traits.explains:
        clone.explain(choice)
    if clone.traits.has_effects:
        clone.effect(0)
    return min(_seconds(lambda: clone.decide(context, None, costs)) for _ in range(TIMED_DECISIONS))


def _precompile_slates(clone: Any, context: list[Any]) -> None:
    """Compile what decides on slates, and on actions of a request, of which one at least is there afterwards."""
    requested = None
    if clone.action_features is not None:
        requested = {"example": [_example_value(feature) for feature in clone.action_features.inputs.values()]}
    size, low = None if clone.control_share else 1, clone.reward_range[0]  # a control share knows no slates
    choice = clone.decide(context, k=size, actions=requested)
    clone.learn(choice, low if size is None else {choice.action: low})


def _seconds(do: Callable[[], object]) -> float:
    started = time.perf_counter()
    do()
    return time.perf_counter() - started


def _example_value(feature: Any) -> Any:
    if feature.kind == "datetime":
        return "2000-01-01"
    if feature.kind == "categorical":
        return feature.values[0]
    # Not the lowest value, which becomes 0: decisions for zeros take less time than any that come.
    return (feature.low + feature.high) / 2 if feature.kind == "continuous" else 1
