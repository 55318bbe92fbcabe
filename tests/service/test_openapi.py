"""The OpenAPI description, and whether the service conforms to it (schemathesis)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import schemathesis
from service_api import Api, running_api

from releaf.service.app import ALL_OPERATIONS
from releaf.service.errors import ApiError

EXPERIMENTS: tuple[dict[str, Any], ...] = (
    {"name": "plain", "actions": ["a", "b"], "features": ["x", "y"]},
    {
        "name": "kinds",
        "actions": ["a", "b", 3],
        "features": [
            {"name": "income", "kind": "quantile", "missing": True},
            {"name": "town", "kind": "categorical", "values": ["Ulm", "Bern"]},
        ],
        "policy": {"name": "LinUCB"},
        "rewards": {"within_seconds": 1, "default": 0.5},
    },
    {"name": "spare", "actions": ["a"], "features": 1},
)
# Not asked: whether all that the description allows is taken, since it can't say that a context fits the experiment;
# and whether what was deleted is gone, since a retired experiment stays readable.
LEFT_OUT = "positive_data_acceptance,use_after_free"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def api(folder: Path) -> Iterator[Api]:
    with running_api(folder, "--rate-limit", "0") as api:
        for experiment in EXPERIMENTS:
            assert api.http.post("/v1/experiments", json=experiment).status_code == 201
        contexts = [[0.5, 0.5], [0.1, 0.9]]
        api.post("/v1/experiments/plain/decide", {"contexts": contexts})
        api.post("/v1/experiments/plain/reward", {"decision": 1, "reward": 1})
        yield api


@pytest.fixture(scope="module")
def document(api: Api) -> Any:
    return api.get("/openapi.json")


def test_the_description_is_openapi_3_1(document: Any) -> None:
    assert document["openapi"] == "3.1.0"
    described = schemathesis.openapi.from_dict(document)
    described.validate()
    assert sum(1 for _ in described.get_all_operations()) == len(ALL_OPERATIONS)
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_the_description_has_every_operation_once(document: Any) -> None:
    told = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
    assert told == {(re.sub(r":\w+}", "}", one.path), one.method) for one in ALL_OPERATIONS}
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(set(names)) == len(names) == len(ALL_OPERATIONS)


def test_every_reference_resolves(document: Any) -> None:
    known = document["components"]["schemas"]
    for name in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)):
        assert name in known


def test_patterns_are_valid_in_other_languages(document: Any) -> None:
    assert r"\\Z" not in json.dumps(document)


def test_every_operation_lists_its_errors(document: Any) -> None:
    for operation in ALL_OPERATIONS:
        path = re.sub(r":\w+}", "}", operation.path)
        told = document["paths"][path][operation.method.lower()]["responses"]
        invalid = operation.error_format.adapt(ApiError(422, "", "")).status
        assert {"400", "403", str(invalid), "429", "503", str(operation.status)} <= set(told)
        assert ("401" in told) == (operation.scope != "none")
        names_one = "{experiment}" in operation.path or any(one.name == "experiment" for one in operation.query)
        assert ("404" in told) == names_one
        if operation.body is not None:
            assert {"408", "413", "415"} <= set(told)


def test_the_idempotency_key_is_described_where_the_service_reads_it(document: Any) -> None:
    described = {
        operation["operationId"]: parameter
        for methods in document["paths"].values()
        for operation in methods.values()
        for parameter in operation.get("parameters", [])
        if parameter["in"] == "header"
    }
    assert list(described) == ["decide", "get_policy"]
    assert (described["decide"]["name"], described["decide"]["required"]) == ("Idempotency-Key", False)
    assert described["decide"]["schema"] == {"type": "string", "minLength": 1, "maxLength": 200}


def test_every_list_has_parameters_for_pages(document: Any) -> None:
    for path, last in {
        "/v1/experiments": "after",
        "/v1/policies": "after",
        "/v1/experiments/{experiment}/decisions": "before",
    }.items():
        names = {parameter["name"] for parameter in document["paths"][path]["get"]["parameters"]}
        assert {"limit", last} <= names


def test_every_response_is_described_with_its_request_id(document: Any) -> None:
    assert document["components"]["headers"]["X-Request-ID"]["required"]
    for methods in document["paths"].values():
        for operation in methods.values():
            assert all("X-Request-ID" in response["headers"] for response in operation["responses"].values())


def _with_known_names(document: Any) -> Any:
    """The description for a service with these experiments: else most requests would meet none."""
    narrowed = json.loads(json.dumps(document))
    for methods in narrowed["paths"].values():
        for operation in methods.values():
            known = ["spare"] if operation["operationId"] == "retire_experiment" else ["plain", "kinds"]
            for parameter in operation.get("parameters", []):
                if parameter["name"] == "experiment":
                    parameter["schema"] = {"type": "string", "enum": [*known, "nobody"]}
    return narrowed


def _asked_at_random(api: Api, folder: Path, document: Any, *options: str) -> None:
    """Let schemathesis ask what the description allows and what it does not, and compare the answers with it."""
    described = folder / "openapi.json"
    described.write_text(json.dumps(document))
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", str(described), "--url", api.url, "--no-color"),
        *("--checks", "all", "--exclude-checks", LEFT_OUT, "--seed", "1", "--generation-database", "none"),
        *("--exclude-path-regex", "/feed$", "--request-timeout", "30", "--continue-on-failure", *options),
        *("--max-response-time", "20"),  # of the first shadow of a class, whose kernels may have to be compiled
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_the_service_conforms_to_its_openapi_description(api: Api, folder: Path, document: Any) -> None:
    options = ("--exclude-operation-id", "create_experiment", "--max-examples", "10", "--max-time", "35")
    _asked_at_random(api, folder, _with_known_names(document), *options)
    assert '"level": "error"' not in (folder / "service.log").read_text()


def test_creating_experiments_conforms_to_the_openapi_description(api: Api, folder: Path, document: Any) -> None:
    options = ("--include-operation-id", "create_experiment", "--max-examples", "100", "--max-time", "10")
    _asked_at_random(api, folder, document, *options)
    assert '"level": "error"' not in (folder / "service.log").read_text()
    assert api.get("/readyz")["status"] == "ready"
