"""Frozen policies: the size of their files, and the time of a decision in node and in plain Python.

Each policy learns rows of 10 numbers and 4 actions, and is exported; the evaluators decide in 2,000 contexts.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import releaf
from benchmarks.measure import Finding, Say
from releaf.frozen import JAVASCRIPT, evaluator

FEATURES, ACTIONS, CONTEXTS = 10, 4, 2_000
ROWS = {"AdaptiveReleaf": (1_000, 10_000, 100_000), "Releaf": (100_000,), "LinUCB": (100_000,), "UCB1": (100_000,)}
IN_NODE = """
const [module, policy, contexts] = process.argv.slice(1);
const { readPolicy } = await import(module);
const { readFileSync } = await import("node:fs");
const frozen = readPolicy(readFileSync(policy, "utf8")), rows = JSON.parse(readFileSync(contexts, "utf8"));
const decide = () => rows.forEach((row, seed) => frozen.decide(row, { seed }));
decide();
const started = performance.now();
decide();
console.log((1000 * (performance.now() - started)) / rows.length);
"""
IN_PYTHON = """
import json, runpy, sys, time
frozen = runpy.run_path(sys.argv[1])["load_policy"](sys.argv[2])
rows = json.load(open(sys.argv[3]))
started = time.perf_counter()
for seed, row in enumerate(rows):
    frozen.decide(row, seed=seed)
print(1e6 * (time.perf_counter() - started) / len(rows))
"""


def run(say: Say) -> list[Finding]:
    return [finding for name, counts in ROWS.items() for rows in counts for finding in _measure(name, rows, say)]


def _measure(name: str, rows: int, say: Say) -> list[Finding]:
    subject = f"frozen {name} after {rows:,} rewards"
    say(f"{subject}: learning")
    content = _learnt(name, rows).freeze_policy()()
    packed = len(gzip.compress(content))
    say(f"{subject}: deciding")
    times = _microseconds(content)
    detail = {"bytes": len(content), "gzip": packed, "rewards": rows, "features": FEATURES, "actions": ACTIONS}
    return [
        Finding(what=f"{subject}: size of the file with gzip", value=packed / 1024, unit="KiB", detail=detail),
        *(
            Finding(what=f"{subject}: a decision in {place}", value=time, unit="µs", detail={"contexts": CONTEXTS})
            for place, time in times.items()
        ),
    ]


def _learnt(name: str, rows: int) -> Any:
    draw = np.random.default_rng(0)
    contexts = draw.random((rows, FEATURES))
    means = 0.2 + 0.6 * contexts[:, :ACTIONS] * contexts[:, 1 : ACTIONS + 1]
    policy = getattr(releaf, name)(ACTIONS, FEATURES, seed=0)
    policy.replay(contexts, (draw.random(means.shape) < means).astype(float))
    return policy


def _microseconds(content: bytes) -> dict[str, float]:
    """Time of a decision in each evaluator, in a process of its own."""
    contexts = np.random.default_rng(1).random((CONTEXTS, FEATURES)).tolist()
    with TemporaryDirectory() as folder:
        policy, rows = Path(folder) / "policy.json", Path(folder) / "contexts.json"
        policy.write_bytes(content)
        rows.write_text(json.dumps(contexts))
        files = [str(policy), str(rows)]
        commands = {"plain Python": [sys.executable, "-S", "-I", "-c", IN_PYTHON, evaluator.__file__, *files]}
        if node := shutil.which("node"):
            module = (JAVASCRIPT / "index.js").as_uri()
            commands["node"] = [node, "--input-type=module", "-e", IN_NODE, module, *files]
        return {
            place: float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            for place, command in commands.items()
        }
