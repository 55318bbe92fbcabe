"""Run the console blocks of a documentation page: commands of releaf, and curl against a running service."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from page_blocks import shown_in
from running_service import run_service

DOCUMENTED_URL = "http://127.0.0.1:8000"  # the address of the service, as pages tell it
SHELL = {"head", "printf"}  # programs of the shell that pages use, besides releaf and curl
ELLIPSIS = "…"  # in an answer that is shown: here is more


def console_environment() -> dict[str, str]:
    """That of these tests, with the package where they find it, in a terminal that is wide enough."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "120", "PYTHONIOENCODING": "utf-8"}


def commands_with_output(block: str) -> Iterator[tuple[str, str]]:
    """The commands of a block, those that go on over lines whole, each with the output that is shown after it."""
    command, shown = "", ""
    for line in block.splitlines():
        if line.startswith("$ ") and not _goes_on(command):
            if command:
                yield command, shown
            command, shown = line[2:], ""
        elif _goes_on(command):
            command = command.removesuffix("\\") + ("" if command.endswith("\\") else "\n") + line
        else:
            shown += line + "\n"
    if command:
        yield command, shown


def _goes_on(command: str) -> bool:
    return command.endswith("\\") or command.count("'") % 2 == 1


class Console:
    """Runs the commands of one page in a folder, ``releaf serve`` in the background for as long as that takes."""

    def __init__(self, folder: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._stack, self._monkeypatch = folder, stack, monkeypatch
        self._url = DOCUMENTED_URL

    def run(self, command: str, shown: str) -> None:
        program, *options = shlex.split(command)
        if [program, *options[:1]] == ["releaf", "serve"]:
            self._url = self._stack.enter_context(run_service(self._folder, *options[1:]))
            self._monkeypatch.setenv("RELEAF_URL", self._url)
        elif program == "releaf":
            fails = re.search(r"^Error: ", shown, re.MULTILINE) is not None
            line = "2>&1 " + command.replace("releaf ", f'"{sys.executable}" -m releaf ', 1)
            printed = self._output(line, command, code=int(fails))
            assert not shown.strip() or shown_in(printed, shown), f"$ {command}\n{printed}"
        elif program in SHELL:
            self._output(command, command)
        elif program == "curl":
            require_same_shape(shown, self._output(command.replace(DOCUMENTED_URL, self._url), command), command)

    def _output(self, line: str, command: str, code: int = 0) -> str:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self._folder,
            env=console_environment(),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == code, f"$ {command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def require_same_shape(shown: str, given: str, command: str) -> None:
    """Raise unless an answer has the fields, and kinds of values, that a page shows."""
    wanted = shown.strip()
    try:
        content = json.loads(wanted) if wanted else None
    except ValueError:
        pattern = ".*".join(map(re.escape, wanted.split(ELLIPSIS)))
        assert re.fullmatch(pattern, given.strip(), re.DOTALL), f"$ {command}\n{given}"
        return
    if content is not None:
        different = list(differences(content, json.loads(given)))
        assert not different, f"$ {command}\n{given}\n" + "\n".join(different)


def differences(shown: Any, given: Any, where: str = "answer") -> Iterator[str]:
    """Where an answer is not of the shape that is shown; a null that is shown has to be one."""
    if isinstance(shown, dict) and isinstance(given, dict):
        more, less = set(given) - set(shown), set(shown) - set(given) - {ELLIPSIS}
        if less or (more and ELLIPSIS not in shown):
            yield f"{where}: {sorted(less)} are shown but not there, {sorted(more)} are there but not shown"
        for name in set(shown) & set(given):
            yield from differences(shown[name], given[name], f"{where}.{name}")
    elif isinstance(shown, list) and isinstance(given, list):
        open_end = shown[-1:] == [ELLIPSIS]
        wanted = shown[:-1] if open_end else shown
        if len(given) < len(wanted) or (len(given) > len(wanted) and not open_end):
            yield f"{where}: {len(wanted)} entries are shown, there are {len(given)}"
        for place, (one, other) in enumerate(zip(wanted, given, strict=False)):
            yield from differences(one, other, f"{where}[{place}]")
    elif _kind(shown) != _kind(given) or (isinstance(shown, float) and not _is_near(shown, given)):
        yield f"{where}: shown is {shown!r}, it is {given!r}"


def _is_near(shown: float, given: float) -> bool:
    """Whether a number with a fraction is the one that is shown, up to about its last digit on other machines."""
    digits = len(f"{shown:.10f}".rstrip("0").partition(".")[2])
    return digits == 0 or abs(shown - given) <= 2.0 * 10.0**-digits


def _kind(value: Any) -> type:
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)
