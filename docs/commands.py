"""The directives ``commands`` and ``exit-codes``: what ``releaf`` takes and returns, from the program itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command

from releaf.cli.manual import EXAMPLE, EXIT_CODE, EXIT_CODES, parts_of


class Commands(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        from releaf.cli import app

        return [self._section(name, command) for name, command in _commands(get_command(app))]

    def _section(self, name: str, command: Any) -> nodes.Node:
        title = f"releaf {name}"
        section = nodes.section("", nodes.title(title, title), ids=[nodes.make_id(title)])
        self.state.document.note_explicit_target(section)
        parts = parts_of(command.epilog)
        text = [command.help or "", *self._table(command.params), "```text", f"$ {parts[EXAMPLE]}", "```"]
        text += ["", EXIT_CODE + parts[EXIT_CODE]]
        section += self.parse_text_to_nodes("\n".join(text))
        return section

    def _table(self, params: list[Any]) -> list[str]:
        rows = [f"| {_names(param)} | {_help(param)} | {_default(param)} |" for param in params]
        return ["", "| | | default |", "|---|---|---|", *rows, ""] if rows else [""]


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """All commands with their names; of a group of commands, each with the group's name before it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield before + name, command


def _names(param: Any) -> str:
    if param.param_type_name == "argument":
        name = param.name.upper()
        return f"`{name}`" if param.required else f"`[{name}]`"
    return ", ".join(f"`{option}`" for option in param.opts)


def _help(param: Any) -> str:
    return str(param.help or "").replace("|", "\\|")


def _default(param: Any) -> str:
    if param.required:
        return "*must be given*" if param.param_type_name == "option" else ""
    none = param.default is None or param.default is False or callable(param.default)
    return "" if none else f"`{_plain(param.default)}`"


def _plain(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


class ExitCodes(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        rows = [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
        return list(self.parse_text_to_nodes("\n".join(["| code | meaning |", "|---|---|", *rows])))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("exit-codes", ExitCodes)
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
