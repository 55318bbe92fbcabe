"""Take the picture of the dashboard for the documentation, from a service with five simulated days.

python tools/make_dashboard_picture.py [FOLDER]

It needs chromium.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "support"))
from chromium import CHROMIUM_FLAGS, chromium_executable  # noqa: E402
from running_service import run_service  # noqa: E402
from simulated_days import store_some_days  # noqa: E402

WIDTH, HEIGHT = 1120, 1010
DRAWN = "() => document.querySelectorAll('#series canvas').length === 5 && document.querySelector('#comparison tr')"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures"
    path = folder / "dashboard.jpg"
    with tempfile.TemporaryDirectory() as name:
        store = Path(name) / "days.db"
        store_some_days(store)
        with run_service(Path(name), "--store", str(store)) as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium_executable(), args=CHROMIUM_FLAGS)
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
            page.goto(f"{url}/experiments/days?axis=time")
            page.wait_for_function(DRAWN)
            page.get_by_text("What treat earns changed").wait_for()
            page.screenshot(path=path, type="jpeg", quality=72)
            browser.close()
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
