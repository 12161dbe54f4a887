"""The page in a real browser: it opens without complaints, filters claims, fits a phone, and prints without buttons."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from svrl.paper.page import render_page

from .sample_report import IMAGES, sample_report

DESKTOP, PHONE = (1280, 900), (360, 740)

UNTRIED = "THE PAGES WERE NOT TRIED IN A BROWSER: {} is missing. Install chromium, chromium-driver and selenium."

pytest.importorskip("selenium", reason=UNTRIED.format("selenium"))
from selenium.webdriver.common.by import By  # noqa: E402


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Without a window; it keeps what pages complain of."""
    webdriver = pytest.importorskip("selenium.webdriver", reason=UNTRIED.format("selenium"))
    options = webdriver.ChromeOptions()
    options.binary_location = _found("chromium", "chromium-browser", "google-chrome")
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(_found("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


def _found(*names: str) -> str:
    """The path of a program that has one of these names; skips the tests if there is none."""
    for name in names:
        if path := shutil.which(name):
            return path
    pytest.skip(UNTRIED.format(names[0]))


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("page")
    path = folder / "report.html"
    path.write_text(render_page(sample_report(folder / "runs"), "laptop"), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(browser, address) -> Any:
    look(browser)
    browser.get(address)
    yield browser
    complaints = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert complaints == []


def look(browser: Any, size: tuple[int, int] = DESKTOP, *, media: str = "screen") -> None:
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})
    wait_for_paint(browser)  # the page hears of the medium then


def wait_for_paint(browser: Any) -> None:
    """Let events that are waiting be handled, and the page be painted."""
    script = "const done = arguments[0]; setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)))"
    browser.execute_async_script(script)


def press(page: Any, selector: str) -> None:
    """Click in the middle of what is there, which fails if something lies above it."""
    target = page.find_element(By.CSS_SELECTOR, selector)
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", target)
    target.click()
    wait_for_paint(page)  # a link that changes the hash is followed by an event of its own


def shown(page: Any, selector: str) -> list[str]:
    """Ids of the elements that take up room and are not folded away."""
    script = "return [...document.querySelectorAll(arguments[0])].filter((e) => e.checkVisibility()).map((e) => e.id)"
    return page.execute_script(script, selector)


def test_every_picture_is_painted(page):
    script = "return [...document.images].map((one) => one.complete && one.naturalWidth > 200)"
    page.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.execute_script(script) == [True] * IMAGES


def test_claims_are_filtered_and_a_link_to_a_hidden_one_shows_and_opens_it(page):
    every = [f"claim-{name}" for name in ("svp-fifth", "svp-rank", "svp-time", "sv-better", "noise-pays")]
    assert shown(page, ".claim") == every
    press(page, "[data-filter='reproduced']")
    assert shown(page, ".claim") == ["claim-svp-fifth", "claim-noise-pays"]
    assert shown(page, ".claim dl") == []
    press(page, "#experiment-atari_learning .claims-of a")
    assert shown(page, ".claim") == every
    assert len(shown(page, "#claim-sv-better dl")) == len(shown(page, ".claim dl")) == 1
    press(page, "[data-filter='otherwise']")
    press(page, "[data-filter='otherwise']")
    assert shown(page, ".claim") == every


def test_a_phone_never_scrolls_sideways(page):
    look(page, PHONE)
    page.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    wide, inner = page.execute_script("return [document.scrollingElement.scrollWidth, innerWidth]")
    assert wide <= inner == PHONE[0]


def test_paper_has_everything_and_no_buttons(page):
    press(page, "[data-filter='failed']")
    look(page, media="print")
    assert len(shown(page, ".claim")) == len(shown(page, ".claim dl")) == 5
    assert len(shown(page, "figure")) == IMAGES
    assert shown(page, "button") == []
    printed = page.execute_cdp_cmd("Page.printToPDF", {})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
    look(page)
    assert len(shown(page, ".claim")) == 1
    assert shown(page, ".claim dl") == []
