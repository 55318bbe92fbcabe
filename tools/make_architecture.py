"""Write docs/diagrams/architecture.svg: the layers of the package, from pyproject.toml and the imports of the code.

    python tools/make_architecture.py [FOLDER]

The order of the layers is import-linter's contract, and their parts are those of the import graph (grimp). It fails if
a part imports another one of its own layer or above, or is in no layer.
"""

from __future__ import annotations

import sys
import tomllib
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
NAME = "architecture.svg"
PACKAGE = "releaf"
LAYERS_CONTRACT = "Layers of the package"
# What a reader needs of each layer; the others are small modules.
ABOUT = {
    "cli": "commands",
    "service": "HTTP decision service",
    "client": "its Python clients",
    "paper": "the paper's experiments",
    "report": "tables and one-file reports",
    "plot": "charts",
    "evaluate": "runs, ledgers, off-policy evaluation",
    "train": "training from logs of any size",
    "streams": "contexts and rewards",
    "executors": "cores, or a Ray cluster",
    "sklearn": "scikit-learn's protocol",
    "river": "River's protocol",
    "mlflow": "MLflow's models",
    "ensembles": "base classifiers that vote",
    "policies": "everything that decides, one class a file",
    "theory": "theorems as functions",
    "policy": "the Policy protocol",
    "schema": "features to [0, 1]",
    "core": "compiled kernels and their state",
}
WIDTH, LEFT, BOX, GAP, ROW = 860, 20, 34, 8, 46
TEXT = "font-family='system-ui, sans-serif'"


def layers() -> list[list[str]]:
    """Modules of each layer, the highest first; those of one layer do not import each other."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [one for one in config["tool"]["importlinter"]["contracts"] if one["name"] == LAYERS_CONTRACT]
    return [[name.strip() for name in line.split("|")] for line in contract["layers"]]


def imports() -> set[tuple[str, str]]:
    """The parts of the package that import another part, each with that part."""
    graph = grimp.build_graph(PACKAGE)
    found: set[tuple[str, str]] = set()
    for module in sorted(graph.modules):
        for imported in graph.find_modules_directly_imported_by(module):
            pair = part_of(module), part_of(imported)
            if pair[0] != pair[1] and all(pair):
                found.add(pair)
    return found


def part_of(module: str) -> str:
    """The part of the package that a module belongs to; empty for the package itself."""
    names = module.split(".")
    return names[1] if len(names) > 1 else ""


def picture() -> str:
    """The layers as boxes from top to bottom."""
    rows = layers()
    level = {name: number for number, names in enumerate(rows) for name in names}
    wrong = [pair for pair in imports() if level[pair[0]] >= level[pair[1]]]
    if wrong:
        raise ValueError(f"these imports do not point downwards: {wrong}")
    body: list[str] = []
    for place, names in enumerate(rows):
        y = 16 + place * ROW
        width = (WIDTH - 2 * LEFT - GAP * (len(names) - 1)) / len(names)
        for column, name in enumerate(names):
            body.append(_box(LEFT + column * (width + GAP), y, width, name))
    height = 16 + len(rows) * ROW + 4
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' role='img'>"
    title = "<title>The layers of releaf: each imports only from those below it</title>"
    return "\n".join([head, title, f"<rect width='{WIDTH}' height='{height}' fill='#ffffff'/>", *body, "</svg>", ""])


def _box(x: float, y: float, width: float, name: str) -> str:
    major = name in ABOUT
    fill, stroke = ("#e8f1fa", "#2171b5") if major else ("#f5f5f5", "#9a9a9a")
    about = ABOUT.get(name, "")
    box = f"<rect x='{x:.1f}' y='{y}' width='{width:.1f}' height='{BOX}' rx='4' fill='{fill}' stroke='{stroke}'/>"
    room = int((width - 12) / 6.6)
    line = f"{name}: {about}" if about and len(name) + len(about) + 2 <= room else name
    size = 12 if len(line) <= room else max(7, int(12 * room / len(line)))
    bold = f"<tspan font-weight='600'>{escape(name)}</tspan>{escape(line.removeprefix(name))}"
    text = f"<text x='{x + width / 2:.1f}' y='{y + 21}' text-anchor='middle' font-size='{size}' {TEXT}>{bold}</text>"
    return f"<g>{box}{text}</g>"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "diagrams"
    (folder / NAME).write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
