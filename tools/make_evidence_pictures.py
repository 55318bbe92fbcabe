"""Draw the pictures of the pages of evidence from docs/results/pictures.json, which ``releaf reproduce`` writes.

python tools/make_evidence_pictures.py           draw them into docs/results
python tools/make_evidence_pictures.py --check   fail where one is not of the data that is kept

Each SVG ends in a comment with a digest of the data it was drawn from, so that a check needs no drawing.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import vl_convert

from releaf.report.html_report import Picture
from releaf.report.picture_charts import chart

RESULTS = Path(__file__).parents[1] / "docs" / "results"
KEPT = RESULTS / "pictures.json"
# What is drawn, and the file it goes to.
DRAWN = {
    "breast-cancer-1": "evidence-labels",
    "lipschitz-1": "evidence-lipschitz",
    "webpages-1": "evidence-clicks",
    "synthetic-1": "evidence-synthetic",
    "relevance-1": "evidence-relevance",
    "relevance-2": "evidence-partition",
    "relevance-recovery-1": "evidence-recovery",
    "relevance-recovery-3": "evidence-recall",
    "relevance-recovery-5": "evidence-classes",
    "bounds-1": "evidence-regret",
    "regret-and-dimension-1": "evidence-dimension",
    "guarantee-1": "evidence-guarantee",
    "balance-2": "evidence-balance",
    "price-1": "evidence-price",
}
WIDTH = 640


def digest(picture: Any) -> str:
    return hashlib.sha256(json.dumps(picture, sort_keys=True).encode()).hexdigest()[:24]


def stamp(picture: Any) -> str:
    return f"<!-- data {digest(picture)} -->"


def draw(picture: Any) -> str:
    drawn = vl_convert.vegalite_to_svg(chart(Picture(**picture), WIDTH).to_dict())
    return f"{drawn}\n{stamp(picture)}\n"


def main() -> None:
    pictures = json.loads(KEPT.read_text(encoding="utf-8"))
    for name, file in DRAWN.items():
        path = RESULTS / f"{file}.svg"
        if "--check" not in sys.argv:
            path.write_text(draw(pictures[name]), encoding="utf-8")
        elif not path.exists() or stamp(pictures[name]) not in path.read_text(encoding="utf-8"):
            raise SystemExit(f"{path.name} is behind its data: run python tools/make_evidence_pictures.py")


if __name__ == "__main__":
    main()
