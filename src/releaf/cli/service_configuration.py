"""Configuration of `releaf serve`: read from a TOML file, and printed with the source of each setting.

An option overrides an environment variable, which overrides the file, which overrides the default.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer

from releaf.cli.console import error_messages
from releaf.service.structured_logging import mask
from releaf.toml import format_value

PREFIX = "RELEAF"  # of environment variables
# Beginnings of variables that other parts read, or that Kubernetes sets for a service called releaf.
OTHER_VARIABLES = ("URL", "KEY", "CACHE", "DATA", "QUIET", "QUALITY_", "SERVICE_", "PORT_")
NOT_SETTINGS = ("config", "print_config", "salvage", "help")
KINDS: dict[type, tuple[Any, str]] = {  # of values in a file, by the type of the option's default
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    float: ((int, float), "a number"),
    str: (str, "a text"),
}


def read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make the settings of a file the defaults of the other options; a callback of an option that is read first."""
    if path is not None:
        with error_messages():
            context.default_map = _read_settings(context, path)
    return path


def _read_settings(context: typer.Context, path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    known = settings_of(context)
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"{path}: unknown setting {name!r}: {_suggest(name, known)}")
        _check(context, known[name], f"{path}: {name} is {mask(repr(value))}", value)
    return values


def settings_of(context: typer.Context) -> dict[str, Any]:
    """The options of the command that are settings, by their name in a file."""
    return {str(option.name): option for option in context.command.params if option.name not in NOT_SETTINGS}


def unknown_variables(context: typer.Context, environment: Mapping[str, str]) -> list[str]:
    """Warnings of environment variables that look like settings, and are none."""
    known = [option.name.upper() for option in context.command.params if option.name]
    given = [name.removeprefix(f"{PREFIX}_") for name in sorted(environment) if name.startswith(f"{PREFIX}_")]
    warnings = []
    for name in given:
        if name not in known and not name.startswith(OTHER_VARIABLES):
            nearest = get_close_matches(name, known, n=1)
            hint = f"did you mean {PREFIX}_{nearest[0]}?" if nearest else "releaf serve --help lists all"
            warnings.append(f"the environment variable {PREFIX}_{name} is no setting, and is ignored: {hint}")
    return warnings


def _suggest(name: str, known: Mapping[str, Any]) -> str:
    nearest = get_close_matches(name.lower().replace("-", "_"), known, n=1)
    return f"did you mean {nearest[0]!r}?" if nearest else f"expected one of {', '.join(known)}"


def _check(context: typer.Context, option: Any, what: str, value: Any) -> None:
    """Raise an error unless a value of the file has the type and the range of its option."""
    if option.multiple:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ValueError(f"{what}: expected a list of texts")
        return
    kind, expected = KINDS.get(type(option.default), KINDS[int])  # without a default: a limit that depends on another
    if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
        raise ValueError(f"{what}: expected {expected}")
    try:
        option.process_value(context, value)
    except Exception as error:  # BadParameter, whose module depends on the version of Typer
        raise ValueError(f"{what}: {getattr(error, 'message', error)}") from None


def format_config(context: typer.Context, settings: Mapping[str, Any]) -> str:
    """Settings as TOML, with the source of each as a comment; passwords are masked."""
    lines = []
    for name in settings_of(context):
        value = settings[name]
        plain = format_value(mask(value) if isinstance(value, str) else value)
        lines.append(f"{name} = {plain}  # {_source(context, name)}\n")
    return "".join(lines)


def _source(context: typer.Context, name: str) -> str:
    source = context.get_parameter_source(name)
    match "DEFAULT" if source is None else source.name:
        case "COMMANDLINE":
            return f"option --{name.replace('_', '-')}"
        case "ENVIRONMENT":
            return f"environment {PREFIX}_{name.upper()}"
        case "DEFAULT_MAP":
            return f"file {format_value(str(context.params['config']))}"
        case _:
            return "default"
