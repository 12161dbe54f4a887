"""A real Chromium, started once for all tests of a file: what one page complains of is not the next one's."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

HOW = {
    "chromium": "Install the Debian packages chromium and chromium-driver.",
    "chromedriver": "Install the Debian packages chromium and chromium-driver.",
    "selenium": "Run pip install selenium.",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Without a window; it keeps what pages complain of."""
    webdriver = pytest.importorskip("selenium.webdriver", reason=_untried("selenium"))
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
    pytest.skip(_untried(names[0]))


def _untried(missing: str) -> str:
    return f"THE PAGES WERE NOT TRIED IN A BROWSER: {missing} is missing. {HOW[missing]}"
