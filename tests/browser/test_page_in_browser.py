"""The page in a real browser: what is painted, what the buttons do, on a screen, a phone and paper."""

from __future__ import annotations

import base64
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib import image as images
from tests.reporting.page.sample_page import sample_page

from svrl.experiments.paper.catalogue import load_all
from svrl.experiments.paper.figure_map import FIGURES
from svrl.experiments.paper.judging import Library
from svrl.experiments.paper.page import build_page
from svrl.experiments.paper.table import committed_table
from svrl.reporting.page.html import render_html

DESKTOP, PHONE = (1280, 900), (360, 740)
LIGHT_INK, DARK_INK = "rgb(28, 30, 33)", "rgb(228, 229, 231)"

pytest.importorskip("selenium", reason="THE PAGES WERE NOT TRIED IN A BROWSER: run pip install selenium.")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_html(sample_page()), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(browser, address) -> Any:
    """The page as somebody sees it who opens it for the first time, on a screen in the light."""
    look(browser)
    browser.get(address)
    browser.execute_script("localStorage.clear()")
    browser.get(address)
    yield browser
    complaints = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert complaints == []


def look(browser: Any, size: tuple[int, int] = DESKTOP, *, scheme: str = "light", media: str = "screen") -> None:
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def element(page: Any, selector: str) -> Any:
    return page.find_element(By.CSS_SELECTOR, selector)


def press(page: Any, selector: str) -> None:
    """Click in the middle of what is there, which fails if something lies above it."""
    target = element(page, selector)
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", target)
    target.click()


def shown(page: Any, selector: str) -> list[str]:
    """Ids of the elements that take up room."""
    script = (
        "return [...document.querySelectorAll(arguments[0])].filter((one) => one.getClientRects().length)"
        ".map((one) => one.id)"
    )
    return page.execute_script(script, selector)


def style(page: Any, selector: str, name: str) -> str:
    script = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    return page.execute_script(script, selector, name)


def picture(page: Any, selector: str, path: Path) -> Any:
    """What is painted of an element, as an array (height, width, 4) from 0 to 1."""
    script = (
        "const box = document.querySelector(arguments[0]).getBoundingClientRect();"
        "return {x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height, scale: 1}"
    )
    clip = page.execute_script(script, selector)
    shot = page.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    path.write_bytes(base64.b64decode(shot["data"]))
    return images.imread(path)


def level(page: Any) -> int:
    return int(element(page, "#zoom-level").text.rstrip("%"))


def test_every_figure_is_painted(page, tmp_path):
    for name in ("#fig3-panel-0", "#fig6-panel-0", "#toy-panel-0"):
        target = element(page, f"{name} svg")
        assert target.size["width"] > 300
        assert target.size["height"] > 150
        painted = picture(page, f"{name} svg", tmp_path / "figure.png")[..., :3]
        assert painted.min() < 0.3  # ink
        assert painted.max() == 1.0  # on white
        assert (painted.max(-1) - painted.min(-1)).max() > 0.3  # and colour


def test_a_curve_is_hidden_and_shown(page, tmp_path):
    def orange() -> int:
        painted = picture(page, "#fig6-panel-0 svg", tmp_path / "curves.png")
        red, green, blue = (painted[..., k] for k in range(3))
        return int(((red > 0.75) & (green < 0.5) & (blue < 0.2)).sum())

    both = orange()
    press(page, "#fig6-panel-0 [data-toggle='sv-dqn']")
    assert element(page, "#fig6-panel-0 [data-toggle='sv-dqn']").get_attribute("aria-pressed") == "false"
    assert 0 < orange() < 0.2 * both  # the legend stays
    assert style(page, "#fig6-panel-0 [data-series='dqn'] path", "visibility") == "visible"
    press(page, "#fig6-panel-0 [data-toggle='sv-dqn']")
    assert orange() == both


def test_toggles_of_one_figure_leave_others_alone(page):
    press(page, "#fig6-panel-0 [data-toggle='dqn']")
    hidden = page.execute_script("return document.querySelectorAll('#fig6-panel-1 .off').length")
    assert hidden == 0
    assert page.execute_script("return document.querySelectorAll('#fig6-panel-0 .off').length") == 4


def test_tabs_switch_by_mouse_and_keys(page):
    assert shown(page, "#fig6 .exhibit") == ["fig6-panel-0"]
    press(page, "#fig6-tab-1")
    assert shown(page, "#fig6 .exhibit") == ["fig6-panel-1"]
    assert element(page, "#fig6-panel-1 svg").size["height"] > 150
    page.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert shown(page, "#fig6 .exhibit") == ["fig6-panel-0"]
    assert page.switch_to.active_element.get_attribute("id") == "fig6-tab-0"


