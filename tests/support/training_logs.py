"""Logs in Parquet files, for tests of training from logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import releaf

NAMES = ["x", "y", "z"]
Table = dict[str, Any]


def log(count: int, seed: int = 0, actions: int = 2) -> Table:
    """Rewards of action a depend on feature a; actions are taken more often where x is high."""
    draw = np.random.default_rng(seed)
    contexts = draw.random((count, 3)) ** 1.5
    chance = np.clip(0.2 + 0.6 * contexts[:, 0], 0, 1)
    taken = (draw.random(count) < chance).astype(int) % actions
    reward = (draw.random(count) < 0.2 + 0.6 * contexts[np.arange(count), taken]).astype(float)
    p = np.where(taken == 1, chance, 1 - chance)
    return {**dict(zip(NAMES, contexts.T, strict=True)), "action": taken, "reward": reward, "p": p}


def write(folder: Path, table: Table, files: int, group: int = 500) -> list[Path]:
    folder.mkdir(exist_ok=True)
    paths = []
    whole = pa.table(table)
    for number, rows in enumerate(np.array_split(np.arange(len(whole)), files)):
        paths.append(folder / f"{number:02}.parquet")
        pq.write_table(whole.take(rows), paths[-1], row_group_size=group)
    return paths


def mixed_log(count: int, seed: int = 0) -> Table:
    draw = np.random.default_rng(seed)
    income = np.exp(draw.normal(10, 2, count))
    income[draw.random(count) < 0.1] = np.nan
    return {
        "income": pa.array(income, from_pandas=True),
        "age": draw.uniform(18, 90, count),
        "plan": draw.choice(["a", "b", "c"], count),
        "member": draw.random(count) < 0.5,
        "action": draw.choice(["call", "wait"], count),
        "reward": np.round(draw.random(count), 3),
    }


SCHEMA = releaf.Schema(
    income=releaf.Quantile(missing=True),
    age=releaf.Continuous(0, 120),
    plan=releaf.Categorical("a", "b", "c"),
    member=releaf.Boolean(),
)


def shuffled(table: Table, seed: int) -> Table:
    order = np.random.default_rng(seed).permutation(len(table["reward"]))
    return {name: np.asarray(column)[order] for name, column in table.items()}
