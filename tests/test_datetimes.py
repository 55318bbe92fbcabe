"""Dates and times as features: spellings, parts, time zones, missing values, and what learners make of them."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet

import releaf
from releaf import DateTime, Schema
from releaf.client.request_encoding import encode_context, encode_json
from releaf.sklearn import AdaptiveReleafClassifier, BanditPolicy, ReleafClassifier

YEAR = DateTime("2024-01-01", "2025-01-01")
NAMES = ("d: trend", "d: weekday", "d: hour", "d: day of year (sine)", "d: day of year (cosine)")
moments = st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1)).map(lambda moment: moment.replace(microsecond=0))


def encoded(feature: DateTime, value: Any) -> list[float]:
    units: list[float] = Schema(d=feature).encoder().encode([value]).tolist()
    return units


# --- parts ----------------------------------------------------------------------------------------------------


@given(moments)
@example(datetime(2024, 2, 29, 23, 59, 59))
@example(datetime(2023, 12, 31))
@example(datetime(1969, 12, 31, 23))
def test_the_parts_are_what_the_calendar_says(moment: datetime) -> None:
    trend, weekday, hour, sine, cosine = encoded(YEAR, moment)
    assert trend == pytest.approx(min(max((moment - datetime(2024, 1, 1)) / timedelta(days=366), 0.0), 1.0))
    assert int(weekday * 7) == moment.weekday()
    assert int(hour * 24) == moment.hour
    start, end = datetime(moment.year, 1, 1), datetime(moment.year + 1, 1, 1)
    angle = 2 * math.pi * (moment - start).days / (end - start).days
    assert [2 * sine - 1, 2 * cosine - 1] == pytest.approx([math.sin(angle), math.cos(angle)], abs=1e-9)


def test_the_parts_have_names() -> None:
    assert Schema(d=YEAR).names == NAMES
    assert Schema(d=DateTime()).names == NAMES[1:]  # no trend without a start and an end
    assert Schema(d=DateTime(parts=["hour", "weekday"])).names == ("d: weekday", "d: hour")
    assert list(Schema(d=YEAR, x=releaf.Boolean()).inputs) == ["d", "x"]
    assert Schema(d=YEAR, x=releaf.Boolean()).index("d: hour") == 2
    with pytest.raises(ValueError, match="feature 'd' has parts: expected one of 'd: trend', 'd: weekday'"):
        Schema(d=YEAR).index("d")


def test_dates_beyond_the_trend_count_as_its_ends() -> None:
    assert encoded(YEAR, "1066-10-14")[0] == 0.0
    assert encoded(YEAR, "2025-01-01") == encoded(YEAR, "2031-01-01")[:1] + encoded(YEAR, "2025-01-01")[1:]
    assert encoded(YEAR, "9999-12-31")[0] == 1.0


def test_the_end_of_a_year_is_next_to_its_beginning() -> None:
    last, first, july = (np.array(encoded(YEAR, day)[3:]) for day in ("2023-12-31", "2024-01-01", "2024-07-01"))
    assert np.abs(last - first).max() < 0.01
    assert np.abs(july - first).max() > 0.9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start": "2024-01-01"}, "needs dates as start and end, or neither, got start='2024-01-01', end=None"),
        ({"start": "2024-01-01", "end": "soon"}, "needs dates as start and end"),
        ({"start": "2024-01-02", "end": "2024-01-01"}, "needs a start before its end, got start='2024-01-02'"),
        ({"parts": ["month"]}, "must be some of trend, weekday, hour, day of year, got parts=['month']"),
        ({"parts": []}, "must be some of trend"),
        ({"parts": ["hour", "hour"]}, "must be some of trend"),
        ({"parts": ["trend"]}, "the trend of DateTime needs a start and an end"),
        ({"time_zone": "Mars"}, "unknown time zone 'Mars': expected an IANA name such as 'Europe/Berlin'"),
        ({"time_zone": "../etc"}, "unknown time zone"),
    ],
)
def test_a_date_without_sense_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        DateTime(**arguments)


# --- spellings ------------------------------------------------------------------------------------------------


def spellings(moment: datetime) -> list[Any]:
    iso = moment.isoformat()
    texts = [
        iso,
        iso.replace("T", " "),
        f" {iso} ",
        f"{iso}Z",
        f"{iso}+00:00",
        f"{iso} UTC",
        f"{iso} +0000",
        f"{iso}.0",
    ]
    elsewhere = moment.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=5, minutes=30)))
    objects = [moment, moment.replace(tzinfo=UTC), elsewhere, elsewhere.isoformat()]
    days = [moment.date(), moment.date().isoformat()] if moment.time() == datetime.min.time() else []
    return [*texts, *objects, *days, np.datetime64(moment, "s"), np.datetime64(moment, "us")]


@given(st.one_of(moments, moments.map(lambda moment: moment.replace(hour=0, minute=0, second=0))))
def test_all_spellings_of_a_moment_mean_the_same(moment: datetime) -> None:
    expected = encoded(YEAR, moment)
    for spelling in spellings(moment):
        assert encoded(YEAR, spelling) == expected, spelling
    many = Schema(d=YEAR).encoder().encode_many([[spelling] for spelling in spellings(moment)])
    assert (many == expected).all()


DAYS = [datetime(2024, 1, 31, 9, 30), None, datetime(2024, 12, 24)]
COLUMNS: dict[str, Any] = {
    "list": [[value] for value in DAYS],
    "datetime64": np.array(DAYS, dtype="datetime64[us]")[:, None],
    "datetime64, nanoseconds": np.array(DAYS, dtype="datetime64[ns]")[:, None],
    "pandas": pd.DataFrame({"d": DAYS}),
    "pandas, text": pd.DataFrame({"d": ["2024-01-31 09:30", None, "2024-12-24"]}),
    "pandas, time zone": pd.DataFrame({"d": pd.to_datetime(pd.Series(DAYS)).dt.tz_localize("UTC")}),
    "pandas, arrow": pd.DataFrame({"d": pd.array(DAYS, dtype=pd.ArrowDtype(pa.timestamp("us")))}),
    "polars": pl.DataFrame({"d": DAYS}),
    "polars, time zone": pl.DataFrame({"d": DAYS}).with_columns(
        pl.col("d").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
    ),
    "pyarrow": pa.table({"d": DAYS}),
    "pyarrow, nanoseconds": pa.table({"d": pa.array(DAYS, pa.timestamp("ns"))}),
    "pyarrow, time zone": pa.table({"d": pa.array(DAYS, pa.timestamp("ms", tz="America/New_York"))}),
    "pyarrow batch": pa.RecordBatch.from_pydict({"d": DAYS}),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_every_table_means_the_same(name: str) -> None:
    schema = Schema(d=DateTime("2024-01-01", "2025-01-01", missing=True))
    expected = [schema.encoder().encode([value]).tolist() for value in DAYS]
    assert schema.encoder().encode_many(COLUMNS[name]).tolist() == expected
    assert expected[1] == [-1.0, 7.5 / 8, 24.5 / 25, -1.0, -1.0]


@pytest.mark.parametrize("name", [name for name in COLUMNS if "list" not in name and "datetime64" not in name])
def test_dates_of_every_table_are_guessed(name: str) -> None:
    schema = Schema.guess(COLUMNS[name])
    wanted = DateTime("2024-01-31", "2024-12-24", ["trend", "weekday", "hour"], missing=True)
    assert schema == Schema(d=wanted)
    assert len(releaf.AdaptiveReleaf(2, schema, seed=0).decide_many(COLUMNS[name])) == 3


@pytest.mark.parametrize("gone", [None, math.nan, pd.NaT, np.datetime64("NaT")])
def test_missing_dates_are_a_case_of_their_own_or_refused(gone: Any) -> None:
    assert encoded(DateTime(missing=True), gone) == [7.5 / 8, 24.5 / 25, -1.0, -1.0]
    with pytest.raises(ValueError, match=r"feature 'd' is missing .*: expected a date or a time, such as 2024-01-31"):
        encoded(YEAR, gone)


WRONG = ["soon", "2024-13-01", "2024-02-30", "20240131", "31.12.2024", "12", 3, 1.7e9, True, ["2024-01-01"]]


@pytest.mark.parametrize("value", WRONG)
def test_what_is_no_date_is_refused_by_name_and_row(value: Any) -> None:
    message = f"is {value!r}: expected a date or a time, such as 2024-01-31 or 2024-01-31T09:30:00"
    encoder = Schema(d=YEAR).encoder()
    with pytest.raises(ValueError, match=re.escape(f"feature 'd' {message}")):
        encoder.encode([value])
    with pytest.raises(ValueError, match=re.escape(f"feature 'd' of row 1 {message}")):
        encoder.encode_many([["2024-01-01"], [value]])
    assert encoder.problems([["2024-01-01", value]]) == {1: f"feature 'd' {message}"}


def test_a_value_with_an_offset_is_converted_and_one_without_is_local() -> None:
    berlin = DateTime(parts=["weekday", "hour"], time_zone="Europe/Berlin")
    for spelt in ("2024-07-01T00:30:00", "2024-06-30T22:30:00Z", datetime(2024, 6, 30, 22, 30, tzinfo=UTC)):
        assert encoded(berlin, spelt) == [0.5 / 7, 0.5 / 24]  # Monday, half past midnight in Berlin
    assert encoded(DateTime(parts="hour"), "2024-07-01T00:30:00+02:00") == [22.5 / 24]


# --- guessing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "hours", "parts"),
    [
        (range(3), [0], ["trend"]),
        (range(8), [0], ["trend", "weekday"]),
        (range(180), [0], ["trend", "weekday"]),
        (range(8), [0, 12], ["trend", "weekday", "hour"]),
        (range(1), [8, 9, 17], ["trend", "hour"]),
        (range(0, 800, 3), [0], ["trend", "weekday", "day of year"]),
        (range(0, 800, 3), [1, 2], ["trend", "weekday", "hour", "day of year"]),
    ],
)
def test_only_parts_that_the_dates_can_tell_apart_are_guessed(days: Any, hours: list[int], parts: list[str]) -> None:
    stamps = [datetime(2024, 1, 1) + timedelta(days=day, hours=hour) for day in days for hour in hours]
    for column in (stamps, [stamp.isoformat() for stamp in stamps], [*stamps, None]):
        feature = Schema.guess({"d": column}).inputs["d"]
        assert isinstance(feature, DateTime)
        assert list(feature.parts or ()) == parts
        assert feature.missing


def test_a_few_texts_among_dates_are_noted() -> None:
    column = [f"2024-01-{day:02d}" for day in range(1, 31)] + ["unknown"]
    with pytest.warns(UserWarning, match=r"has 1 values that are no dates, such as 'unknown' \(row 30\): such rows"):
        assert isinstance(Schema.guess({"d": column}).inputs["d"], DateTime)


# --- learners -------------------------------------------------------------------------------------------------


def planted(rows: int, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Action "a" is good on weekends, "b" in winter, "c" more and more; a number has no effect."""
    draw = np.random.default_rng(seed)
    day = draw.integers(0, 1_096, rows)
    stamps = (
        np.datetime64("2022-01-01T00:00") + day * np.timedelta64(1, "D") + draw.integers(0, 24, rows).astype("m8[h]")
    )
    weekend = (stamps.astype("datetime64[D]").astype(int) + 3) % 7 >= 5
    winter = np.cos(2 * np.pi * day / 365.25)
    chances = np.column_stack([0.15 + 0.6 * weekend, 0.45 + 0.3 * winter, 0.2 + 0.5 * day / 1_096])
    table = pd.DataFrame({"x": draw.random(rows), "when": stamps})
    return table, (draw.random(chances.shape) < chances).astype(float)


