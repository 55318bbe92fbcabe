"""One name for one thing: class names are unique, constants exist once, and retired words stay retired."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from page_blocks import words

import releaf

PACKAGE = Path(releaf.__file__).parent
ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("[!_]*.md")),
    *sorted((ROOT / "docs").glob("[!_]*/*.md")),
]
PLAIN_ENGLISH = {"room"}  # on a disk, or for a bad day
SHARED_NAMES = {
    "Decision",  # public both as releaf.Decision and as releaf.client.Decision, what the service returned
}
ONCE = {"Matrix", "Row", "Z95", "T95", "snips_estimate", "effective_sample_size"}  # definitions
RETIRED = {
    *("door", "doors", "book", "seat", "seats", "desk", "hub", "patience", "lives", "rival", "rivals"),
    *("looked", "manners", "manieth", "contestant", "contestants", "room", "rooms", "lanes"),
}
PARTS = sorted(
    path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or (path.is_dir() and list(path.glob("*.py")))
)
LEARNERS = ["policies", "ensembles", "policy.py", "decision.py", "schema.py"]
PACKAGES_WITH_ARRAYS = ["evaluate", "train", "executors", "streams", "report", "sklearn", "paper", "plot", *LEARNERS]
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def sources(names: list[str]) -> Iterator[Path]:
    for name in names:
        path = PACKAGE / name
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def identifiers(tree: ast.Module) -> Iterator[str]:
    """Names that a module defines: classes, functions, parameters, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def words_of(identifier: str) -> set[str]:
    return {word.lower() for word in WORD.findall(identifier)}


def definitions(kinds: tuple[type[ast.AST], ...]) -> dict[str, set[str]]:
    """Modules that define each name at any level."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(parsed(path)):
            if isinstance(node, kinds):
                found[node.name].add(str(path.relative_to(PACKAGE)))  # type: ignore[attr-defined]
    return found


def assigned_at_top(path: Path) -> set[str]:
    targets = [target for node in parsed(path).body if isinstance(node, ast.Assign) for target in node.targets]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def test_no_class_name_stands_in_two_modules() -> None:
    twice = {name: modules for name, modules in definitions((ast.ClassDef,)).items() if len(modules) > 1}
    assert {name: modules for name, modules in twice.items() if name not in SHARED_NAMES} == {}


def test_no_module_defines_two_classes_of_one_name() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        names = [node.name for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef)]
        assert len(names) == len(set(names)), path


@pytest.mark.parametrize("name", sorted(ONCE))
def test_shared_statistics_and_types_are_defined_once(name: str) -> None:
    modules = [path for path in PACKAGE.rglob("*.py") if name in assigned_at_top(path)]
    functions = definitions((ast.FunctionDef,)).get(name, set()) - {"service/experiments/shadow_estimate.py"}  # methods
    assert len(modules) + len(functions) == 1


def test_the_quantile_of_the_normal_distribution_is_typed_in_once() -> None:
    typed = [path for path in sources(PARTS) if re.search(r"\b1\.96\b|1\.9599", path.read_text())]
    assert typed == [PACKAGE / "statistics.py"]


def test_the_type_of_arrays_is_imported_and_not_defined_again() -> None:
    again = [path for path in sources(PACKAGES_WITH_ARRAYS) if {"Array", "Matrix"} & assigned_at_top(path)]
    assert again == []


def test_retired_words_are_in_no_file_name() -> None:
    names = {path: words_of(path.stem) for path in sources(PARTS)}
    assert {path: words & RETIRED for path, words in names.items() if words & RETIRED} == {}


@pytest.mark.parametrize("package", PARTS)
def test_retired_words_are_in_no_identifier_and_no_docstring(package: str) -> None:
    found: dict[str, set[str]] = {}
    for path in sources([package]):
        tree = parsed(path)
        words = {word for name in identifiers(tree) for word in words_of(name)}
        words |= {
            word.lower() for text in docstrings(tree) for word in re.findall(r"(?<![\w-])[A-Za-z]+(?![\w-])", text)
        }
        if words & RETIRED:
            found[str(path.relative_to(PACKAGE))] = words & RETIRED
    assert found == {}


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_retired_words_are_in_no_page(page: Path) -> None:
    assert words(page.read_text(encoding="utf-8")) & (RETIRED - PLAIN_ENGLISH) == set()


def test_words_of_a_page_are_not_those_of_its_code() -> None:
    page = "A *door*, `a seat`, a [hub](desk.md).\n\n```python\npatience = 1\n```\n"
    assert words(page) & RETIRED == {"door", "hub"}


def test_the_check_itself_finds_a_retired_word() -> None:
    tree = ast.parse('class FrontDoor:\n    """A seat."""\n\n    def take_seat(self, hub):\n        PATIENCE = 1\n')
    assert {word for name in identifiers(tree) for word in words_of(name)} >= {"door", "seat", "hub", "patience"}
    assert any("seat" in text for text in docstrings(tree))
