"""The first pages: outputs that getting started shows are those of the program, and the menu reaches every page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from console_blocks import console_environment

DOCS = Path(__file__).parents[2] / "docs"
STARTED = (DOCS / "getting-started.md").read_text(encoding="utf-8")
KINDS = ["Tutorials", "How-to guides", "Explanation", "Reference"]


def squeezed(text: str) -> str:
    """Words of a text by themselves, since a terminal's table is as wide as the terminal."""
    return " ".join(re.sub("─+", "", text).split())


def test_relevance_is_what_getting_started_shows(tmp_path: Path) -> None:
    commands, shown = re.findall(r"```console\n(.*?)```.*?```text\n(.*?)```", STARTED, flags=re.DOTALL)[0]
    printed = ""
    for command in re.findall(r"^\$ releaf (.+)$", commands, flags=re.MULTILINE):
        done = subprocess.run(
            [sys.executable, "-m", "releaf", *command.split()],
            cwd=tmp_path,
            env=console_environment(),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        printed = done.stdout
    assert squeezed(shown) == squeezed(printed)


def test_the_menu_has_the_four_kinds() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^:caption: (.+)$", index, flags=re.MULTILINE) == KINDS


@pytest.mark.parametrize("kind", ["tutorials", "how-to", "explanation"])
def test_the_menu_has_every_page_of_a_folder(kind: str) -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in (DOCS / kind).glob("*.md")}
    assert pages - set(index.splitlines()) == set()
