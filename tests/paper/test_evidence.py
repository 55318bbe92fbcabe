"""The pages of evidence: their verdicts follow from the kept figures, and their pictures are of the kept data."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "evidence.md", *sorted((ROOT / "docs" / "evidence").glob("*.md"))]


def tool(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module(name)


@pytest.mark.parametrize(
    ("rule", "ours", "theirs", "expected"),
    [
        ("same", 2_673, 2_630, "reproduced"),
        ("same", 2_000, 2_630, "near"),
        ("same", 1_375, 2_630, "not reproduced"),
        ("at most", 0.07, 0.24, "better"),
        ("at most", 1.15, 1.24, "reproduced"),
        ("at most", 1.4, 1.24, "near"),
        ("at most", 2.3, 1.68, "not reproduced"),
        ("bound", 0.827, 0.828, "holds"),
        ("bound", 0.83, 0.828, "violated"),
        ("coverage", 100.0, 95.0, "holds"),
        ("coverage", 94.0, 95.0, "violated"),
        ("untestable", 1.0, 6.62, "not testable here"),
    ],
)
def test_a_verdict_follows_from_the_figures(
    rule: str, ours: float, theirs: float, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tool("evidence_verdicts", monkeypatch).verdict(rule, ours, theirs) == expected


def test_a_claim_without_a_kept_figure_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = tool("evidence_verdicts", monkeypatch)
    with pytest.raises(SystemExit, match=r"figures\.json has no “labels” of “RELEAF” in “Breast cancer”"):
        verdicts.rows([], (verdicts.Claim("claim", "where", "Breast cancer", "RELEAF", "labels"),))


def test_the_pictures_are_of_the_kept_data_and_a_change_of_it_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = tool("make_evidence_pictures", monkeypatch)
    monkeypatch.setattr(sys, "argv", ["make_evidence_pictures.py", "--check"])
    pictures.main()
    kept = json.loads(pictures.KEPT.read_text(encoding="utf-8"))
    kept["bounds-1"]["rows"][0]["y"] += 1.0
    (tmp_path / "pictures.json").write_text(json.dumps(kept))
    monkeypatch.setattr(pictures, "KEPT", tmp_path / "pictures.json")
    with pytest.raises(SystemExit, match=r"evidence-regret\.svg is behind its data"):
        pictures.main()


def test_every_picture_of_the_pages_is_drawn_and_every_drawn_one_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = set(tool("make_evidence_pictures", monkeypatch).DRAWN.values())
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    shown = set(re.findall(r"results/(evidence-\w+)\.svg", text))
    assert shown == drawn
    assert all((ROOT / "docs" / "results" / f"{name}.svg").stat().st_size < 150_000 for name in drawn)
