"""Names and values that could mislead: formulas in CSV exports, bidirectional control characters, long names."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from service_api import Api, running_api

from releaf.service.experiments.registry import ExperimentRegistry
from releaf.service.log.export_files import neutralize_formula
from releaf.service.messages import NewExperiment
from releaf.service.settings import ServiceSettings
from releaf.service.store import open_store

BIDIRECTIONAL = ["\u061c", "\u200e", "\u200f", *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running_api(tmp_path_factory.mktemp("service")) as api:
        yield api


# --- formulas -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cell",
    [
        "=1+1",
        "+1+1",
        "-1+1",
        "-2+3+cmd|' /C calc'!A0",
        "@SUM(1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "＝1+1",
        "-",
        "--1",
        "+١",
        "-1.5.2",
        "-1e",
        "-1\n",
        "-inf",
    ],
)
def test_text_that_a_spreadsheet_could_run_gets_an_apostrophe(cell: str) -> None:
    assert neutralize_formula(cell) == f"'{cell}"


@pytest.mark.parametrize(
    "cell", ["-1.5", "+1", "-.5", "-1e-7", "+2.E5", -1.5, -1, None, True, "", "tea", "a=b", "'=1", "1-2", "2026-01-31"]
)
def test_numbers_and_other_text_stay_as_they_are(cell: Any) -> None:
    assert neutralize_formula(cell) is cell


def test_a_csv_export_runs_no_formula_and_other_formats_are_exact(api: Api) -> None:
    features = [
        {"name": "=HYPERLINK(1)", "kind": "continuous", "low": -2.0, "high": 2.0},
        {"name": "town", "kind": "categorical", "values": ["@SUM(1)", "-3"]},
    ]
    path = api.new("Random", ["=cmd|' /C calc'!A0", "-7"], features)
    for town in ("@SUM(1)", "-3"):
        api.post(f"{path}/decide", {"contexts": [[-1.5, town]] * 20})
    header, *rows = csv.reader(io.StringIO(api.http.get(f"{path}/export").text))
    assert header[2:5] == ["'=HYPERLINK(1)", "town", "action"]
    assert {tuple(row[2:4]) for row in rows} == {("-1.5", "'@SUM(1)"), ("-1.5", "-3")}
    assert {row[4] for row in rows} == {"'=cmd|' /C calc'!A0", "-7"}
    lines = api.http.get(f"{path}/export", params={"format": "ndjson"}).text
    assert "\"=cmd|' /C calc'!A0\"" in lines
    assert '"=HYPERLINK(1)":-1.5' in lines


# --- names ----------------------------------------------------------------------------------------------------


def body(**further: Any) -> dict[str, Any]:
    return {"name": "new", "actions": ["a", "b"], "features": ["x"], "policy": {"name": "Random"}, **further}


@pytest.mark.parametrize("control", BIDIRECTIONAL, ids=ascii)
def test_names_with_bidirectional_control_characters_are_rejected(api: Api, control: str) -> None:
    name = f"safe{control}elif"
    told = f"bidirectional control character U+{ord(control):04X}: expected none"
    kinds = [{"name": name, "kind": "boolean"}]
    for wrong in (body(actions=["a", name]), body(features=[name]), body(features=kinds)):
        message = api.refused(422, "invalid", "POST", "/v1/experiments", wrong)
        assert told in message
        assert control not in message
    assert told in api.refused(422, "invalid", "POST", f"{api.new('Random')}/actions", {"action": name})


def test_names_longer_than_200_characters_are_rejected(api: Api) -> None:
    for wrong in (
        body(actions=["a", "x" * 201]),
        body(features=["x" * 201]),
        body(features=[{"name": "x" * 201, "kind": "boolean"}]),
    ):
        assert "200" in api.refused(422, "invalid", "POST", "/v1/experiments", wrong)
    api.new("Random", ["x" * 200, "b"], [{"name": "y" * 200, "kind": "boolean"}])


def test_names_in_any_script_are_accepted(api: Api) -> None:
    path = api.new("Random", ["שלום", "مرحبا", "größe"], ["高さ"])
    assert api.post(f"{path}/decide", {"context": [0.5]})["action"] in ("שלום", "مرحبا", "größe")


def test_an_experiment_with_such_names_from_before_goes_on(tmp_path: Path) -> None:
    store = str(tmp_path / "releaf.db")
    feature: dict[str, Any] = {"name": "y" * 300, "kind": "boolean"}
    spec = NewExperiment(name="old", actions=["a", "b\u202ec"], features=[feature])

    async def create() -> None:
        registry = ExperimentRegistry(open_store(store), ServiceSettings(store=store))
        await registry.start()
        await registry.create(spec)
        await registry.stop()

    asyncio.run(create())
    with running_api(tmp_path, "--store", store) as api:
        assert api.get("/v1/experiments/old")["status"] == "live"
        assert api.post("/v1/experiments/old/decide", {"context": [True]})["decision"] == 1
