"""The README's example runs as it stands, and its table names what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import releaf

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_readme_opens_with_the_two_commands() -> None:
    opening = README[:400]
    assert opening.index("make demo") < opening.index("make test")


def test_the_example_runs_and_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    exec(compile(example, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "Decision 5000 chose" in printed
    assert "its estimated reward is the highest" in printed


def test_what_the_table_offers_exists() -> None:
    for name in set(re.findall(r"releaf\.([A-Za-z_]+)\(", README)):
        assert hasattr(releaf, name), name
