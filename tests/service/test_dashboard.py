"""The dashboard in a real browser, against a real service."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from chromium import CHROMIUM_FLAGS, chromium_executable
from polling import wait_until
from running_service import START_TIMEOUT_SECONDS, STOP_TIMEOUT_SECONDS, free_port, run_service
from simulated_days import store_some_days

FEATURES = [
    {"name": "age", "kind": "continuous", "low": 0, "high": 120},
    {"name": "plan", "kind": "categorical", "values": ["basic", "plus"]},
    {"name": "smoker", "kind": "boolean"},
    {"name": "income", "kind": "quantile", "missing": True},
    "severity",
]
BATCH = 20
RELEAF = {"name": "Releaf", "parameters": {"observe": "always", "seed": 0}}
CANVAS = """[...document.querySelectorAll("#series figure")]
    .find((one) => one.querySelector("figcaption").firstChild.textContent === name)?.querySelector("canvas")"""
DIFFERENT = f"""(name) => {{
    const canvas = {CANVAS}
    if (!canvas) return 0  // it is being replaced
    const now = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data
    const before = (window.kept ??= {{}})[name] ?? new Uint8ClampedArray(now.length)
    let count = 0
    for (let place = 0; place < now.length; place += 4)
        if ([0, 1, 2, 3].some((part) => now[place + part] !== before[place + part])) count += 1
    return count
}}"""


class Service:
    """A service that is running, and what tests ask it for."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = httpx.Client(base_url=url, timeout=120, trust_env=False)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.client.request(method, f"/v1/experiments{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def create(self, name: str, **options: Any) -> str:
        asked = {"name": name, "actions": ["discharge", "refer"], "features": FEATURES, "policy": RELEAF}
        self.call("POST", "", {**asked, **options})
        return f"{self.url}/experiments/{name}"

    def run_decisions(self, name: str, steps: int, seed: int = 0) -> None:
        """Decisions whose rewards depend on the age alone."""
        chance = random.Random(seed)
        contexts: list[list[Any]] = [
            [chance.uniform(0, 120), "plus", chance.random() < 0.5, chance.gauss(0, 1), chance.random()]
            for _ in range(steps)
        ]
        for start in range(0, steps, BATCH):
            some = contexts[start : start + BATCH]
            decided = self.call("POST", f"/{name}/decide", {"contexts": some})["decisions"]
            rewards = [
                {"decision": one["decision"], "reward": float((context[0] > 60) == (one["action"] == "refer"))}
                for one, context in zip(decided, some, strict=True)
                if one["wants_reward"]
            ]
            if rewards:
                self.call("POST", f"/{name}/reward", {"rewards": rewards})


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Service]:
    chromium_executable()
    with run_service(folder, *options) as url:
        service = Service(url)
        with service.client:
            yield service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("service")) as started:
        yield started


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_executable(), args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


Open = Callable[..., Any]


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Open]:
    """Opens pages, and fails where one of them complains, or asks another host for something."""
    contexts, errors, expected = [], [], []

    def opened(
        url: str, *, width: int = 1280, scheme: str = "light", expects: str = "", context: Any = None, **more: Any
    ) -> Any:
        if context is None:
            context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **more)
            context.set_default_timeout(60_000)  # of a machine that does much else
            contexts.append(context)
        tab = context.new_page()
        host = "/".join(url.split("/")[:3])
        expected.append(expects)
        tab.on("console", lambda told: errors.append(told.text) if told.type in ("error", "warning") else None)
        tab.on("pageerror", lambda error: errors.append(f"uncaught: {error}"))
        tab.on("request", lambda asked: None if asked.url.startswith(host) else errors.append(f"asks for {asked.url}"))
        tab.goto(url)
        return tab

    yield opened
    for context in contexts:
        context.close()
    excused = [text for text in [*expected, "willReadFrequently"] if text]  # the test itself reads pixels
    assert [error for error in errors if not any(text in error for text in excused)] == []


def wait_for_charts(tab: Any) -> None:
    """Charts are drawn."""
    tab.wait_for_function(
        """() => {
            const charts = [...document.querySelectorAll("#series figure")]
            return charts.length >= 5 && charts.every((chart) => chart.querySelector("canvas"))
        }"""
    )


def keep_pixels(tab: Any, name: str) -> None:
    tab.evaluate(
        f"""(name) => {{
            const canvas = {CANVAS}
            const kept = (window.kept ??= {{}})
            kept[name] = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data
        }}""",
        name,
    )


CHARTS = ("Traffic share", "Mean reward by action", "Exploration share", "Mean reward", "Labels spent")


def violations(tab: Any) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    found = Axe().run(tab).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary']}" for one in found]


def test_an_empty_dashboard_shows_the_next_step(open_page: Open, tmp_path: Path) -> None:
    with serving(tmp_path) as alone:
        tab = open_page(alone.url)
        tab.get_by_text("No experiments yet").wait_for()
        assert "curl" in tab.locator(".command pre").inner_text()
        assert '"name":"triage"' in tab.locator(".command pre").inner_text()
        tab.get_by_role("link", name="Create the first experiment").click()
        tab.get_by_role("heading", name="New experiment").wait_for()
        tab.close()


def decide_for_real(tab: Any) -> None:
    tab.get_by_role("button", name="Decide for real").click()
    tab.get_by_role("dialog").get_by_role("button", name="Decide", exact=True).click()


