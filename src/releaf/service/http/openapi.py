"""OpenAPI description of the API (/openapi.json), generated from the table of operations and the messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from releaf._version import __version__
from releaf.service.errors import ApiError
from releaf.service.http.operation import Operation, Parameter
from releaf.service.messages import ErrorAnswer

_REF = "#/components/schemas/{name}"
_COMMON_ERRORS = (400, 403, 422, 503)  # of every operation
_HEADERS = {"X-Request-ID": {"$ref": "#/components/headers/X-Request-ID"}}  # of every response
_ETAG = {"ETag": {"description": "Entity tag, for If-None-Match", "required": True, "schema": {"type": "string"}}}
_REQUEST_ID = {
    "description": "Id of the request, also in error responses and the log: "
    "that of the request's X-Request-ID header if it has one of 1 to 128 letters, digits and . _ : / + = @ -",
    "required": True,
    "schema": {"type": "string"},
}
_PATTERNS = {
    "experiment": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"},
    "decision": {"type": "integer", "minimum": 1, "maximum": 2**53},
    "version": {"type": "string", "pattern": r"^v1\.(0|1-preview\.[123])$", "examples": ["v1.0", "v1.1-preview.3"]},
}


def describe(operations: Sequence[Operation]) -> dict[str, Any]:
    """Generate the OpenAPI 3.1 document."""
    types = _types(operations)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    components = _portable(components)
    by_type = dict(zip(map(str, types), schemas, strict=True))
    paths: dict[str, Any] = {}
    for operation in operations:
        path = re.sub(r":\w+}", "}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _operation(operation, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "releaf",
            "version": __version__,
            "summary": "Decide well while learning which information matters.",
            "license": {"name": "BSD-3-Clause", "identifier": "BSD-3-Clause"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "headers": {"X-Request-ID": _REQUEST_ID},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "releaf keys add"},
                "subscription_key": {"type": "apiKey", "in": "header", "name": "Ocp-Apim-Subscription-Key"},
            },
        },
    }


def _types(operations: Sequence[Operation]) -> list[Any]:
    types: dict[str, Any] = {str(ErrorAnswer): ErrorAnswer}
    for operation in operations:
        body = () if operation.body is None else (operation.body,)
        types |= {str(kind): kind for kind in (*body, *operation.answers, operation.error_format.message)}
    return list(types.values())


def _portable(schema: Any) -> Any:
    r"""Convert patterns for other languages: their ``$`` is Python's ``\Z``."""
    if isinstance(schema, dict):
        return {
            key: value.replace(r"\Z", "$") if key == "pattern" and isinstance(value, str) else _portable(value)
            for key, value in schema.items()
        }
    return [_portable(one) for one in schema] if isinstance(schema, list) else schema


def _operation(operation: Operation, by_type: dict[str, Any]) -> dict[str, Any]:
    names = re.findall(r"{(\w+)(?::\w+)?}", operation.path)
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": _PATTERNS.get(name, {"type": "string"})}
        for name in names
    ]
    for place, given in (("query", operation.query), ("header", operation.headers)):
        parameters += [_parameter(place, one) for one in given]
    description: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": _responses(operation, by_type),
    }
    if parameters:
        description["parameters"] = parameters
    if operation.body is not None:
        description["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": by_type[str(operation.body)]}},
        }
        if operation.lines:
            description["requestBody"]["content"]["application/x-ndjson"] = {"schema": {"type": "string"}}
    description["security"] = [] if operation.scope == "none" else [{"key": []}, {"subscription_key": []}, {}]
    if operation.scope not in ("none", "any"):
        description["description"] = f"Needs the scope `{operation.scope}` where keys are needed."
    return description


def _parameter(place: str, parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": place,
        "required": parameter.required,
        "description": parameter.about,
        "schema": dict(parameter.schema),
    }


def _responses(operation: Operation, by_type: dict[str, Any]) -> dict[str, Any]:
    form = operation.error_format
    error = {"headers": _HEADERS, "content": {form.media.decode(): {"schema": by_type[str(form.message)]}}}
    keyed = () if operation.scope == "none" else (401,)
    own = {*_COMMON_ERRORS, *keyed, 429, *operation.errors}
    statuses = sorted({form.adapt(ApiError(status, "", "")).status for status in own})
    errors = {str(status): {"description": HTTPStatus(status).phrase, **error} for status in statuses}
    found = {str(operation.status): _answer(operation, by_type)}
    if operation.has_etag:
        found["304"] = {"description": HTTPStatus(304).phrase, "headers": _HEADERS | _ETAG}
    return found | errors


def _answer(operation: Operation, by_type: dict[str, Any]) -> dict[str, Any]:
    if not operation.media and not operation.answers:
        return {"description": operation.summary, "headers": _HEADERS}
    if operation.media:
        kinds = {kind.partition(";")[0] for kind in operation.media}
        types = {kind: "object" if kind == "application/json" else "string" for kind in sorted(kinds)}
        content: dict[str, Any] = {kind: {"schema": {"type": type_}} for kind, type_ in types.items()}
    else:
        parts = [by_type[str(kind)] for kind in operation.answers]
        content = {"application/json": {"schema": parts[0] if len(parts) == 1 else {"anyOf": parts}}}
        if operation.lines:
            content["application/x-ndjson"] = {"schema": {"type": "string"}}
    headers = _HEADERS | (_ETAG if operation.has_etag else {})
    return {"description": operation.summary, "headers": headers, "content": content}