def test_relevance_and_explanations_name_the_parts() -> None:
    table, rewards = planted(6_000)
    bandit = releaf.AdaptiveReleaf(["a", "b", "c"], Schema.guess(table), seed=0)
    bandit.replay(table, rewards)
    names, shares = bandit.schema.names, bandit.relevance()
    leading = [names[index] for index in shares.argmax(axis=1)]
    assert leading == ["when: weekday", "when: day of year (cosine)", "when: trend"]
    assert (shares.max(axis=1) > 0.8).all()
    told = bandit.explain(bandit.decide({"x": 0.5, "when": "2031-01-04T12:00"}))  # a Saturday, years later
    first = {known.action: known.terms[0].features for known in told.actions}
    assert first["b"] == ("when: day of year (cosine)",)
    assert first["c"] == ("when: trend",)
    assert bandit.decide({"x": 0.5, "when": "2031-07-05"}).action == "a"
    assert [point.value for point in bandit.effect("when: weekday")["a"]][5:] == ["Saturday", "Sunday"]
    trend = [point.value for point in bandit.effect("when: trend")["c"]]
    assert trend[0] < datetime(2022, 2, 1) < datetime(2024, 12, 1) < trend[-1]
    for feature in names:
        releaf.plot.partition(bandit, feature).to_dict()


