"""Commands load only the packages they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from releaf.cli import app
try:
    app(sys.argv[1:])
finally:
    print("numba" in sys.modules)
"""


def loads_numba(*arguments: str) -> bool:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return output.splitlines()[-1] == "True"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["train", "--help"]])
def test_help_and_version_load_no_numba(arguments: list[str]) -> None:
    assert not loads_numba(*arguments)


def test_listing_keys_as_a_table_loads_no_numba(tmp_path: Path) -> None:
    pytest.importorskip("apsw")
    store = str(tmp_path / "releaf.db")
    assert not loads_numba("keys", "add", "dashboard", "--scope", "*:read", "--store", store)
    assert not loads_numba("keys", "list", "--store", store)


def test_the_doctor_loads_numba_to_report_its_version() -> None:
    assert loads_numba("doctor", "--json")
