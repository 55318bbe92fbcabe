"""Evaluators encode contexts of any schema as the library does, and reject wrong ones with the same sentences."""

from __future__ import annotations

import math
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest
from frozen_policies import EvaluatorProcess, frozen_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import releaf

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"]
finite = st.floats(-1e6, 1e6)
texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cn", "Co", "Cf", "Zs", "Zl", "Zp"]), max_size=6
)


@st.composite
def iso_texts(draw: st.DrawFn) -> str:
    day = date(1900, 1, 1) + timedelta(days=draw(st.integers(0, 73_000)))
    hour, minute, second = draw(st.integers(0, 24)), draw(st.integers(0, 59)), draw(st.integers(0, 60))
    time = draw(
        st.sampled_from(
            [
                "",
                f"T{hour:02}",
                f" {hour:02}:{minute:02}",
                f"t{hour:02}:{minute:02}:{second:02}",
                f"T{hour:02}:{minute:02}:{second:02}.5",
            ]
        )
    )
    if ":" not in time:
        return f"{day}{time}"
    zone = draw(
        st.sampled_from(["", "", "Z", "z", " UTC", "+01:00", "-0330", " +05:30", "+02", " utc", "+25:00", " X"])
    )
    return f"{day}{time}{zone}"


@st.composite
def features(draw: st.DrawFn) -> Any:
    missing = draw(st.booleans())
    match draw(st.sampled_from(["continuous", "quantile", "categorical", "boolean", "datetime"])):
        case "continuous":
            low = draw(finite)
            return releaf.Continuous(low, low + draw(st.floats(1e-3, 1e6)), clip=draw(st.booleans()), missing=missing)
        case "quantile":
            return releaf.Quantile(size=draw(st.integers(2, 40)), missing=missing)
        case "categorical":
            one = st.one_of(texts, st.integers(-5, 5), st.sampled_from([0.5, 2.25, True, False, "it's", 'a "b"']))
            values = draw(st.lists(one, min_size=1, max_size=20, unique=True))
            return releaf.Categorical(values, missing=missing, other=draw(st.booleans()))
        case "boolean":
            return releaf.Boolean(missing=missing)
    bounds = draw(st.sampled_from([{}, {"start": "2001-02-03", "end": "2024-03-31T02:30:00.250000"}]))
    return releaf.DateTime(**bounds, time_zone=draw(st.sampled_from(ZONES)), missing=missing)


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10),
    finite.filter(lambda x: x != int(x)),
    texts,
    iso_texts(),
    st.sampled_from(["true", " No ", "ON", "2024-02-30", "0000-01-01", "2024-1-1", [1, "a"], 0.5, 1, 0, "1", "it's"]),
)


def value_for(feature: Any) -> st.SearchStrategy[Any]:
    """Mostly a value that fits."""
    fits: st.SearchStrategy[Any]
    match feature:
        case releaf.Continuous():
            fits = st.floats(feature.low, feature.high).filter(lambda x: x != int(x))
        case releaf.Quantile():
            fits = finite.filter(lambda x: x != int(x))
        case releaf.Categorical():
            fits = st.sampled_from(feature.values)
        case releaf.Boolean():
            fits = st.booleans()
        case _:
            fits = iso_texts()
    return st.one_of(fits, fits, fits, values)


@st.composite
def problems(draw: st.DrawFn) -> tuple[releaf.Schema, list[Any]]:
    schema = releaf.Schema({f"f{index}": draw(features()) for index in range(draw(st.integers(1, 4)))})
    contexts = []
    for _ in range(draw(st.integers(3, 12))):
        row = [draw(value_for(feature)) for feature in schema.inputs.values()]
        contexts.append(draw(st.sampled_from([row, dict(zip(schema.inputs, row, strict=True))])))
    return schema, contexts


def outcome(encode: Any, context: Any) -> Any:
    try:
        return encode(context)
    except (ValueError, TypeError) as error:
        return str(error)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(problem=problems(), seen=st.lists(finite, max_size=60))
def test_contexts_of_random_schemas_are_encoded_alike(
    problem: tuple[releaf.Schema, list[Any]], seen: list[float], node: EvaluatorProcess, plain_python: EvaluatorProcess
) -> None:
    schema, contexts = problem
    policy = releaf.Random(2, schema, seed=0)
    for sketch in policy._encoder.sketches.values():
        for value in seen:
            sketch.add(value)
    expected = [
        outcome(lambda one: policy._encoder.encode_many([one], learns=False)[0].tolist(), context)
        for context in contexts
    ]
    expected = [
        one.removeprefix("row 0: ").replace(" of row 0", "") if isinstance(one, str) else one for one in expected
    ]
    cases = [{"context": context, "seed": "0"} for context in contexts]
    for each in (plain_python, node):
        found = [made.get("error", made.get("encoded")) for made in each.decide(frozen_text(policy), cases)]
        for context, own, theirs in zip(contexts, expected, found, strict=True):
            if isinstance(own, str) or isinstance(theirs, str):
                assert theirs == own, context
            else:
                assert np.abs(np.array(theirs) - own).max() <= 2**-52, context


