"""`releaf demo --service` and `--notebook`: the stream that lives, and the notebook that runs."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import nbclient
import nbformat
import pytest
from console_blocks import console_environment
from polling import wait_until
from typer.testing import CliRunner

from releaf.cli import app, demo_service
from releaf.cli.demo_notebook import notebook
from releaf.client import Client, ServiceError, Unavailable
from releaf.streams import planted_log


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["demo", *arguments], env={"COLUMNS": "120", "NO_COLOR": "1"})


# --- the service ------------------------------------------------------------------------------------------------


@contextmanager
def demo_of_the_service(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running `releaf demo --service`, and its address; its browser is a program that writes the address down."""
    opened = folder / "opened"
    (folder / "browser").write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    (folder / "browser").chmod(0o755)
    environment = console_environment() | {"BROWSER": f"{folder / 'browser'} %s", "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "releaf", "demo", "--service", "--port", "0", *options]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", first)
        assert found, first + process.stdout.read()
        yield process, found[0]
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def is_gone(url: str) -> bool:
    try:
        httpx.get(f"{url}/healthz", timeout=5, trust_env=False)
    except httpx.TransportError:
        return True
    return False


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_stream_decides_gets_late_clicks_and_has_a_shadow_until_it_is_stopped(
    ending: signal.Signals, tmp_path: Path
) -> None:
    with demo_of_the_service(tmp_path) as (process, url), Client(url, timeout=60) as client:
        wait_until(lambda: client.info("teasers")["counts"]["rewards"] >= 5)
        info = client.info("teasers")
        assert info["counts"]["decisions"] > info["counts"]["rewards"]
        assert [shadow["policy"]["name"] for shadow in info["shadows"]] == ["LinUCB"]
        wait_until((tmp_path / "opened").is_file)
        assert (tmp_path / "opened").read_text().strip() == f"{url}/"
        process.send_signal(ending)
        assert process.wait(120) == 0
        assert is_gone(url)
    assert list(tmp_path.glob("releaf-demo-*")) == []


def test_it_ends_by_itself_and_opens_no_browser_if_that_is_asked_for(tmp_path: Path) -> None:
    with demo_of_the_service(tmp_path, "--minutes", "0.05", "--no-browser") as (process, url):
        assert process.stdout is not None
        assert re.search(r"Stopped after \d+ visitors", process.stdout.read())
        assert process.wait(120) == 0
        assert is_gone(url)
    assert not (tmp_path / "opened").exists()


def test_a_late_click_and_a_busy_service_do_not_end_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose first decisions fail, and whose rewards come after the deadline."""
    decided, ended = itertools.count(), time.monotonic() + 1.5

    class BusyClient:
        rewards = 0

        def decide(self, experiment: str, context: Any) -> Any:
            if next(decided) < 3:
                raise Unavailable(503, "unavailable", "the store has not answered within 10 s")
            return SimpleNamespace(id=next(decided), action="news")

        def reward(self, experiment: str, decision: int, reward: float) -> None:
            self.rewards += 1
            raise ServiceError(409, "too_late", "the decision has missed its deadline")

    client: Any = BusyClient()
    monkeypatch.setattr(demo_service, "MEAN_DELAY", 0.01)
    demo_service._simulate(client, ended)
    assert next(decided) > 10
    assert client.rewards >= 1


def test_after_the_drift_another_teaser_depends_on_the_city() -> None:
    visitors = demo_service._visitors()
    seasons = [[next(visitors) for _ in range(demo_service.DRIFT_AFTER)] for _ in range(2)]
    for season, action in zip(seasons, ("travel", "deals"), strict=True):
        by_city: dict[str, set[float]] = {}
        for context, rates in season:
            by_city.setdefault(context["city"], set()).add(round(rates[action], 6))
        assert all(len(found) == 1 for found in by_city.values())
        assert len(set.union(*by_city.values())) == 2


# --- the notebook -----------------------------------------------------------------------------------------------


def test_the_notebook_runs_top_to_bottom_and_its_estimate_is_near_the_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = invoke("--notebook")
    assert shown.exit_code == 0, shown.output
    assert "Next: jupyter lab releaf-demo.ipynb" in shown.output
    page = nbformat.read("releaf-demo.ipynb", as_version=4)
    nbformat.validate(page)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    nbclient.NotebookClient(
        page, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    outputs = {cell.source: cell.outputs for cell in page.cells if cell.cell_type == "code"}
    for cell in ("bandit.relevance()", "bandit.explain(decision)"):
        assert "<table" in outputs[cell][0]["data"]["text/html"]
    (text,) = [found[0]["text"] for source, found in outputs.items() if "evaluate.snips" in source]
    low, high, truth = map(float, re.findall(r"0\.\d+", text)[2:])
    assert low <= truth <= high
    assert truth > 1.5 * planted_log().columns["reward"].mean()
    assert (tmp_path / "teasers.releaf").exists()


def test_a_notebook_that_is_there_is_kept_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "mine.ipynb"
    path.write_text("mine")
    refused = invoke("--notebook", "-o", str(path))
    assert refused.exit_code == 1
    assert "mine.ipynb exists: name another file with --output, or replace it with --force" in refused.stderr
    assert path.read_text() == "mine"
    assert invoke("--notebook", "-o", str(path), "--force").exit_code == 0
    assert json.loads(path.read_text()) == notebook()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--notebook", "-o", "demo.py"], "--output is 'demo.py': expected a name that ends in .ipynb"),
        (["--notebook", "--service"], "expected one of them"),
    ],
)
def test_what_cannot_be_shown_is_said(arguments: list[str], message: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 1
    assert message in result.stderr
