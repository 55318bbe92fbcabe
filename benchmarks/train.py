"""``releaf train`` on five million rows: its speed next to a replay in memory, its memory, and how fast help is.

The log has 10 features and 4 actions, of which one feature each matters. The replay is the same learner's, of the same
contexts as a matrix, with the rewards of all actions.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import releaf
from benchmarks.measure import Finding, Say
from benchmarks.memory import peak_bytes
from benchmarks.workload import Array

ROWS, PART, REPLAYED = 5_000_000, 500_000, 1_000_000
FEATURES, ACTIONS = 10, 4
POLICIES = ("AdaptiveReleaf", "Releaf", "LinUCB")
NAMES = [f"x{place}" for place in range(FEATURES)]
RUNS = 3
# A process begins with the peak of the one that started it. A small shell in between makes that a small one.
_SHELL = ("sh", "-c", '"$@"; exit $?', "sh")


def rows(count: int, seed: int) -> tuple[Array, Array, Array]:
    """Contexts, actions at random, and rewards of 0 and 1; action a depends on feature a."""
    draw = np.random.default_rng(seed)
    contexts, taken = draw.random((count, FEATURES)), draw.integers(0, ACTIONS, count)
    chance = 0.2 + 0.6 * np.abs(contexts[np.arange(count), taken] - 0.5)
    return contexts, taken, (draw.random(count) < chance).astype(np.float64)


def run(say: Say) -> list[Finding]:
    findings = []
    with tempfile.TemporaryDirectory() as folder:
        log, schema = Path(folder) / "log.parquet", Path(folder) / "schema.toml"
        say("train: writing the log")
        _write(log)
        schema.write_text(releaf.Schema.of(NAMES).to_toml())
        for policy in POLICIES:
            say(f"train: {policy}")
            findings += _compared(policy, log, schema)
    say("train: help")
    helped = median(_seconds([sys.executable, "-m", "releaf", "--help"]) for _ in range(RUNS))
    bare = median(_seconds([sys.executable, "-c", "import typer, rich.console, numpy"]) for _ in range(RUNS))
    detail = {"seconds_of_bare_imports": bare}
    return [*findings, Finding(what="releaf --help", value=helped, unit="s", at_most=0.4, detail=detail)]


def _write(path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    writer = None
    for part in range(ROWS // PART):
        contexts, taken, rewards = rows(PART, seed=part)
        columns = {name: contexts[:, place] for place, name in enumerate(NAMES)}
        table = pyarrow.table({**columns, "action": taken, "reward": rewards})
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def _compared(policy: str, log: Path, schema: Path) -> list[Finding]:
    """A run in memory before and after the command, since others may use the machine."""
    replayed = [_replayed(policy)]
    report = _trained(policy, log, schema)
    replayed.append(_replayed(policy))
    speed = ROWS / report["seconds"]
    detail = {"rows_a_second": speed, "replayed_rows_a_second": replayed, "whole_command_seconds": report["command"]}
    what = f"{policy}: releaf train, rows a second, over those of a replay in memory"
    return [
        Finding(what=what, value=speed / float(np.mean(replayed)), detail=detail, at_least=0.6),
        Finding(what=f"{policy}: releaf train, peak memory", value=report["peak"] / 1e9, unit="GB", at_most=1.0),
    ]


def _replayed(policy: str) -> float:
    contexts = rows(REPLAYED, seed=0)[0]
    rewards = (np.random.default_rng(1).random((REPLAYED, ACTIONS)) < 0.35).astype(np.float64)
    learner = getattr(releaf, policy)(ACTIONS, NAMES, seed=0)
    learner.replay(contexts[:100], rewards[:100])  # compiled by now
    started = time.perf_counter()
    learner.replay(contexts, rewards)
    return REPLAYED / (time.perf_counter() - started)


def _trained(policy: str, log: Path, schema: Path) -> dict[str, Any]:
    arguments = [str(log), "-o", f"{log}.{policy}", "--policy", policy, "--schema", str(schema), "--json"]
    started = time.perf_counter()
    command = [*_SHELL, sys.executable, "-m", "benchmarks.train", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    report, peak = (json.loads(line) for line in done.stdout.splitlines())
    return {**report, "peak": peak, "command": time.perf_counter() - started}


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


if __name__ == "__main__":  # releaf train, and then how much memory it took
    from releaf.cli import app

    app(["train", *sys.argv[1:]], standalone_mode=False)
    print(peak_bytes())