def test_filters_filter(page):
    every = ["claim-svp-fifth", "claim-svp-rank", "claim-svp-time", "claim-sv-better"]
    assert shown(page, ".claim") == every
    press(page, "[data-filter='failed']")
    assert shown(page, ".claim") == ["claim-sv-better"]
    press(page, "[data-filter='otherwise']")
    assert shown(page, ".claim") == ["claim-svp-rank"]
    press(page, "[data-filter='otherwise']")
    assert shown(page, ".claim") == every


def test_sorting_sorts_both_ways_and_back(page):
    every = shown(page, ".claim")
    head = "th[data-column='verdict'] button"
    press(page, head)
    up = shown(page, ".claim")
    assert up == ["claim-svp-fifth", "claim-svp-rank", "claim-sv-better", "claim-svp-time"]
    assert element(page, "th[data-column='verdict']").get_attribute("aria-sort") == "ascending"
    press(page, head)
    assert shown(page, ".claim") == up[::-1]
    press(page, head)
    assert shown(page, ".claim") == every
    press(page, "th[data-column='place'] button")  # in the order of the figures, not of the alphabet
    assert shown(page, ".claim") == every


def test_a_row_opens_to_how_it_was_tested(page):
    assert shown(page, ".more") == []
    press(page, "#claim-svp-rank .opener")
    assert shown(page, ".more") == ["claim-svp-rank-more"]
    assert "squared singular values" in element(page, "#claim-svp-rank-more").text
    page.switch_to.active_element.send_keys(Keys.ENTER)
    assert shown(page, ".more") == []


def test_a_link_to_a_claim_opens_it_even_if_it_was_filtered_out(page):
    press(page, "[data-filter='reproduced']")
    press(page, "#experiment-atari_learning .claims-of a")
    assert shown(page, ".more") == ["claim-sv-better-more"]
    assert len(shown(page, ".claim")) == 4


def test_a_figure_opens_large_zooms_moves_and_closes(page):
    before = element(page, "#fig6-panel-0 .picture svg").size["width"]
    press(page, "#fig6-panel-0 .picture")
    assert shown(page, "#viewer") == ["viewer"]
    large = element(page, "#viewer svg")
    assert large.size["width"] > before
    fitted = large.size["width"]
    press(page, "#zoom-in")
    press(page, "#zoom-in")
    assert level(page) == 196
    assert large.size["width"] == pytest.approx(1.96 * fitted, rel=0.01)
    stage = element(page, "#stage")
    place = large.location
    ActionChains(page, duration=20).move_to_element(stage).click_and_hold().move_by_offset(70, -40).release().perform()
    assert large.location["x"] == pytest.approx(place["x"] + 70, abs=2)
    assert large.location["y"] == pytest.approx(place["y"] - 40, abs=2)
    ActionChains(page).scroll_from_origin(_middle_of(stage), 0, -400).perform()
    assert level(page) > 196
    press(page, "#zoom-fit")
    assert (level(page), large.size["width"]) == (100, fitted)
    page.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert shown(page, "#viewer") == []
    assert element(page, "#fig6-panel-0 .picture svg").size["width"] == before
    assert page.switch_to.active_element.get_attribute("class") == "enlarge"


def _middle_of(target: Any) -> Any:
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    return ScrollOrigin.from_element(target)


def test_the_wheel_keeps_the_point_below_it(page):
    press(page, "#fig3 .enlarge")
    stage, large = element(page, "#stage"), element(page, "#viewer svg")
    middle = stage.location["x"] + stage.size["width"] / 2
    share = (middle - large.location["x"]) / large.size["width"]
    ActionChains(page).scroll_from_origin(_middle_of(stage), 0, -600).perform()
    assert level(page) > 150
    assert (middle - large.location["x"]) / large.size["width"] == pytest.approx(share, abs=0.01)
    stage.send_keys("0")
    assert level(page) == 100
    stage.send_keys("+")
    assert level(page) == 140


def test_two_fingers_zoom(browser, address):
    look(browser, PHONE)
    browser.get(address)
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    press(browser, "#fig3 .enlarge")

    def touch(kind: str, *points: tuple[int, int]) -> None:
        at = [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(points)]
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})

    touch("touchStart", (150, 400), (210, 400))
    for step in range(1, 7):
        touch("touchMove", (150 - 10 * step, 400), (210 + 10 * step, 400))
    touch("touchEnd")
    zoomed = level(browser)
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
    assert 200 <= zoomed <= 310  # from 60 to 180 pixels apart


def test_the_ink_follows_the_system_and_the_button(page, address):
    ink = "#fig6-panel-0 .picture svg"
    assert style(page, ink, "fill") == LIGHT_INK
    look(page, scheme="dark")
    assert style(page, ink, "fill") == DARK_INK
    ground = style(page, "body", "backgroundColor")
    press(page, "#theme")
    assert style(page, ink, "fill") == LIGHT_INK
    assert style(page, "body", "backgroundColor") != ground
    for _ in range(50):  # Chromium keeps what a page wrote a moment later, and a page that comes at once may miss it
        page.get(address)
        if style(page, ink, "fill") == LIGHT_INK:
            break
        time.sleep(0.1)
    assert style(page, ink, "fill") == LIGHT_INK  # remembered against the system's wish
    press(page, "#theme")
    assert style(page, ink, "fill") == DARK_INK


