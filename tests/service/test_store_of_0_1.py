"""A store of version 0.1 opens, and its experiment continues."""

from __future__ import annotations

import gzip
from pathlib import Path

import httpx
from running_service import COMPILE_TIMEOUT_SECONDS, run_service

SAVED = Path(__file__).with_name("saved_by_0_1")


def test_a_store_of_version_0_1_opens_and_its_experiment_continues(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    store.write_bytes(gzip.decompress((SAVED / "store.db.gz").read_bytes()))
    with (
        run_service(tmp_path, "--store", str(store)) as address,
        httpx.Client(base_url=address, timeout=COMPILE_TIMEOUT_SECONDS, trust_env=False) as http,
    ):
        counts = http.get("/v1/experiments/triage").json()["counts"]
        assert {name: counts[name] for name in ("decisions", "rewards", "waiting")} == {
            "decisions": 30,
            "rewards": 20,
            "waiting": 10,
        }
        preview = http.post("/v1/experiments/triage/preview", json={"context": {"u": 0.5, "v": 0.5}}).json()
        assert preview["estimates"] == {"wait": 0.0, "treat": 0.9780148302328606}
        answer = http.post("/v1/experiments/triage/decide", json={"context": {"u": 0.5, "v": 0.5}}).json()
        assert (answer["decision"], answer["action"]) == (31, "treat")
