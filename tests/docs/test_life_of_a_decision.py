"""The page on the life of a decision lists the files that a decision really passes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/explanation/life-of-a-decision.md"
MOST_FILES = 9
TRACED = """
import os, sys
import numpy as np, releaf

root, passed = os.path.dirname(releaf.__file__), []

def trace(frame, event, argument):
    path = os.path.relpath(frame.f_code.co_filename, root)
    if not path.startswith("..") and path not in passed:
        passed.append(path)

bandit = releaf.Releaf(3, 4, seed=0)
contexts = np.random.default_rng(0).random((200, 4))
for count, context in enumerate(contexts):
    if count == 100:  # arrays that are full grow less often by then
        sys.settrace(trace)
    decision = bandit.decide(context)
    if decision.wants_reward:
        bandit.learn(decision, 0.5)
sys.settrace(None)
print("\\n".join(path for path in passed if path not in ("core/runtime/jit.py", "core/releaf/engine.py")))
"""


def test_the_page_lists_the_files_that_a_decision_passes() -> None:
    """In plain Python, where each kernel is a frame; ``jit.py`` is there only to run it so."""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", TRACED], env=environment, capture_output=True, text=True, timeout=600, check=True
    )
    passed = done.stdout.split()
    section = PAGE.read_text().split("## `POST")[0]
    listed = re.findall(r"^\| `(\S+\.py)`", section, re.MULTILINE)
    assert set(listed) == set(passed)
    assert len(passed) <= MOST_FILES


def test_every_file_that_the_page_names_exists() -> None:
    source = PAGE.parents[2] / "src/releaf"
    text = PAGE.read_text()
    parts = re.findall(r"^\| `(service/\w+)` \| (.+?) \|", text, re.MULTILINE)
    named = [f"{part}/{name}.py" for part, names in parts for name in re.findall(r"`(\w+)`", names)]
    named += re.findall(r"`((?:policies|core|schema)\S*\.py)`", text)
    assert len(named) > MOST_FILES
    assert [path for path in named if not (source / path).exists()] == []
