"""Chromium, driven by Playwright; tests are skipped where it is not installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM_FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]


def chromium_executable() -> str:
    found = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )
    if found is None:
        pytest.skip("needs chromium; `make test` installs it where it may (apt-get, as root)")
    return found


@contextmanager
def open_page(path: Path, width: int) -> Iterator[tuple[Any, list[str]]]:
    """The page of a file and its errors, which include every request for another file."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_executable(), args=CHROMIUM_FLAGS)
        page = browser.new_page(viewport={"width": width, "height": 900})
        errors: list[str] = []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        allowed = (path.as_uri(), "data:", "blob:")
        page.on(
            "request", lambda asked: None if asked.url.startswith(allowed) else errors.append(f"asks for {asked.url}")
        )
        page.goto(path.as_uri())
        yield page, errors
        browser.close()
