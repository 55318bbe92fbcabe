"""The notice that kernels are being compiled: on a terminal only, once, and not where it is silenced."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

FIRST_DECISIONS = """
from releaf.core.runtime import compile_notice
compile_notice._DELAY_SECONDS = 0.0
import releaf
for policy in (releaf.Random, releaf.UCB1):
    policy(2, 3, seed=0).decide([0.1, 0.2, 0.3])
"""


def standard_error(cache: Path, *, terminal: bool, **variables: str) -> str:
    """Standard error of a program that compiles two policies."""
    environment = {name: value for name, value in os.environ.items() if name != "RELEAF_QUIET"}
    environment |= {"PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_CACHE_DIR": str(cache), **variables}
    reader, writer = pty.openpty() if terminal else os.pipe()
    try:
        subprocess.run([sys.executable, "-c", FIRST_DECISIONS], env=environment, stderr=writer, timeout=600, check=True)
        os.write(writer, b"end\n")
        written = b""
        while not written.rstrip().endswith(b"end"):
            written += os.read(reader, 10_000)
        return written.decode()
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize(
    ("terminal", "variables", "lines"),
    [(True, {}, 1), (True, {"RELEAF_QUIET": "1"}, 0), (False, {}, 0)],
    ids=["terminal", "silenced", "not a terminal"],
)
def test_a_terminal_is_told_once_that_kernels_compile(
    tmp_path: Path, terminal: bool, variables: dict[str, str], lines: int
) -> None:
    written = standard_error(tmp_path, terminal=terminal, **variables)
    assert written.count("compiling") == lines
    assert len(written.splitlines()) == lines + 1  # and nothing else before "end"


def test_cached_kernels_are_not_compiled_and_nothing_is_said(tmp_path: Path) -> None:
    assert "compiling" in standard_error(tmp_path, terminal=True)
    assert "compiling" not in standard_error(tmp_path, terminal=True)
