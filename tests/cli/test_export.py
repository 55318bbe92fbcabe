"""`releaf export`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

import releaf
from releaf.cli import app


def test_a_saved_learner_is_exported_with_both_evaluators(tmp_path: Path) -> None:
    model, policy = tmp_path / "offers.releaf", tmp_path / "policy.json"
    releaf.LinUCB(["a", "b"], ["age", "dose"]).save(model)
    places = ["--javascript", str(tmp_path / "js"), "--python", str(tmp_path / "decide.py")]
    result = CliRunner().invoke(app, ["export", str(model), "-o", str(policy), *places])
    assert result.exit_code == 0, result.output
    assert f"({policy.stat().st_size:,} bytes)" in result.output.replace("\n", "")
    assert (tmp_path / "js" / "package.json").exists()
    program = "import runpy, sys; made = runpy.run_path(sys.argv[1]); print(made['load_policy'](sys.argv[2]).actions)"
    command = [sys.executable, "-S", "-I", "-c", program, str(tmp_path / "decide.py"), str(policy)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "('a', 'b')"
    assert json.loads(policy.read_text(encoding="utf-8"))["policy"] == "LinUCB"


def test_json_names_what_was_written(tmp_path: Path) -> None:
    model, policy = tmp_path / "offers.releaf", tmp_path / "policy.json"
    releaf.LinUCB(["a", "b"], ["age", "dose"]).save(model)
    result = CliRunner().invoke(app, ["export", str(model), "-o", str(policy), "--json"])
    assert json.loads(result.stdout) == {"file": str(policy), "bytes": policy.stat().st_size}


def test_a_policy_that_cannot_be_exported_is_an_error(tmp_path: Path) -> None:
    model = tmp_path / "offers.releaf"
    releaf.LinTS(2, 2, seed=0).save(model)
    result = CliRunner().invoke(app, ["export", str(model), "-o", str(tmp_path / "policy.json")])
    assert result.exit_code == 1
    assert "LinTS can't be exported" in result.stderr
    assert not (tmp_path / "policy.json").exists()