def test_an_experiment_is_created_decided_and_rewarded_and_the_charts_follow(open_page: Open, service: Service) -> None:
    tab = open_page(f"{service.url}/new", expects="status of 422")
    tab.get_by_label("Policy").select_option("Releaf")
    tab.get_by_label("Name", exact=True).fill("no spaces")
    tab.get_by_role("button", name="Create experiment").click()
    assert "Expected 1 to 64 letters" in tab.locator("#name-error").inner_text()
    assert "at least one action" in tab.locator("#actions-error").inner_text()
    assert "Give the feature a name" in tab.locator("#feature-1-error").inner_text()
    assert tab.evaluate("document.activeElement.id") == "name"

    tab.get_by_label("Name", exact=True).fill("clinic")
    tab.get_by_label("Actions").fill("discharge\nrefer")
    tab.get_by_label("Name of feature 1").fill("age")
    tab.get_by_label("Kind of feature 1").select_option("continuous")
    tab.get_by_label("Lowest value of feature 1").fill("0")
    tab.get_by_label("Highest value of feature 1").fill("120")
    tab.get_by_role("button", name="Add a feature").click()
    tab.get_by_label("Name of feature 2").fill("plan")
    tab.get_by_label("Kind of feature 2").select_option("categorical")
    tab.get_by_label("Values of feature 2").fill("basic, plus")
    tab.get_by_text("Parameters").click()
    tab.get_by_label("observe").fill("sometimes")
    tab.get_by_label("Deadline", exact=True).fill("2")
    tab.get_by_label("Reward after the deadline").fill("0")
    tab.get_by_role("button", name="Create experiment").click()
    tab.locator("#new-observe-error", has_text="sometimes").wait_for()  # what the service says, next to its field
    tab.get_by_label("observe").fill("always")
    tab.get_by_role("button", name="Create experiment").click()

    tab.wait_for_url("**/experiments/clinic", timeout=120_000)
    tab.get_by_text("No decisions yet", exact=True).first.wait_for()
    tab.get_by_text("Waiting for the first decision").wait_for()
    assert service.call("GET", "/clinic")["rewards"] == {"within_seconds": 7200.0, "default": 0.0, "signed": False}

    if shutil.which("curl"):
        line = tab.locator("#series-empty .command pre").inner_text()
        answered = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True, timeout=60)
        assert json.loads(answered.stdout)["decision"] == 1
    else:
        decide_for_real(tab)
    tab.locator("#feed [data-decision='1']").wait_for()

    tab.get_by_label("age", exact=True).fill("300")
    tab.get_by_role("button", name="Decide for real").click()
    assert "from 0 to 120" in tab.locator("#context-0-error").inner_text()
    tab.get_by_label("age", exact=True).fill("33")
    tab.get_by_role("button", name="Decide for real").click()
    tab.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    decide_for_real(tab)
    tab.locator("#try-result", has_text="Decision 2").wait_for()
    row = tab.locator("#feed [data-decision='2']")
    row.get_by_role("button").first.click()
    row.locator(".words p").first.wait_for()
    row.get_by_label("Reward").fill("7")
    row.get_by_role("button", name="Send reward").click()
    row.locator(".error", has_text="[0, 1]").wait_for()
    row.get_by_label("Reward").fill("1")
    row.get_by_role("button", name="Send reward").click()
    row.locator(".pill.rewarded", has_text="1").wait_for()
    assert service.call("GET", "/clinic")["counts"]["rewards"] == 1
    mean = tab.locator(".tile", has_text="Mean reward")
    mean.get_by_text("–", exact=True).wait_for()  # until no older decision waits
    service.call("POST", "/clinic/reward", {"decision": 1, "reward": 1})
    mean.get_by_text("1", exact=True).wait_for()


def test_charts_change_while_decisions_and_rewards_come(open_page: Open, service: Service) -> None:
    url = service.create("charts")
    service.run_decisions("charts", 30)
    tab = open_page(url)
    wait_for_charts(tab)
    blank = {name: tab.evaluate(DIFFERENT, name) for name in CHARTS}
    assert all(count > 500 for count in blank.values()), blank  # something is drawn
    for name in CHARTS:
        keep_pixels(tab, name)
    assert [tab.evaluate(DIFFERENT, name) for name in CHARTS] == [0] * len(CHARTS)

    service.run_decisions("charts", 200, seed=1)
    tab.locator(".tile", has_text="Decisions").get_by_text("230").wait_for()
    for name in CHARTS:
        tab.wait_for_function(f"(name) => ({DIFFERENT})(name) > 300", arg=name)
    tab.locator("#feed [data-decision='230']").wait_for()
    assert tab.locator("#feed li").count() == 100

    tab.locator("#series figure").first.get_by_text("Figures").click()
    tab.locator("#series figure").first.locator("tbody tr").nth(20).wait_for(state="attached")
    for name in CHARTS:
        keep_pixels(tab, name)
    tab.get_by_role("button", name="Time", exact=True).click()
    wait_for_charts(tab)
    tab.wait_for_function(f"(name) => ({DIFFERENT})(name) > 100", arg="Mean reward")


