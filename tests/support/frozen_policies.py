"""Evaluators of frozen policies in processes of their own: node, and Python with the standard library only."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from releaf.frozen import JAVASCRIPT, evaluator

SUPPORT = Path(__file__).parent


class EvaluatorProcess:
    """A process that decides by policies, asked line by line."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def decide(self, policy: str | bytes, cases: Sequence[dict[str, Any]]) -> Any:
        """Decisions for the cases, or the error of the policy."""
        text = policy.decode() if isinstance(policy, bytes) else policy
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"policy": text, "cases": list(cases)}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=30)


@contextmanager
def open_node() -> Iterator[EvaluatorProcess]:
    """The JavaScript evaluator; the test is skipped where node is not installed."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    process = EvaluatorProcess([node, str(SUPPORT / "evaluate_policies.mjs"), (JAVASCRIPT / "index.js").as_uri()])
    try:
        yield process
    finally:
        process.close()


@contextmanager
def open_plain_python(folder: Path) -> Iterator[EvaluatorProcess]:
    """A copy of the Python evaluator, without site packages and without this package on the path."""
    copied = shutil.copy(evaluator.__file__, folder / "copied_evaluator.py")
    process = EvaluatorProcess([sys.executable, "-S", "-I", str(SUPPORT / "evaluate_policies.py"), str(copied)])
    try:
        yield process
    finally:
        process.close()


def frozen_text(policy: Any) -> bytes:
    """What ``export`` writes."""
    content: bytes = policy.freeze_policy()()
    return content
