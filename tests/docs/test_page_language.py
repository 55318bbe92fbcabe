"""Pages are written to be read: each opens with what one can do after it, and no sentence is long."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from page_blocks import sentences

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
KINDS = ("tutorials", "how-to", "explanation", "evidence")
MOST_WORDS = 35
NOT_REWRITTEN = {  # in the language of the other pages
    *("explanation/scale.md", "how-to/apprentice-mode.md", "how-to/control-group.md", "how-to/costs-and-budgets.md"),
    *("how-to/from-personalizer.md", "how-to/many-actions.md"),
}
OPENING = re.compile(r"\b(After|On|With) this (page|tutorial|documentation)\b.*\byou\b", re.DOTALL)


def name(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


REWRITTEN = [page for page in PAGES if name(page) not in NOT_REWRITTEN]


@pytest.mark.parametrize("page", REWRITTEN, ids=name)
def test_no_sentence_is_long(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [sentence for sentence in sentences(text) if len(sentence.split()) > MOST_WORDS] == []


@pytest.mark.parametrize("page", [page for page in REWRITTEN if page.parent.name in KINDS], ids=name)
def test_a_page_opens_with_what_one_can_do_after_it(page: Path) -> None:
    opening = page.read_text(encoding="utf-8").split("\n\n")[1]
    assert OPENING.search(opening), opening


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name in ("explanation", "evidence")], ids=name)
def test_a_page_that_explains_shows_a_picture(page: Path) -> None:
    assert re.search(r"^!\[.+\]\(.+\)$", page.read_text(encoding="utf-8"), re.MULTILINE)
