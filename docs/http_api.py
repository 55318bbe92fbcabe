"""The directive ``http-api``: every operation and message of the service, from the description that it serves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ONE = "/v1/experiments/{experiment}"


class HttpApi(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        from releaf.service.app import ALL_OPERATIONS
        from releaf.service.http.openapi import describe

        description = describe(ALL_OPERATIONS)
        paths, schemas = description["paths"], description["components"]["schemas"]
        of_one = {path: paths[path] for path in sorted(paths) if path.startswith(ONE)}
        others = {path: paths[path] for path in sorted(paths) if path not in of_one}
        sections = [
            ("Operations of one experiment", f"`…` is `{ONE}`.", _operations(of_one)),
            ("Other operations", "", _operations(others)),
        ]
        sections += [(name, schema.get("description", ""), _fields(schema)) for name, schema in schemas.items()]
        return [self._section(*section) for section in sections]

    def _section(self, title: str, text: str, table: Iterator[str]) -> nodes.Node:
        section = nodes.section("", nodes.title(title, title), ids=[nodes.make_id(title)])
        self.state.document.note_explicit_target(section)
        section += self.parse_text_to_nodes("\n".join([text, "", *table]))
        return section


def _operations(paths: dict[str, Any]) -> Iterator[str]:
    yield "| | what it does | body → answer | scope |"
    yield "|---|---|---|---|"
    for path, methods in paths.items():
        for method, operation in methods.items():
            body = _content(operation.get("requestBody", {}).get("content", {}))
            answer = next(
                _content(given.get("content", {})) for status, given in operation["responses"].items() if status < "3"
            )
            summary = operation["summary"]
            for kind, told in (("query", "Query"), ("header", "Header")):
                names = [f"`{one['name']}`" for one in operation.get("parameters", []) if one["in"] == kind]
                summary += f". {told}: {', '.join(names)}" if names else ""
            place = f"`{method.upper()} {path.replace(ONE, '…')}`"
            yield f"| {place} | {summary} | {body} → {answer} | {_scope(operation)} |"


def _scope(operation: dict[str, Any]) -> str:
    if not operation["security"]:
        return "no key"
    scope = operation.get("description", "").partition("`")[2].partition("`")[0]
    return scope or "any key"


def _content(content: dict[str, Any]) -> str:
    """JSON by the names of its messages, other media types by their own."""
    told = [_told(given["schema"]) if kind == "application/json" else f"`{kind}`" for kind, given in content.items()]
    return ", or ".join(told)


def _fields(schema: dict[str, Any]) -> Iterator[str]:
    if not schema.get("properties"):
        return
    yield "| field | | |"
    yield "|---|---|---|"
    for name, field in schema["properties"].items():
        if name in schema.get("required", ()):
            default = "always there" if "default" not in field else ""
        else:
            default = f"`{field['default']!r}`" if field.get("default") not in (None, {}) else "may be left out"
        yield f"| `{name}` | {_told(field)} | {default} |"


def _told(schema: dict[str, Any]) -> str:
    """A schema in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{nodes.make_id(name)})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_told, schema["anyOf"])))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_inner(schema.get('items'))}"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"object of {_inner(values)}" if isinstance(values, dict) and values else "object"
    if isinstance(kind, list):
        return " or ".join(kind)
    return _limits({"integer": "whole number", "string": "text"}.get(str(kind), str(kind or "anything")), schema)


def _inner(schema: dict[str, Any] | None) -> str:
    told = _told(schema or {})
    return f"({told})" if " or " in told else told


def _limits(kind: str, schema: dict[str, Any]) -> str:
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    if least is not None and "maximum" in schema:
        return f"{kind} from {least:,} to {schema['maximum']:,}"
    return kind if least is None else f"{kind}, at least {least:,}"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("http-api", HttpApi)
    return {"parallel_read_safe": True}