def test_a_counterfactual_of_a_date_is_the_nearest_day_with_another_decision() -> None:
    table, rewards = planted(6_000)
    bandit = releaf.AdaptiveReleaf(["a", "b", "c"], Schema.guess(table), seed=0)
    bandit.replay(table, rewards)
    told = bandit.explain({"x": 0.5, "when": "2023-07-08T12:00"})  # a Saturday in summer
    assert told.action == "a"
    found = told.counterfactual
    assert found is not None
    assert (found.feature, found.value) == ("when", datetime(2023, 7, 7, 12))  # Friday
    assert f"With when = {found.value}, {found.action!r} would be estimated highest." in told.text
    leader = bandit.actions[int(np.argmax(bandit.estimate([{"x": 0.5, "when": found.value}])))]
    assert leader == found.action != "a"
    assert told.to_dict()["counterfactual"]["value"] == "2023-07-07T12:00:00"


def test_no_counterfactual_of_a_sine() -> None:
    table, rewards = planted(3_000)
    schema = Schema(x=releaf.Continuous(), when=DateTime(parts=["day of year"]))
    bandit = releaf.AdaptiveReleaf(["a", "b", "c"], schema, seed=0)
    bandit.replay(table, rewards)
    assert bandit.explain({"x": 0.5, "when": "2023-01-08"}).counterfactual is None