def test_the_feed_can_be_paused(open_page: Open, service: Service) -> None:
    url = service.create("paused")
    tab = open_page(url)
    tab.get_by_text("live", exact=True).last.wait_for()
    tab.get_by_role("button", name="Pause").click()
    service.run_decisions("paused", 3)
    tab.get_by_text("paused, 3 new").wait_for()
    assert tab.locator("#feed li").count() == 0
    tab.get_by_role("button", name="Resume").click()
    tab.locator("#feed [data-decision='3'] .rewarded").wait_for()


def test_intervals_of_a_feature_are_a_click_or_a_key_away(open_page: Open, service: Service) -> None:
    url = service.create("drill")
    service.run_decisions("drill", 400)
    tab = open_page(url)
    cell = tab.get_by_role("button", name=re.compile("^age for refer"))
    cell.click()
    tab.wait_for_function("() => document.querySelectorAll('#drill canvas').length === 2")
    assert cell.get_attribute("aria-pressed") == "true"
    assert tab.locator("#feature").input_value() == "age"
    tab.locator("#drill").get_by_text("Figures").last.click()
    table = tab.locator("#drill table").last
    told = service.call("GET", "/drill/partition/age")
    table.locator("tbody tr").nth(len(told["intervals"]) - 1).wait_for(state="attached")
    assert table.locator("tbody tr").count() == len(told["intervals"])
    assert table.locator("tbody tr").first.locator("td").first.inner_text() == str(told["intervals"][0]["arrivals"])

    cell.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "Enter"):
        tab.keyboard.press(key)
    tab.wait_for_function("() => document.getElementById('feature').value === 'smoker'")
    tab.locator("#drill figcaption", has_text="of smoker").wait_for()
    chosen = tab.locator(".cell[aria-pressed=true]")
    assert chosen.get_attribute("aria-label").startswith("smoker for discharge")
    assert tab.locator(".heat [tabindex='0']").count() == 1


def test_a_preview_explains_and_changes_nothing(open_page: Open, service: Service) -> None:
    url = service.create("tried")
    service.run_decisions("tried", 300)
    before = service.call("GET", "/tried")["events"]
    tab = open_page(url)
    tab.get_by_label("age", exact=True).fill("100")
    tab.get_by_role("combobox", name="plan").select_option("plus")
    tab.get_by_label("smoker", exact=True).set_checked(True)
    tab.get_by_role("button", name="Preview").click()
    told = tab.locator("#try-result")
    told.get_by_text("It would choose refer").wait_for()
    assert told.locator(".estimate").count() == 2
    assert told.locator(".estimate.chosen").inner_text().startswith("refer")
    assert service.call("GET", "/tried")["events"] == before


def test_shadows_are_added_compared_promoted_and_removed(open_page: Open, service: Service) -> None:
    url = service.create("shadowed")
    tab = open_page(url)
    tab.get_by_text("No shadow policies").wait_for()
    tab.get_by_text("Add a shadow policy").click()
    form = tab.locator("#shadow-form")
    form.get_by_label("Name").fill("chance")
    form.get_by_label("Policy").select_option("Random")
    form.get_by_role("button", name="Add shadow").click()
    tab.get_by_role("button", name="Promote chance").wait_for()
    service.run_decisions("shadowed", 200)
    tab.locator("#shadow-list canvas").wait_for()
    row = tab.locator("#shadow-list tr", has_text="chance")
    shadow = service.call("GET", "/shadowed")["shadows"][0]
    row.get_by_text(f"{100 * shadow['agreed'] / shadow['decisions'] + 0.01:.0f} %").wait_for()  # halves go up
    known = r"[+−]\d\.?\d* \[−\d\.?\d*, [+−]\d\.?\d*\]" if shadow["supported"] else r"\[−\d.*\]|not yet known"
    row.filter(has_text=re.compile(known)).wait_for()  # the page refreshes once a second

    tab.get_by_role("button", name="Promote chance").click()
    tab.get_by_role("button", name="Cancel").click()
    assert service.call("GET", "/shadowed")["policy"]["name"] == "Releaf"
    tab.get_by_role("button", name="Promote chance").click()
    tab.get_by_role("dialog").get_by_text("It is not shown to earn more than the policy in charge").wait_for()
    tab.get_by_role("button", name="Promote anyway", exact=True).click()
    tab.get_by_role("button", name="Promote former").wait_for()
    assert service.call("GET", "/shadowed")["policy"]["name"] == "Random"
    tab.get_by_text("This policy does not tell which features matter").wait_for()
    tab.get_by_role("button", name="Remove former").click()
    tab.get_by_role("dialog").get_by_role("button", name="Remove").click()
    tab.get_by_text("No shadow policies").wait_for()


def test_the_changes_of_an_experiment_are_listed_as_they_happen(open_page: Open, service: Service) -> None:
    url = service.create("changed")
    tab = open_page(url)
    listed = tab.locator("#change-list tbody tr")
    listed.get_by_text("Created").wait_for()
    for number in range(12):
        service.call("POST", "/changed/actions", {"action": f"<b>{number}</b>"})
    listed.get_by_text("Action added: <b>11</b>").wait_for()
    listed.get_by_text("actions: + <b>11</b>", exact=True).wait_for()
    tab.locator("#change-list").get_by_role("button", name="Show earlier").click()
    listed.get_by_text("Created").wait_for()
    assert listed.count() == 13


