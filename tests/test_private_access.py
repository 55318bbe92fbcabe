"""Layers above `policies` use the public methods of learners only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import releaf
from releaf.policies import OnlinePolicy

PACKAGE = Path(releaf.__file__).parent
LAYERS = (
    *("cli", "service", "paper", "client", "report", "plot", "evaluate", "train", "streams", "executors"),
    *("sklearn", "river.py", "ensembles"),
)
FILES = sorted(
    path for name in LAYERS for path in ([PACKAGE / name] if name.endswith(".py") else (PACKAGE / name).rglob("*.py"))
)
METHODS = {name for name in dir(OnlinePolicy) if not name.startswith("__")}
NAMED_TUPLE = {"_replace", "_asdict", "_fields", "_make"}
# Private names of other objects than learners, by file.
ALLOWED = {
    "client/call_sequences.py": {"client._send", "client._transport"},  # parts of the client
    "client/deadlines.py": {  # of httpx and httpcore
        *("http._transport", "http._mounts", "transport._pool", "pool._network_backend"),
    },
    "client/method_descriptors.py": {"client._send", "client._transport"},
    "executors/local.py": {"os._exit", "self._pool._processes"},
    "executors/ray_connection.py": {"ray._private"},
    "river.py": {"self.reward_scaler._update"},  # River's
}


def private_accesses(tree: ast.AST) -> Iterator[str]:
    """Attributes with a leading underscore of anything but self, cls and super()."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls", "super()") and node.attr not in NAMED_TUPLE:
                yield f"{owner}.{node.attr}"


def probes(tree: ast.AST) -> Iterator[str]:
    """Calls of hasattr and getattr for an attribute that every learner has or may have."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("hasattr", "getattr"):
            name = node.args[1]
            if isinstance(name, ast.Constant) and name.value in METHODS:
                yield ast.unparse(node)


def module_name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_no_module_above_policies_uses_private_attributes_of_a_learner(path: Path) -> None:
    found = set(private_accesses(ast.parse(path.read_text(encoding="utf-8"))))
    assert found <= ALLOWED.get(module_name(path), set())


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_no_module_above_policies_probes_a_learner_for_its_methods(path: Path) -> None:
    found = set(probes(ast.parse(path.read_text(encoding="utf-8"))))
    assert found <= {"hasattr(model, 'to_bytes')"}, "ask policy.traits instead"  # the client takes bytes as well


def test_every_exception_is_still_needed() -> None:
    for name, allowed in ALLOWED.items():
        assert allowed == set(private_accesses(ast.parse((PACKAGE / name).read_text(encoding="utf-8"))))


def test_private_access_and_probes_are_found() -> None:
    tree = ast.parse(
        "learner._pending.pop(1)\nself.learner._lock\nhasattr(learner, 'relevance')\nself._own\nrow._replace()"
    )
    assert sorted(private_accesses(tree)) == ["learner._pending", "self.learner._lock"]
    assert list(probes(tree)) == ["hasattr(learner, 'relevance')"]