def test_figures_are_light_on_dark_in_the_dark(page, tmp_path):
    look(page, scheme="dark")
    painted = picture(page, "#toy svg", tmp_path / "dark.png")[..., :3]
    corner = painted[:4, :4].mean()
    assert corner < 0.15
    assert painted.max() > 0.8
    assert (painted.min(-1) > 0.97).mean() < 0.001  # no white markers are left


def test_commands_are_copied(page):
    page.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    press(page, "#toy .copy")
    told = page.execute_async_script(
        "const [button, done] = [document.querySelector('#toy .copy'), arguments[0]];"
        "const look = () => button.textContent === 'Copy' ? setTimeout(look, 10) : done(button.textContent); look()"
    )
    assert told == "Copied"
    copied = page.execute_async_script(
        "const done = arguments[0]; navigator.clipboard.readText().then(done, (error) => done(String(error)))"
    )
    assert copied == "svrl paper run fig6 --scale laptop"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_never_scrolls_sideways(browser, address, scheme):
    look(browser, PHONE, scheme=scheme)
    browser.get(address)
    browser.execute_script("document.querySelectorAll('.opener').forEach((one) => one.click())")
    browser.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    wide, inner = browser.execute_script("return [document.scrollingElement.scrollWidth, innerWidth]")
    assert wide <= inner == PHONE[0]
    cards = browser.execute_script(
        "return [...document.querySelectorAll('.claim, .command, figure, .sides')]"
        ".every((one) => one.getBoundingClientRect().right <= innerWidth)"
    )
    assert cards


def test_paper_has_everything_and_no_buttons(page):
    press(page, "[data-filter='failed']")
    press(page, "#fig6-panel-0 [data-toggle='dqn']")
    look(page, media="print")
    assert len(shown(page, ".claim")) == 4
    assert len(shown(page, ".more")) == 4
    assert len(shown(page, ".exhibit")) == 4
    assert len(shown(page, ".provenance li")) == len(page.find_elements(By.CSS_SELECTOR, ".provenance li")) > 0
    assert style(page, "#fig6-panel-0 [data-series='dqn'] path", "visibility") == "visible"
    assert style(page, ".experiment", "breakBefore") == "page"
    assert "The paper says" in element(page, "#claims-table thead").text
    for gone in (".filter", ".toggle", ".enlarge", ".copy", ".tabs", "#theme"):
        assert shown(page, gone) == []
    printed = page.execute_cdp_cmd("Page.printToPDF", {})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
    look(page)
    assert shown(page, ".more") == []
    assert len(shown(page, ".claim")) == 1


def test_without_a_program_everything_can_still_be_read(browser, address):
    look(browser)
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(address)
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert len(shown(browser, ".more")) == 4
    assert len(shown(browser, ".exhibit")) == 4
    assert shown(browser, ".toggle") == []


def test_keys_reach_everything(page):
    script = (
        "return [...document.querySelectorAll('button')].filter((one) => one.getClientRects().length"
        " && one.tabIndex < 0 && one.getAttribute('role') !== 'tab').length"
    )
    assert page.execute_script(script) == 0
    element(page, "body").send_keys(Keys.TAB)
    assert page.switch_to.active_element.get_attribute("class") == "skip"


@pytest.mark.slow
def test_the_whole_page_of_the_paper(browser, tmp_path):
    """Everything that is committed at laptop scale, as svrl paper report writes it."""
    at_laptop = (replace(found, budgets={"laptop": found.budgets["laptop"]}) for found in load_all())
    page = build_page(Library(tuple(at_laptop), (committed_table(),)), "laptop")
    path = tmp_path / "index.html"
    path.write_text(render_html(page), encoding="utf-8")
    look(browser)
    browser.get(path.as_uri())
    assert {figure.id for figure in FIGURES} <= set(shown(browser, "[id]"))
    with_pictures = [entry.id for section in page.sections for entry in section.figures if entry.exhibits]
    assert len(with_pictures) > 20
    for name in with_pictures:
        drawn = element(browser, f"#{name}-panel-0 svg")
        assert drawn.size["width"] > 200, name
        assert drawn.size["height"] > 80, name
    script = (
        "const wrong = []; for (const one of document.querySelectorAll('.toggle')) {"
        "  if (!one.getClientRects().length) continue;"
        "  const off = () => one.closest('.exhibit').querySelectorAll('.off').length;"
        "  const before = off(); one.click(); const hidden = off(); one.click();"
        "  if (hidden <= before || off() !== before) wrong.push(one.textContent); } return wrong"
    )
    assert browser.execute_script(script) == []
    look(browser, PHONE)
    assert browser.execute_script("return document.scrollingElement.scrollWidth <= innerWidth")
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
