"""The cost of a replayed step over C(D, 2γ)·A, the number of counts that it must look at: does it stay flat?

For γ=1 the floor, which only reads the same cells, is measured alongside: what it grows by is the machine's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import NamedTuple

import numpy as np

from benchmarks.floor import floor
from benchmarks.measure import Finding, Say, in_turn
from benchmarks.workload import experienced, rewinder, stream
from releaf.core.releaf.state import HASHED

MOST = 1.25
WARMUP_STEPS = 20_000  # enough for 8 intervals a feature (4 for γ=2) and the explorations that these ask for
CELLS_A_RUN = 20_000_000  # counts read in one timed run, which determines its number of steps
MOST_STEPS = {1: 100_000, 2: 30_000}  # by γ; some more, and intervals split while the clock runs
FLOOR = " floor"  # after the number of features, in the names of what is timed
Side = Callable[[], object]


class Series(NamedTuple):
    gamma: int
    actions: int
    features: tuple[int, ...]
    middle: int  # what the others are compared with


SERIES = (
    Series(1, 2, (10, 25, 50, 100, 200), 50),
    Series(1, 5, (10, 25, 50, 100, 200), 50),
    Series(2, 2, (6, 10, 14, 20), 10),
)


def run(say: Say) -> list[Finding]:
    return [finding for series in SERIES for finding in _measure(series, say)]


def _measure(series: Series, say: Say) -> list[Finding]:
    name = f"scaling, γ={series.gamma}, A={series.actions}"
    sides: dict[str, Side] = {}
    rewinds: list[Side] = []
    notes: dict[str, dict[str, float]] = {}
    for features in series.features:
        say(f"{name}: a learner with D={features} replays {WARMUP_STEPS:,} steps")
        timed, rewind, note = _prepare(series, features)
        sides |= {f"{features}{suffix}": side for suffix, side in timed.items()}
        notes[str(features)] = note
        rewinds.append(rewind)

    def before() -> None:
        for rewind in rewinds:
            rewind()

    seconds = in_turn(sides, before=before, repetitions=7, say=lambda text: say(f"{name}: {text}"))
    for key, note in notes.items():
        note["seconds"] = seconds[key]
        note["nanoseconds_per_cell"] = 1e9 * seconds[key] / note["steps"] / note["cells"]
        if key + FLOOR in seconds:
            note["floor_nanoseconds_per_cell"] = 1e9 * seconds[key + FLOOR] / note["steps"] / note["cells"]
    return _findings(name, series, notes)


def _prepare(series: Series, features: int) -> tuple[dict[str, Side], Side, dict[str, float]]:
    """What to time (replay and, for dense pairs, the floor), what to do before each time, and notes about it."""
    cells = comb(features, 2 * series.gamma) * series.actions
    steps = min(MOST_STEPS[series.gamma], CELLS_A_RUN // cells)
    bandit = experienced(WARMUP_STEPS, features, series.actions, gamma_rel=series.gamma)
    engine, rewind = bandit._engine, rewinder(bandit)
    contexts, rewards = stream(steps, features, series.actions, seed=1)
    explored = engine.replay(contexts, rewards)[1]
    note = {"cells": cells, "steps": steps, "warmup_steps": WARMUP_STEPS, "explored": float(explored.mean())}
    note["hashed"] = engine.clock(HASHED)
    timed: dict[str, Side] = {"": lambda: engine.replay(contexts, rewards)}
    if series.gamma == 1 and not note["hashed"]:
        read, unused = floor(writes=False), np.zeros(steps, dtype=np.int64)
        timed[FLOOR] = lambda: read(engine.state.pointer_table, contexts, unused, rewards[:, 0])
    return timed, rewind, note


def _findings(name: str, series: Series, notes: dict[str, dict[str, float]]) -> list[Finding]:
    findings = []
    for features in series.features:
        if features == series.middle:
            continue
        largest = features == series.features[-1]
        what, note, middle = f"D={features} over D={series.middle}", notes[str(features)], notes[str(series.middle)]
        ratio = note["nanoseconds_per_cell"] / middle["nanoseconds_per_cell"]
        target, detail = (MOST, notes) if largest else (None, {})
        findings.append(Finding(what=f"{name}: cost per cell, {what}", value=ratio, at_most=target, detail=detail))
        if largest and "floor_nanoseconds_per_cell" in note:
            ratio = note["floor_nanoseconds_per_cell"] / middle["floor_nanoseconds_per_cell"]
            findings.append(Finding(what=f"{name}: the floor's, {what}", value=ratio))
    return findings