def test_actions_are_added_and_retired_and_an_experiment_is_retired(open_page: Open, service: Service) -> None:
    url = service.create("closing")
    tab = open_page(url, expects="status of 409")
    tab.get_by_label("New action").fill("refer")
    tab.get_by_role("button", name="Add", exact=True).click()
    tab.locator("#action-error", has_text="refer").wait_for()  # it is there already
    tab.get_by_label("New action").fill("admit")
    tab.get_by_role("button", name="Add", exact=True).click()
    tab.get_by_role("button", name="Retire action admit").wait_for()
    tab.get_by_role("button", name="Retire action discharge").click()
    tab.get_by_role("dialog").get_by_role("button", name="Retire").click()
    tab.get_by_role("button", name="Retire action discharge").wait_for(state="detached")
    assert service.call("GET", "/closing")["actions"] == ["refer", "admit"]
    tab.get_by_role("button", name="Retire the experiment").click()
    tab.get_by_role("dialog").get_by_role("button", name="Retire").click()
    tab.get_by_text("Retired: no more decisions are taken").wait_for()
    assert tab.get_by_role("button", name="Decide for real").is_disabled()
    assert service.call("GET", "/closing")["status"] == "retired"


def test_recorded_decisions_are_filtered_paged_and_exported(open_page: Open, service: Service) -> None:
    url = service.create("recorded")
    service.run_decisions("recorded", 40)
    service.call("POST", "/recorded/decide", {"context": [1, "basic", True, None, 0.5]})
    tab = open_page(url)
    records = tab.locator("#record-list")
    records.get_by_text("#41").wait_for()
    assert records.locator("tbody tr").count() == 15
    records.get_by_role("button", name="Older").click()
    records.get_by_text("#26", exact=True).wait_for()
    records.get_by_role("button", name="Newer").click()
    records.get_by_text("#41").wait_for()
    tab.get_by_label("Outcome").select_option("waiting")
    records.get_by_text("#40").wait_for(state="detached")
    assert records.locator("tbody tr").count() == 1
    records.get_by_role("button", name="#41").click()
    records.get_by_label("Reward").fill("0.5")
    records.get_by_role("button", name="Send reward").click()
    records.get_by_text("No decision fits").wait_for()
    for kind in ("CSV", "Parquet", "NDJSON"):
        with tab.expect_download() as download:
            tab.get_by_role("link", name=kind).click()
        assert Path(download.value.path()).stat().st_size > 500
    text = service.client.get("/v1/experiments/recorded/export?format=csv").text
    assert len(text.splitlines()) == 42


def test_names_are_escaped(open_page: Open, service: Service) -> None:
    nasty = "<img src=x onerror=alert(1)>"
    url = service.create("nasty", actions=[nasty, "b"], features=[nasty, "y"], policy={"name": "UCB1"})
    service.call("POST", "/nasty/decide", {"context": [0.5, 0.5]})
    tab = open_page(url)
    tab.locator("#feed li").first.get_by_role("button").click()
    tab.locator("#feed .words").wait_for()
    assert tab.locator("#feed .what").inner_text() == nasty
    assert tab.locator("main img").count() == 0
    assert "There is no experiment" in _missing(open_page, service)


def _missing(open_page: Open, service: Service) -> str:
    tab = open_page(f"{service.url}/experiments/%3Cb%3Enothing", expects="status of 404")
    tab.get_by_role("link", name="All experiments").wait_for()
    assert tab.locator("main b").count() == 0
    return str(tab.locator("main").inner_text())


@pytest.mark.parametrize("width", [390, 1440])
def test_pages_fit_the_screen(open_page: Open, service: Service, width: int) -> None:
    url = service.create(f"fits-{width}")
    service.run_decisions(f"fits-{width}", 60)
    for page in (service.url, f"{service.url}/new", f"{service.url}/login", url):
        tab = open_page(page, width=width)
        tab.wait_for_load_state("load")
        if page == url:
            wait_for_charts(tab)
            tab.locator("#feed li button").first.click()
            tab.locator(".cell").first.click()
            tab.get_by_role("button", name="Preview").click()
            tab.locator("#drill canvas").first.wait_for()
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.close()


def test_the_theme_is_chosen_remembered_and_followed_by_the_charts(open_page: Open, service: Service) -> None:
    url = service.create("themed")
    service.run_decisions("themed", 60)
    tab = open_page(url)
    wait_for_charts(tab)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(ground)
    keep_pixels(tab, "Mean reward")
    tab.get_by_role("button", name="Theme: auto").click()
    tab.get_by_role("button", name="Theme: light").click()
    tab.get_by_role("button", name="Theme: dark").wait_for()
    assert tab.evaluate(ground) != light
    wait_for_charts(tab)
    tab.wait_for_function(f"(name) => ({DIFFERENT})(name) > 500", arg="Mean reward")
    tab.goto(service.url)
    assert tab.get_by_role("button", name="Theme: dark").is_visible()
    dark = tab.evaluate(ground)
    assert open_page(service.url, scheme="dark").evaluate(ground) == dark


