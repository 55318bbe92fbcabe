"""Altered state files with a valid checksum: rejected, or loaded without memory access out of bounds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from releaf_strategies import limit_dense_cells

import releaf
from releaf.core.runtime import state_file

TAMPERED: dict[str, Any] = {
    "grid": lambda a: a + 10**6,
    "child": lambda a: np.where(a >= 0, 0, a),
    "slot": lambda a: a + 1000,
    "leaf": lambda a: a - 10**6,
    "features": lambda a: a * 7,
    "level": lambda a: a + 60,
    "rank": lambda a: a + 10**8,
    "weight": lambda a: a * np.nan,
    "caps": lambda a: a * 5,
    "cells": lambda a: a[:-3],
    "counts": lambda a: a - 5,
    "sums": lambda a: a[: len(a) // 2],
    "relevance": lambda a: a[:-1],
    "added_at": lambda a: a[:-1],
    "clock": lambda a: a * 1000 + 7,
    "arrivals": lambda a: a[:-1],
}
TAMPERED_HASH: dict[str, Any] = {
    "table": lambda a: a + 10**6,
    "keys": lambda a: a - 10**6,
}


def learner(hashed: bool) -> releaf.Releaf:
    bandit = releaf.Releaf(2, 3, seed=0, rho=1.5, observe="always")
    limit_dense_cells(bandit, 0 if hashed else 2**29)
    contexts = np.random.default_rng(0).random((300, 3))
    releaf.replay(bandit, contexts, contexts[:, :2])
    return bandit


# slots and caps mean nothing to hashed cells, table and keys nothing to dense ones
CASES = [(field, False) for field in TAMPERED] + [(field, True) for field in {**TAMPERED, **TAMPERED_HASH}]
CASES = [case for case in CASES if case not in (("slot", True), ("caps", True))]


@pytest.mark.parametrize(("field", "hashed"), CASES)
def test_arrays_that_contradict_one_another_are_refused(tmp_path: Path, field: str, hashed: bool) -> None:
    path = tmp_path / "tampered.releaf"
    learner(hashed).save(path)
    header, arrays = state_file.read(path)
    change = {**TAMPERED, **TAMPERED_HASH}[field]
    arrays[f"policy.{field}"] = change(arrays[f"policy.{field}"])
    header.pop("format")
    state_file.write(path, header, arrays)
    with pytest.raises(releaf.StateError, match=r"tampered\.releaf is not a learner that this version"):
        releaf.load(path)


@pytest.mark.parametrize("key", ["class", "parameters", "actions", "schema", "steps", "token"])
def test_a_header_that_lacks_a_part_is_refused(tmp_path: Path, key: str) -> None:
    path = tmp_path / "lacking.releaf"
    learner(hashed=False).save(path)
    header, arrays = state_file.read(path)
    header.pop("format")
    header.pop(key)
    state_file.write(path, header, arrays)
    with pytest.raises(releaf.StateError, match=r"lacking\.releaf"):
        releaf.load(path)


GUARDED = """
import numpy as np
from releaf.core.releaf.state import ReleafState
import releaf, sys
PAD, FILL = 64, 77
padded = []
original = ReleafState.__setattr__
def guarded(self, field, values):
    original(self, field, values)
    array = getattr(self, field)
    whole = np.full(array.size + 2 * PAD, FILL, dtype=array.dtype)
    whole[PAD:-PAD] = array
    padded.append((field, whole))
    original(self, field, whole[PAD:-PAD])
ReleafState.__setattr__ = guarded
generator = np.random.default_rng(int(sys.argv[1]))
for _ in range(12):
    features, actions = int(generator.integers(2, 8)), int(generator.choice([1, 2, 5, 8, 9, 17]))
    gamma = int(generator.integers(1, 1 + features // 2)) if features < 7 else 1
    options = dict(rho=float(generator.choice([0.3, 1.5, 4.8])), base=int(generator.choice([2, 3, 7, 70])),
                   observe=str(generator.choice(["explored", "always", "all-actions", "labels"])), gamma_rel=gamma,
                   epsilon=[None, 0.5][int(generator.integers(2))])
    bandit = releaf.Releaf(actions, features, seed=1, **options)
    palette = np.array([0, 1, 0.5, 1 / 3, 1 / 7, 5e-324, 1 - 2**-53])
    contexts = np.where(generator.random((300, features)) < 0.5, generator.choice(palette, (300, features)),
                        generator.random((300, features)))
    releaf.replay(bandit, contexts, generator.random((300, actions)))
    bandit.add_action()
    for context in contexts[:40]:
        choice = bandit.decide(context)
        if choice.wants_reward:
            bandit.learn(choice, [0.5] * (actions + 1) if bandit.observation_mode in ("all-actions", "labels") else 0.5)
touched = [field for field, whole in padded if (whole[:PAD] != FILL).any() or (whole[-PAD:] != FILL).any()]
print("touched:", sorted(set(touched)))
"""


@pytest.mark.parametrize("seed", range(3))
def test_kernels_write_only_to_their_own_arrays(seed: int) -> None:
    """Every array stands between two guards, which must be as they were in the end."""
    command = [sys.executable, "-c", GUARDED, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "touched: []"
