"""The JavaScript evaluator in a browser."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import CHROMIUM_FLAGS, chromium_executable
from frozen_policies import frozen_text
from frozen_streams import POLICIES, SCHEMA, cases_of, learn_stream, random_contexts

from releaf.frozen import JAVASCRIPT, read_policy

DECIDE = """async ([cases]) => {
    const { readPolicy } = await import("/index.js");
    const policy = readPolicy(await (await fetch("/policy.json")).text());
    return cases.map(({ context, seed }) => policy.decide(context, { seed: BigInt(seed) }))
        .map(({ index, probabilities }) => ({ index, probabilities }));
}"""


class QuietHandler(SimpleHTTPRequestHandler):
    policy = b""

    def do_GET(self) -> None:
        if self.path not in ("/policy.json", "/"):
            super().do_GET()
            return
        content = self.policy if self.path == "/policy.json" else b"<!doctype html><title>policy</title>"
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if self.path == "/policy.json" else "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    executable = chromium_executable()
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(JAVASCRIPT)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
        opened = browser.new_page()
        opened.goto(f"http://127.0.0.1:{server.server_port}/")
        yield opened
        browser.close()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", ["AdaptiveReleaf", "Releaf of all rewards", "LinUCB", "LinearEpsilonGreedy"])
def test_a_browser_decides_as_python_does(name: str, page: Any) -> None:
    make, parameters = POLICIES[name]
    draw = np.random.default_rng(8)
    policy = learn_stream(make(["wait", "treat", 3], SCHEMA, seed=1, **parameters), SCHEMA, 500, draw)
    QuietHandler.policy = frozen_text(policy)
    contexts = random_contexts(SCHEMA, draw, 1_000)
    seeds = [int(word) for word in draw.integers(0, 2**64 - 1, 1_000, dtype=np.uint64)]
    found = page.evaluate(DECIDE, [cases_of(contexts, seeds)])
    frozen = read_policy(QuietHandler.policy)
    for context, seed, made in zip(contexts, seeds, found, strict=True):
        own = frozen.decide(context, seed=seed)
        assert own.index == made["index"]
        assert np.abs(np.array(own.probabilities) - made["probabilities"]).max() <= 1e-12


def test_the_evaluator_fits_a_page(page: Any) -> None:
    assert sum(len(Path(file).read_bytes()) for file in JAVASCRIPT.glob("*.js")) < 40_000