def test_all_controls_work_with_the_keyboard(open_page: Open, service: Service) -> None:
    service.create("keys")
    tab = open_page(service.url)
    tab.get_by_role("link", name="keys", exact=True).wait_for()
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert tab.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "New experiment"
    _tab_to(tab, "document.activeElement.textContent === 'keys'")
    outline = tab.evaluate("getComputedStyle(document.activeElement.closest('article')).outlineStyle")
    assert outline == "solid"  # one sees where one is
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/experiments/keys")
    tab.locator("#context-4").wait_for()
    _tab_to(tab, "document.activeElement.id === 'context-0'")
    tab.keyboard.type("77")
    _tab_to(tab, "document.activeElement.id === 'context-3'")
    tab.keyboard.press("Delete")  # the income is missing
    _tab_to(tab, "document.activeElement.id === 'decide'")
    tab.keyboard.press("Enter")
    _tab_to(tab, "document.activeElement.id === 'confirm-yes'")
    tab.keyboard.press("Enter")
    tab.locator("#feed [data-decision='1']").wait_for()
    tab.evaluate("document.getElementById('content').focus()")
    _tab_to(tab, "document.activeElement.className === 'row-open'")
    tab.keyboard.press("Enter")
    tab.locator("#feed .words").wait_for()
    _tab_to(tab, "document.activeElement.id.startsWith('reward-1')")
    tab.keyboard.type("1")
    tab.keyboard.press("Enter")
    tab.locator("#feed .rewarded").wait_for()
    context = service.call("GET", "/keys/decisions")["decisions"][0]["context"]
    assert (context["age"], context["income"]) == (77, None)


def _tab_to(tab: Any, condition: str) -> None:
    for _ in range(60):
        if tab.evaluate(condition):
            return
        tab.keyboard.press("Tab")
    raise AssertionError(f"the tab key does not lead to where {condition}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible(open_page: Open, service: Service, scheme: str) -> None:
    name = f"open-to-all-{scheme}"
    url = service.create(name)
    still = {"scheme": scheme, "reduced_motion": "reduce"}
    fresh = open_page(url, **still)
    fresh.get_by_text("Waiting for the first decision").wait_for()
    assert violations(fresh) == []
    service.call("POST", f"/{name}/shadows", {"name": "chance", "policy": {"name": "Random"}})
    service.run_decisions(name, 300)
    service.call("POST", f"/{name}/decide", {"context": [1, "basic", True, None, 0.5]})
    for page in (service.url, f"{service.url}/new", f"{service.url}/login?failed=1", url):
        tab = open_page(page, **still)
        if page == url:
            wait_for_charts(tab)
            tab.locator("#feed li button").first.click()
            tab.locator("#feed .words").wait_for()
            tab.get_by_role("button", name=re.compile("^age for")).first.click()
            tab.get_by_role("button", name="Preview").click()
            tab.locator("#drill canvas").last.wait_for()
            for summary in tab.locator("summary").all():
                summary.click()
        else:
            tab.get_by_role("heading", level=1).wait_for()
        assert violations(tab) == []
        tab.close()


def test_the_dashboard_asks_for_a_key_if_keys_are_needed(open_page: Open, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "releaf", "keys", "add", "tester", "--scope", "*:admin", "--json"]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    made = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, check=True)
    key = json.loads(made.stdout)["key"]
    with serving(tmp_path, "--require-keys") as keyed:
        tab = open_page(f"{keyed.url}/new", expects="status of 401")
        tab.wait_for_url("**/login?next=%2Fnew")
        tab.get_by_label("API key").fill("rlf_wrong")
        tab.get_by_role("button", name="Sign in").click()
        tab.get_by_text("This key is not known").wait_for()
        tab.get_by_label("API key").fill(key)
        tab.get_by_role("button", name="Sign in").click()
        tab.wait_for_url("**/new")
        tab.get_by_label("Policy").wait_for()
        tab.get_by_role("link", name="Experiments").click()
        tab.get_by_text("No experiments yet").wait_for()
        assert "Authorization: Bearer" in tab.locator(".command pre").inner_text()
        tab.get_by_role("button", name="Sign out").click()
        tab.wait_for_url("**/login")
        assert tab.context.cookies() == []
        tab.close()


def test_changes_are_hidden_from_a_key_that_may_only_read(open_page: Open, tmp_path: Path) -> None:
    keys = []
    for scope in ("*:admin", "*:read"):
        command = [sys.executable, "-m", "releaf", "keys", "add", "tester", "--scope", scope, "--json"]
        variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        made = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, check=True)
        keys.append(json.loads(made.stdout)["key"])
    with serving(tmp_path, "--require-keys") as keyed:
        body = {"name": "x", "actions": ["a", "b"], "features": 2, "policy": {"name": "UCB1"}}
        headers = {"Authorization": f"Bearer {keys[0]}"}
        httpx.post(f"{keyed.url}/v1/experiments", json=body, headers=headers, timeout=60).raise_for_status()
        for key, is_shown in zip(keys, (True, False), strict=True):
            tab = open_page(f"{keyed.url}/login?next=%2Fexperiments%2Fx", expects="status of 40")
            tab.get_by_label("API key").fill(key)
            with tab.expect_response("**/v1/audit?*"):
                tab.get_by_role("button", name="Sign in").click()
            tab.locator("#page").wait_for()
            if is_shown:
                tab.locator("#change-list tbody tr").get_by_text("Created").wait_for()
            assert tab.locator("#changes").is_visible() == is_shown
            tab.get_by_role("button", name="Sign out").click()
            tab.wait_for_url("**/login")
            tab.close()