@pytest.mark.parametrize("zone", ZONES)
def test_every_day_and_every_change_of_clocks_is_encoded_alike(
    zone: str, node: EvaluatorProcess, plain_python: EvaluatorProcess
) -> None:
    schema = releaf.Schema(at=releaf.DateTime("1970-01-01", "2037-12-31", time_zone=zone))
    policy = releaf.Random(2, schema, seed=0)
    days = [f"{date(2023, 1, 1) + timedelta(days=day)}" for day in range(731)]
    hours = [
        f"{date(2024, 1, 1) + timedelta(hours=6 * step // 24)}T{6 * step % 24:02}:59:59Z" for step in range(4 * 366)
    ]
    old = [f"{year}-07-01T12:00:00.123456Z" for year in range(1950, 2037)]
    contexts = [[value] for value in days + hours + old]
    expected = policy._encoder.encode_many(contexts)
    cases = [{"context": context, "seed": "0"} for context in contexts]
    in_python, in_node = (
        np.array([made["encoded"] for made in each.decide(frozen_text(policy), cases)]) for each in (plain_python, node)
    )
    assert (in_python == expected).all()
    assert np.abs(in_node - expected).max() <= 2**-53  # the sine of other libraries may differ in the last bit
    assert (in_node.astype(np.float32) == expected.astype(np.float32)).all()  # what trees and tables see
    parts = [index for index, name in enumerate(schema.names) if "of year" not in name]
    assert (in_node[:, parts] == expected[:, parts]).all()


@pytest.mark.parametrize(
    ("context", "eligible", "message"),
    [
        ({"age": 30}, None, "context lacks 'sex'; the features are age, sex"),
        ({"age": 30, "sex": "m", "x": 1}, None, "context has unknown 'x'; the features are age, sex"),
        ([30], None, "context has 1 values, the schema has 2 (missing: 'sex')"),
        ([30, "m", 1], None, "context has 3 values, the schema has 2"),
        ("30", None, "context must be a sequence or a mapping, got '30'"),
        ([121, "m"], None, "feature 'age' is 121: expected a number in [0, 120]"),
        (["30", "m"], None, "feature 'age' is '30': expected a number in [0, 120]"),
        ([None, "m"], None, "feature 'age' is missing (None): expected a number in [0, 120]"),
        ([30, "d'or"], None, "feature 'sex' is \"d'or\": expected one of 'm', 'f'"),
        ([30, ["m"]], None, "feature 'sex' is ['m']: expected one of 'm', 'f'"),
        ([30, "m"], [], "eligible names no action: expected at least one of ('wait', 'treat', 3)"),
        ([30, "m"], ["go"], "eligible names an unknown action 'go': the actions are ('wait', 'treat', 3)"),
        ([30, "m"], ["wait", "wait"], "eligible names 'wait' twice: expected each action once"),
        ([30, "m"], "wait", "eligible must be a sequence of action names, got 'wait'"),
    ],
)
def test_wrong_input_is_rejected_with_the_same_sentence(
    context: Any, eligible: Any, message: str, node: EvaluatorProcess, plain_python: EvaluatorProcess
) -> None:
    schema = releaf.Schema(age=releaf.Continuous(0, 120), sex=releaf.Categorical("m", "f"))
    text = frozen_text(releaf.Random(["wait", "treat", 3], schema, seed=0))
    for each in (plain_python, node):
        assert each.decide(text, [{"context": context, "seed": "0", "eligible": eligible}])[0]["error"] == message


def test_a_mask_is_not_taken_for_names(node: EvaluatorProcess, plain_python: EvaluatorProcess) -> None:
    """In Python True equals 1, which is a name here."""
    text = frozen_text(releaf.Random(2, 1, seed=0))
    for each in (plain_python, node):
        found = each.decide(text, [{"context": [0.5], "seed": "0", "eligible": [True]}])[0]
        assert found["error"].startswith("eligible names an unknown action True: the actions are")


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_rejected(seed: int, node: EvaluatorProcess, plain_python: EvaluatorProcess) -> None:
    text = frozen_text(releaf.Random(2, 1, seed=0))
    expected = f"seed must be a whole number from 0 to 2**64 - 1, got seed={seed}"
    for each in (plain_python, node):
        assert each.decide(text, [{"context": [0.5], "seed": str(seed)}])[0]["error"] == expected


def test_nan_counts_as_missing() -> None:
    policy = releaf.frozen.read_policy(frozen_text(releaf.Random(2, {"x": releaf.Quantile(missing=True)}, seed=0)))
    assert policy.encode([math.nan]) == policy.encode([None]) == [-1.0]