def test_a_wave_is_described_by_the_seasons_in_which_it_has_a_value() -> None:
    sine, cosine = (Schema(d=YEAR).features[index] for index in (3, 4))
    assert cosine.describe(0.9, 1.0) == "from 24 November to 7 February"
    assert cosine.describe(0.0, 0.1) == "from 26 May to 8 August"
    assert sine.describe(0.5, 0.75) == "from 1 January to 31 January or from 2 June to 2 July"


@pytest.mark.parametrize("policy", [releaf.AdaptiveReleaf, releaf.Releaf])
def test_a_log_with_dates_is_fitted_in_parallel_as_from_memory(policy: Any, tmp_path: Path) -> None:
    table, rewards = planted(900)
    schema = Schema(x=releaf.Continuous(), when=DateTime("2022-01-01", "2025-01-01", missing=True))
    log = pa.table({**{name: table[name] for name in table}, "action": ["a", "b", "c"] * 300, "reward": rewards[:, 0]})
    parquet.write_table(log, tmp_path / "dates.parquet", row_group_size=200)
    text = log.set_column(1, "when", pa.array([str(value) for value in table["when"]]))
    parquet.write_table(text, tmp_path / "texts.parquet")
    one, other = (releaf.fit_log(tmp_path / f"{name}.parquet", schema, policy=policy) for name in ("dates", "texts"))
    future = [[0.3, "2040-05-05T05:00"], [0.9, None]]
    assert np.array_equal(one.estimate(future), other.estimate(future))
    assert np.isfinite(one.estimate(future)).all()


@pytest.mark.parametrize("kind", [AdaptiveReleafClassifier, ReleafClassifier])
@pytest.mark.parametrize("spelt", ["datetime64", "text"])
def test_classifiers_take_dates_apart(kind: Any, spelt: str) -> None:
    table, _ = planted(2_000)
    y = table["when"].dt.day_of_week >= 5
    if spelt == "text":
        table["when"] = table["when"].astype(str)
    model = kind(random_state=0).fit(table, y)
    assert model.score(table, y) > 0.95
    later = pd.DataFrame({"x": [0.5, 0.5, 0.5], "when": ["2031-01-04", "2031-01-06", "never"]})
    assert model.predict(later)[:2].tolist() == [True, False]  # what is no date counts as missing
    names = model.learner_.schema.names
    assert names[model.feature_relevance_[1].argmax()] == "when: weekday"


def test_an_estimator_takes_a_schema_with_dates() -> None:
    table, rewards = planted(1_500)
    schema = Schema(x=releaf.Continuous(), when=DateTime(parts=["weekday"]))
    model = BanditPolicy("LinUCB", features=schema, random_state=0)
    model.fit(table, np.repeat(["a", "c"], 750), np.r_[rewards[:750, 0], rewards[750:, 2]])
    saturday = pd.DataFrame({"x": [0.5], "when": pd.to_datetime(["2022-01-08"])})
    assert model.predict(saturday).tolist() == ["a"]


def test_a_client_sends_dates_as_text() -> None:
    row = {
        "a": date(2024, 1, 31),
        "b": datetime(2024, 1, 31, 9),
        "c": np.datetime64("2024-01-31T09", "ns"),
        "d": pd.NaT,
    }
    sent = encode_json(encode_context(row)).decode()
    assert sent == '{"a":"2024-01-31","b":"2024-01-31T09:00:00","c":"2024-01-31T09:00:00.000000000","d":null}'
    assert encoded(YEAR, "2024-01-31T09:00:00.000000000") == encoded(YEAR, datetime(2024, 1, 31, 9))