def test_an_outage_is_shown_and_recovers_by_itself(open_page: Open, service: Service) -> None:
    url = service.create("outage", policy={"name": "UCB1"})
    tab = open_page(url, expects="ERR_INTERNET_DISCONNECTED")
    tab.get_by_text("live", exact=True).last.wait_for()
    tab.context.set_offline(True)
    tab.get_by_role("button", name="Preview").click()
    tab.get_by_text(re.compile("does not answer.*Trying again")).wait_for()
    tab.context.set_offline(False)
    tab.locator("#try-result", has_text="It would choose").wait_for()
    tab.get_by_text("Trying again").wait_for(state="detached")
    service.call("POST", "/outage/decide", {"context": [1, "basic", True, None, 0.5]})
    tab.locator("#feed [data-decision='1']").wait_for()


def test_a_standby_shows_its_status_and_takes_over(open_page: Open, tmp_path: Path) -> None:
    with ExitStack() as second:
        with serving(tmp_path) as first:
            first.create("shared", policy={"name": "UCB1"})
            first.call("POST", "/shared/decide", {"context": [1, "basic", True, None, 0.5]})
            url = second.enter_context(standing_by(tmp_path))
            tab = open_page(f"{url}/experiments/shared")
            tab.get_by_text("Another process writes this experiment").wait_for()
            assert tab.get_by_role("button", name="Decide for real").is_hidden()
        tab.locator("#feed [data-decision='1']").wait_for()
        decide_for_real(tab)
        tab.locator("#feed [data-decision='2']").wait_for()
        tab.close()


