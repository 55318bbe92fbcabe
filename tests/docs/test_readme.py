"""The README's examples run as they stand and print what it shows; what it names exists; it stays short."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from console_blocks import console_environment
from page_blocks import sentences, shown_in

import releaf

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MOST_LINES, MOST_WORDS, MOST_LINES_OF_CODE = 120, 35, 10
FIRST_PAGES = ["README.md", "docs/index.md", "docs/getting-started.md"]


def example() -> str:
    (found,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    return str(found)


def test_the_readme_says_what_for_whom_and_how_to_start_before_anything_else() -> None:
    opening = README[:1_300]
    assert "contextual bandits" in opening.splitlines()[2]
    assert opening.index(".svg") < opening.index("make demo") < opening.index("make test")
    assert len(README.splitlines()) <= MOST_LINES


@pytest.mark.parametrize("page", FIRST_PAGES)
def test_no_sentence_is_long(page: str) -> None:
    found = list(sentences((ROOT / page).read_text(encoding="utf-8")))
    assert len(found) > 5
    assert [sentence for sentence in found if len(sentence.split()) > MOST_WORDS] == []


def test_the_example_prints_what_the_readme_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert len([line for line in example().splitlines() if line.strip()]) <= MOST_LINES_OF_CODE
    exec(compile(example(), "README.md", "exec"), {})
    shown = README.partition("```text\n")[2].partition("```")[0]
    printed = capsys.readouterr().out
    assert shown_in(printed, shown), printed


def test_an_output_that_differs_in_a_digit_is_noticed() -> None:
    assert shown_in("a 1\nb\nc\nd 2\n", "a 1\n  …\nd 2\n")
    assert not shown_in("a 1\nb\nc\nd 3\n", "a 1\n  …\nd 2\n")
    assert not shown_in("a 1\nd 2\n", "a 1\n")


def test_the_commands_run_in_their_order(tmp_path: Path) -> None:
    commands = re.findall(r"^\$ releaf (.+?)(?:\s+#.*)?$", README, flags=re.MULTILINE)
    assert commands[-1].startswith("demo --service")  # does not end; tests/cli/test_demo.py runs it
    for command in commands[:-1]:
        done = subprocess.run(
            [sys.executable, "-m", "releaf", *command.split()],
            cwd=tmp_path,
            env=console_environment(),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr


def test_what_it_names_exists() -> None:
    names = set(re.findall(r"releaf\.([A-Z][A-Za-z]+)", README))
    assert {"AdaptiveReleaf", "Schema", "Releaf"} <= names
    assert [name for name in names if not hasattr(releaf, name)] == []


def test_its_links_lead_to_files_and_headings() -> None:
    links = re.findall(r"\]\(([^)#]*)#?([^)]*)\)", README)
    assert len(links) > 20
    for path, heading in links:
        page = ROOT / path
        assert page.is_file(), path
        titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE) if heading else []
        assert not heading or heading in [title.lower().replace(" ", "-") for title in titles], f"{path}#{heading}"
