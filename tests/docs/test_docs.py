"""Every example of the documentation runs, page by page; tables, pictures and pages are made without a complaint."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from console_blocks import Console, commands_with_output, console_environment, require_same_shape
from page_blocks import FILE, blocks, shown_in

import releaf

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
LARGEST_PICTURE = 150_000


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(DOCS).as_posix() for page in PAGES])
def test_the_examples_run_in_their_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    with ExitStack() as stack:
        console = Console(tmp_path, stack, monkeypatch)
        for kind, block, output in blocks(page.read_text(encoding="utf-8")):
            if kind == "python":
                with redirect_stdout(StringIO()) as printed:
                    exec(compile(block, page.name, "exec"), scope)
                assert output is None or shown_in(printed.getvalue(), output), printed.getvalue()
            elif kind.startswith(FILE):
                (tmp_path / kind.removeprefix(FILE)).write_text(block)
            else:
                for command, shown in commands_with_output(block):
                    console.run(command, shown)


def test_commands_are_found_and_their_failures_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = "$ releaf demo \\\n    --seeds 1\noutput\n$ curl -d '{\n  \"a\": 1\n}' http://x\n{}\n\n$ ls\n"
    assert list(commands_with_output(block)) == [
        ("releaf demo     --seeds 1", "output\n"),
        ("curl -d '{\n  \"a\": 1\n}' http://x", "{}\n\n"),
        ("ls", ""),
    ]
    with ExitStack() as stack, pytest.raises(AssertionError, match="no-such-command"):
        Console(tmp_path, stack, monkeypatch).run("releaf no-such-command", "")


def test_answers_that_are_shown_must_be_of_the_same_shape_with_the_same_fractions() -> None:
    given = '{"decision": 3, "action": "b", "estimates": {"a": 0.5}, "list": [1, 2]}'
    require_same_shape('{"decision": 1, "action": "a", "estimates": {"…": 0}, "list": [1, "…"]}', given, "")
    require_same_shape("", given, "")
    require_same_shape("a,b\n…", "a,b\n1,2\n", "")
    for wrong, why in {
        '{"decision": 1, "…": 0, "other": 1}': "other",
        '{"decision": 1}': "there but not shown",
        '{"decision": "1", "…": 0}': "answer.decision: shown is '1', it is 3",
        '{"estimates": null, "…": 0}': "answer.estimates",
        '{"list": [1], "…": 0}': "1 entries are shown, there are 2",
        "a,c\n…": '"decision": 3',
        '{"estimates": {"a": 0.47}, "…": 0}': "answer.estimates.a: shown is 0.47, it is 0.5",
    }.items():
        with pytest.raises(AssertionError, match=re.escape(why)):
            require_same_shape(wrong, given, "")


def test_the_tables_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "make_doc_tables.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("tool", "pictures"), [("make_doc_pictures", "pictures/*.svg"), ("make_scale_pictures", "results/staleness-*.svg")]
)
def test_the_pictures_can_be_made_anew_and_are_small(tool: str, pictures: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / f"{tool}.py"), str(tmp_path)]
    done = subprocess.run(command, env=console_environment(), capture_output=True, text=True, timeout=300)
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
        [*command, str(DOCS), str(tmp_path / "html")],
        env=console_environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "html" / "index.html").exists()
