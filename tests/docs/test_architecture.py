"""The picture of the layers is made of the contract and the imports as they are."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import make_architecture

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / "diagrams" / make_architecture.NAME
SVG = "{http://www.w3.org/2000/svg}"


def test_the_picture_is_up_to_date() -> None:
    assert KEPT.read_text(encoding="utf-8") == make_architecture.picture(), "run python tools/make_architecture.py"


def test_the_picture_has_every_part_of_the_package() -> None:
    drawn = {text.text for text in ElementTree.parse(KEPT).iter(f"{SVG}tspan")}
    package = ROOT / "src" / "releaf"
    parts = {path.stem for path in package.glob("*.py")} | {path.parent.name for path in package.glob("*/__init__.py")}
    assert drawn == parts - {"__init__"}


def test_no_part_imports_one_of_its_own_layer_or_above() -> None:
    place = {name: number for number, names in enumerate(make_architecture.layers()) for name in names}
    upwards = {pair for pair in make_architecture.imports() if place[pair[0]] >= place[pair[1]]}
    assert upwards == set()
