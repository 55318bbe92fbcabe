"""Every example of the documentation runs, page by page; tables, pictures and pages are made without a complaint."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import releaf

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
LARGEST_PICTURE = 150_000
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


def environment() -> dict[str, str]:
    """That of these tests, with the package where they find it, in a terminal that is wide enough."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "120", "PYTHONIOENCODING": "utf-8"}


def commands(block: str) -> list[str]:
    """The commands of a console block that are releaf's: lines after "$ ", with those they go on in."""
    joined = block.replace("\\\n", " ")
    return [line[2:].strip() for line in joined.splitlines() if line.startswith("$ releaf ")]


def run(command: str, folder: Path) -> None:
    shown = command.replace("releaf ", f'"{sys.executable}" -m releaf ', 1)
    done = subprocess.run(
        ["bash", "-c", shown], cwd=folder, env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(DOCS).as_posix() for page in PAGES])
def test_the_examples_run_in_their_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(block, page.name, "exec"), scope)
        else:
            for command in commands(block):
                run(command, tmp_path)


def test_commands_are_found_and_their_failures_noticed(tmp_path: Path) -> None:
    assert commands("$ releaf demo \\\n    --seeds 1\noutput\n$ ls\n$ releaf --help\n") == [
        "releaf demo      --seeds 1",
        "releaf --help",
    ]
    with pytest.raises(AssertionError, match="no-such-command"):
        run("releaf no-such-command", tmp_path)


def test_the_tables_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "make_doc_tables.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("tool", "pictures"), [("make_doc_pictures", "pictures/*.svg"), ("make_scale_pictures", "results/staleness-*.svg")]
)
def test_the_pictures_can_be_made_anew_and_are_small(tool: str, pictures: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / f"{tool}.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    made, kept = sorted(tmp_path.glob("*.svg")), sorted(DOCS.glob(pictures))
    assert [path.name for path in made] == [path.name for path in kept]
    assert all(path.stat().st_size < LARGEST_PICTURE for path in [*made, *kept])


def test_the_changelog_and_the_citation_are_of_this_version() -> None:
    changelog, citation = ((ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "CITATION.cff"))
    assert re.findall(r"^## \[(.+?)\]", changelog, flags=re.MULTILINE)[:2] == ["Unreleased", releaf.__version__]
    assert f"\nversion: {releaf.__version__}\n" in citation


def test_the_pages_are_built_without_a_warning(tmp_path: Path) -> None:
    """Links that lead nowhere, pages that nothing leads to, and docstrings that can't be read are warnings."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-d", str(tmp_path / "trees")]
    done = subprocess.run(
        [*command, str(DOCS), str(tmp_path / "html")], env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "html" / "index.html").exists()
