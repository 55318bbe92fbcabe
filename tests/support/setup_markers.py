"""Markers for what a test needs: a browser, PostgreSQL, Ray or a service process, found in its code."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import pytest

# Names that a test, its fixtures or its module's functions use, and the marker that they mean.
NAMES = {
    "open_page": "browser",
    "chromium_executable": "browser",
    "postgres_server": "postgresql",
    "run_service": "service_process",
    "running_api": "service_process",
    "start_service": "service_process",
    "demo_of_the_service": "service_process",
    "ServiceProcess": "service_process",
}
FIXTURES = {"cluster": "ray"}
PARAMETERS = {"postgres": "postgresql", "ray": "ray"}
ALTERNATIVES = {"sqlite": "postgresql"}  # a test with this parameter does without


def mark_by_setup(item: pytest.Item) -> None:
    """Add a marker for each thing that has to be started before the test."""
    if not isinstance(item, pytest.Function):
        return
    parameters = _parameters(item)
    names = set(_names_used_by(item))
    found = {marker for name, marker in NAMES.items() if name in names}
    found |= {marker for name, marker in FIXTURES.items() if name in item.fixturenames}
    found -= {marker for value, marker in ALTERNATIVES.items() if value in parameters}
    found |= {marker for value, marker in PARAMETERS.items() if value in parameters}
    for marker in sorted(found):
        item.add_marker(marker)


def _parameters(item: pytest.Function) -> set[str]:
    callspec = getattr(item, "callspec", None)
    return {value for value in callspec.params.values() if isinstance(value, str)} if callspec else set()


def _names_used_by(item: pytest.Function) -> Iterator[str]:
    """Global names in the code of a test, of its fixtures, and of the functions of its module that these call."""
    definitions = item._fixtureinfo.name2fixturedefs
    pending: list[Any] = [item.function, *(fixture.func for name in definitions for fixture in definitions[name])]
    seen: set[CodeType] = set()
    while pending:
        function = pending.pop()
        function = getattr(function, "__wrapped__", function)  # of a context manager
        if not isinstance(function, FunctionType) or function.__code__ in seen:
            continue
        seen.add(function.__code__)
        for name in _names_in(function.__code__):
            yield name
            called = function.__globals__.get(name)
            if getattr(called, "__module__", None) == function.__module__:
                pending.append(called)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):  # a function within the function
            yield from _names_in(constant)
