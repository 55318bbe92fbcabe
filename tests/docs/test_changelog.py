"""CHANGELOG.md keeps the format of Keep a Changelog, and CITATION.cff names the paper."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
MOST_WORDS = 60
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def releases() -> list[tuple[str, str]]:
    parts = re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]
    return [(part.splitlines()[0], part) for part in parts]


def test_releases_have_a_version_and_a_date_the_latest_first() -> None:
    (first, *others) = [title for title, _ in releases()]
    assert first == "[Unreleased]"
    dates = []
    for title in others:
        found = re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)", title)
        assert found, title
        dates.append(date.fromisoformat(found[2]))
    assert dates == sorted(dates, reverse=True)


def test_changes_are_listed_by_the_kinds_of_the_format_each_once_and_in_its_order() -> None:
    for title, text in releases():
        kinds = re.findall(r"^### (.+)$", text, flags=re.MULTILINE)
        assert kinds == [kind for kind in KINDS if kind in kinds], title


def test_every_line_of_a_release_is_an_entry_or_goes_on_with_one() -> None:
    for title, text in releases():
        for line in text.splitlines()[1:]:
            assert not line.strip() or line.startswith(("### ", "- ", "  ")), f"{title}: {line}"


def test_entries_are_short() -> None:
    entries = re.findall(r"^ *- (.+(?:\n +[^ -].*)*)", CHANGELOG, flags=re.MULTILINE)
    assert len(entries) > 50
    assert [entry for entry in entries if len(entry.split()) > MOST_WORDS] == []


def test_the_citation_names_the_paper_with_its_authors() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["license"] == "BSD-3-Clause"
    (paper,) = citation["references"]
    assert paper["type"] == "article"
    assert paper["title"] == "RELEAF: An Algorithm for Learning and Exploiting Relevance"
    assert [author["family-names"] for author in paper["authors"]] == ["Tekin", "van der Schaar"]
    assert paper["year"] == 2015