@contextmanager
def standing_by(folder: Path) -> Iterator[str]:
    """A second process on the same store, which is not ready as long as the first one is there."""
    port = free_port()
    command = [sys.executable, "-m", "releaf", "serve", "--port", str(port)]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with (folder / "second.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=variables, stdout=log, stderr=log)
    try:
        wait_until(lambda: process.poll() is not None or _answers(f"http://127.0.0.1:{port}"), START_TIMEOUT_SECONDS)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(STOP_TIMEOUT_SECONDS)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", trust_env=False).is_success
    except httpx.TransportError:
        return False


def test_rate_limited_requests_are_shown_and_retried(open_page: Open, tmp_path: Path) -> None:
    with serving(tmp_path, "--rate-limit", "60") as slow:
        url = slow.create("busy", policy={"name": "UCB1"})
        tab = open_page(url, expects="status of 429")
        tab.locator("#context-0").wait_for()
        enough = threading.Event()
        flood = threading.Thread(target=_flood, args=(slow, enough))
        flood.start()
        try:
            while slow.client.get("/healthz").status_code != 429:
                pass
            tab.get_by_role("button", name="Preview").click()
            tab.get_by_text("Trying again").wait_for()
        finally:
            enough.set()
            flood.join()
        tab.locator("#try-result", has_text="It would choose").wait_for()
        tab.get_by_text("Trying again").wait_for(state="detached")
        tab.close()


def _flood(service: Service, enough: threading.Event) -> None:
    """More requests than are allowed, many at a time on one connection."""
    host, port = service.url.removeprefix("http://").split(":")
    asked = f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() * 50
    with socket.create_connection((host, int(port))) as connection:
        while not enough.is_set():
            connection.sendall(asked)
            connection.recv(1 << 16)


def test_the_chart_library_is_compressed_and_cached(service: Service) -> None:
    first = service.client.get("/static/vega.js")
    assert first.headers["content-encoding"] == "gzip"
    assert int(first.headers["content-length"]) < 400_000 < len(first.content)
    again = service.client.get("/static/vega.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    plain = service.client.get("/static/vega.js", headers={"Accept-Encoding": "identity"})
    assert plain.content == first.content
    assert plain.headers["etag"] != first.headers["etag"]


def test_pages_forbid_inline_scripts_and_only_known_files_are_served(service: Service) -> None:
    for path in ("/", "/new", "/login", "/experiments/x"):
        policy = service.client.get(path).headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
    style = service.client.get("/static/page.css")
    assert style.headers["content-type"].startswith("text/css")
    known = {"If-None-Match": style.headers["etag"]}
    assert service.client.get("/static/page.css", headers=known).status_code == 304
    for path in ("/static/__init__.py", "/static/..%2f__init__.py", "/static/"):
        assert service.client.get(path).status_code == 404


# --- figures of a range of time -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def some_days(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose experiment "days" has had five days with a promotion, a drift, and no rewards on the last one."""
    folder = tmp_path_factory.mktemp("days")
    store_some_days(folder / "days.db")
    with serving(folder, "--store", str(folder / "days.db")) as started:
        yield started


def wait_for_comparison(tab: Any) -> Any:
    tab.locator("#comparison tbody tr").first.wait_for()
    return tab.locator("#comparison tbody tr")


def test_actions_are_compared_over_a_chosen_baseline_and_range(open_page: Open, some_days: Service) -> None:
    tab = open_page(f"{some_days.url}/experiments/days")
    rows = wait_for_comparison(tab)
    told = some_days.call("GET", "/days/summary")
    assert rows.count() == len(told["actions"]) == 3
    treat = told["actions"][1]
    assert f"{100 * treat['share']:.0f} %" in rows.nth(1).inner_text()
    assert "baseline" in rows.nth(0).inner_text()
    assert f"{abs(treat['lift']):.3f}" in rows.nth(1).inner_text()
    assert f"{treat['lift_low']:+.3f} to {treat['lift_high']:+.3f}".replace("-", "−") in rows.nth(1).inner_text()
    verdict = tab.locator("#headline-lift .verdict")
    assert f"{told['lift']:+.3f}" in verdict.inner_text()
    assert "more per decision than always wait" in verdict.inner_text()
    tab.get_by_label("with always").select_option("treat")
    rows.nth(1).get_by_text("baseline").wait_for()
    tab.get_by_text("than always treat").wait_for()

    tab.get_by_label("Range of time").select_option("day")
    tab.wait_for_url("**/days?range=day&axis=time")
    tab.wait_for_function("() => Number(document.querySelector('#comparison td small').textContent) < 1300")
    tab.reload()
    rows.first.wait_for()
    assert tab.get_by_label("Range of time").input_value() == "day"
    tab.get_by_label("Range of time").select_option("hour")
    tab.locator("#comparison").get_by_text("No decisions in this range").wait_for()
    tab.locator("#series-empty").get_by_text("No decisions in this range").wait_for()
    tab.get_by_label("Range of time").select_option("custom")
    tab.get_by_label("From", exact=True).fill("2040-01-02T00:00")
    tab.get_by_label("To", exact=True).fill("2040-01-01T00:00")
    tab.get_by_text("The beginning must be before the end.").wait_for()
    with tab.expect_response("**/summary?*") as asked:
        tab.get_by_label("with always").select_option("wait")
    assert "since=2040-01-0" in asked.value.url  # the latest range that was right
    assert "until" not in asked.value.url


def test_changes_are_flags_of_the_charts_and_in_words(open_page: Open, some_days: Service) -> None:
    tab = open_page(f"{some_days.url}/experiments/days")
    wait_for_charts(tab)
    flags = tab.get_by_role("list", name="Changes in this range").get_by_role("listitem")
    flags.filter(has_text="forgetting promoted").wait_for()
    assert flags.count() == 2
    assert tab.get_by_role("list", name="Colours of the actions").get_by_role("listitem").all_inner_texts() == [
        "wait",
        "treat",
        "refer",
    ]


def test_alerts_say_what_is_wrong_and_what_to_do_here_on_the_list_and_in_the_metrics(
    open_page: Open, some_days: Service
) -> None:
    tab = open_page(f"{some_days.url}/experiments/days")
    alerts = tab.get_by_role("list", name="Alerts").get_by_role("listitem")
    alerts.filter(has_text="No reward has come for").filter(has_text="Check that the program").wait_for()
    alerts.filter(has_text="What treat earns changed").filter(has_text="adapts sooner").wait_for()
    told = some_days.call("GET", "/days")["alerts"]
    assert [one["kind"] for one in told] == ["stalled_rewards", "drift"]
    metrics = some_days.client.get("/metrics").text
    assert 'releaf_alerts{experiment="days",kind="drift"} 1.0' in metrics
    assert 'releaf_action_decisions_total{action="treat",experiment="days"}' in metrics
    tab.goto(some_days.url)
    tab.locator(".experiment").get_by_text("No reward has come for").wait_for()


def test_a_preview_shows_how_often_each_action_would_be_taken(open_page: Open, some_days: Service) -> None:
    tab = open_page(f"{some_days.url}/experiments/days")
    tab.get_by_role("button", name="Preview").click()
    shares = tab.locator("#try-result .distribution .n")
    shares.first.wait_for()
    percents = [float(text.removesuffix(" %")) for text in shares.all_inner_texts()]
    assert sum(percents) == pytest.approx(100, abs=2)
    assert percents == sorted(percents, reverse=True)
    assert min(percents) >= 3  # its least probability is 0.1
    assert f"in {shares.first.inner_text()} of cases" in tab.locator("#try-result h3").inner_text()


def test_an_action_that_depends_on_nothing_has_an_empty_row(open_page: Open, service: Service) -> None:
    """Rewards of "refer" depend on the age, those of "discharge" on nothing."""
    policy = {"name": "AdaptiveReleaf", "parameters": {"least_probability": 0.5, "seed": 0}}
    url = service.create("nothing", policy=policy)
    chance = random.Random(4)
    for _ in range(60):
        ages = [chance.uniform(0, 120) for _ in range(BATCH)]
        some = [[age, "plus", True, chance.gauss(0, 1), chance.random()] for age in ages]
        decided = service.call("POST", "/nothing/decide", {"contexts": some})["decisions"]
        rewards = [
            {"decision": one["decision"], "reward": float(chance.random() < (0.5, 0.9, 0.1)[earns])}
            for one, age in zip(decided, ages, strict=True)
            for earns in [0 if one["action"] == "discharge" else 1 if age > 60 else 2]
        ]
        service.call("POST", "/nothing/reward", {"rewards": rewards})
    tab = open_page(url)
    age = tab.get_by_role("button", name=re.compile(r"^age for refer: \d+ %, certain to 99"))
    age.wait_for()
    others = tab.get_by_role("button", name=re.compile("for discharge:"))
    assert set(others.all_inner_texts()) <= {"", "?"}


def test_the_picture_of_the_documentation_can_be_made_anew_and_is_small(tmp_path: Path) -> None:
    chromium_executable()
    root = Path(__file__).parents[2]
    command = [sys.executable, str(root / "tools" / "make_dashboard_picture.py"), str(tmp_path)]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    for folder in (tmp_path, root / "docs" / "pictures"):
        assert 20_000 < (folder / "dashboard.jpg").stat().st_size < 150_000


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_some_days_fits_and_is_accessible(
    open_page: Open, some_days: Service, width: int, scheme: str
) -> None:
    tab = open_page(f"{some_days.url}/experiments/days", width=width, scheme=scheme, reduced_motion="reduce")
    wait_for_charts(tab)
    wait_for_comparison(tab)
    tab.get_by_label("Range of time").select_option("week")
    tab.get_by_role("button", name="Preview").click()
    tab.locator("#try-result .distribution").wait_for()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(tab) == []


def test_range_baseline_and_axis_are_chosen_with_the_keyboard(open_page: Open, some_days: Service) -> None:
    tab = open_page(f"{some_days.url}/experiments/days")
    wait_for_comparison(tab)
    _tab_to(tab, "document.activeElement.id === 'range'")
    tab.keyboard.press("End")
    tab.get_by_label("From", exact=True).wait_for()
    tab.keyboard.press("Home")
    _tab_to(tab, "document.activeElement.id === 'by-time'")
    tab.keyboard.press("Enter")
    assert tab.locator("#by-time").get_attribute("aria-pressed") == "true"
    _tab_to(tab, "document.activeElement.id === 'baseline'")
    tab.keyboard.press("ArrowDown")
    tab.get_by_text("than always treat").wait_for()


def test_the_lift_over_the_control_group_is_shown(service: Service, open_page: Open) -> None:
    policy = {"name": "LinUCB", "parameters": {"seed": 0, "control_share": 0.3}}
    url = service.create("with-control", policy=policy)
    page = open_page(url)
    told = page.locator("#headline-control")
    told.get_by_text("Lift over control is not known: both groups need rewards.").wait_for()
    service.run_decisions("with-control", 1_600)
    page.reload()
    told.get_by_text("more per decision than control").wait_for()
    found = service.call("GET", "/with-control")["control"]
    assert f"+{found['lift']:.3f} more per decision than control: within" in told.inner_text()
    assert "Control decides 30 % of traffic (any action, each with the same probability)." in told.inner_text()
    without = open_page(service.create("without-control"))
    without.locator("#headline-lift").wait_for(state="attached")
    assert without.locator("#headline-control").inner_text() == ""


@pytest.mark.parametrize("width", [1280, 390])
def test_an_experiment_without_actions_says_what_to_do(open_page: Open, service: Service, width: int) -> None:
    name = f"bare{width}"
    policy = {"name": "HybridLinUCB", "parameters": {"seed": 0, "max_actions": 50}}
    described = [{"name": "price", "kind": "continuous", "low": 0, "high": 9}]
    page = open_page(
        service.create(name, actions={}, features=["heat"], action_features=described, policy=policy), width=width
    )
    page.get_by_text("Actions come with the requests. Ask for the first decision").wait_for()
    page.locator("#comparison").get_by_text("No actions yet").wait_for()
    page.locator("#heat").get_by_text("No actions yet").wait_for()
    assert '"actions":{"example":{"price":4.5}}' in page.locator("#try-form").inner_text()
    assert page.locator("#preview, #series figure:visible, #notices .note").count() == 0
    service.call("POST", f"/{name}/decide", {"context": [0.5], "actions": {"tea": {"price": 2.0}}})
    page.locator("#action-list").get_by_text("tea").wait_for()
    page.locator("#series canvas").first.wait_for()
    page.locator("#preview").wait_for()


def test_a_hashed_context_has_a_note_and_a_rank_request_instead_of_a_form(open_page: Open, service: Service) -> None:
    policy = {"name": "HybridLinUCB", "parameters": {"seed": 0, "max_actions": 50}}
    page = open_page(service.create("hashed", actions={}, features=24, action_features=16, policy=policy))
    told = page.locator("#try-form")
    told.get_by_text("columns of numbers that the service makes").wait_for()
    assert "/v1/experiments/hashed/personalizer/v1.0/rank" in told.inner_text()
    assert page.locator("#try-form input").count() == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_a_context_with_a_date_is_previewed_and_decided(open_page: Open, service: Service, width: int) -> None:
    dates = [{"name": "at", "kind": "datetime", "parts": ["weekday", "hour"]}, "severity"]
    name = f"dated{width}"
    page = open_page(service.create(name, features=dates), width=width)
    field = page.get_by_label("at", exact=True)
    field.wait_for()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d", field.input_value())
    field.fill("2026-01-31T09:30")
    page.locator("#preview").click()
    page.locator("#try-result").get_by_text("It would choose").wait_for()
    page.locator("#decide").click()
    page.get_by_role("dialog").get_by_role("button", name="Decide").click()
    page.locator("#try-result").get_by_text("Decision 1").first.wait_for()
    (made,) = service.call("GET", f"/{name}/decisions")["decisions"]
    assert made["context"]["at"] == "2026-01-31T09:30"
    field.fill("")
    page.locator("#preview").click()
    page.get_by_text("Expected a date and a time.").wait_for()
