"""The live page of a sweep in a real browser: what it shows, and that it follows the store by itself."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from matplotlib import image as images
from tests.sweeps.stores_by_hand import begin, end, finish, games, sweep_of, training, write_rows

from svrl.sweeps.live_page import serve, server

DESKTOP, PHONE = (1280, 900), (360, 740)
LIGHT_PAPER, DARK_PAPER = "rgb(255, 255, 255)", "rgb(20, 22, 26)"
SCRIPT = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"
PATIENCE = 60
"""Seconds until a page that does not change has failed; a busy machine may need some."""

pytest.importorskip("selenium", reason="THE PAGES WERE NOT TRIED IN A BROWSER: run pip install selenium.")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402


@pytest.fixture
def specs() -> list[Any]:
    cart_pole = [training(arm=arm, seed=seed) for arm in ("dqn", "sv-dqn") for seed in range(3)]
    return [*cart_pole, training("Acrobot-v1", note=SCRIPT)]


@pytest.fixture
def store(tmp_path, specs) -> Iterator[Any]:
    """Two arms: three runs done, two running, one failed; and a run on another environment that waits."""
    made = sweep_of(tmp_path, specs)
    for at, spec in enumerate(specs[:3]):
        finish(made, spec, 20.0 + at)
        write_rows(made, spec.id, "episodes.jsonl", games([10.0 + at + game / 3 for game in range(90)], after=10))
    with ExitStack() as held:
        for at, spec in enumerate(specs[3:5]):
            begin(made, spec, [20.0 + 2 * at + game for game in range(60)])
            held.enter_context(made.working_on(spec.id))
        begin(made, specs[5], [4.0])
        end(made, specs[5].id, "failed", reason="The loss is NaN at update 7.", last_lines=["line one", SCRIPT])
        yield made


@pytest.fixture
def served(store, monkeypatch) -> Iterator[Any]:
    monkeypatch.setattr(server, "REST", 0.0)
    with serve(store, "trial") as page:
        yield page


@pytest.fixture
def page(browser, served) -> Iterator[Any]:
    """The page on a screen in the light, when it has its first curves."""
    yield opened(browser, served)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def opened(browser: Any, served: Any, size: tuple[int, int] = DESKTOP, scheme: str = "light") -> Any:
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen", "features": features})
    browser.get(served.address)
    until(browser, "return document.querySelector('#chart svg') && document.querySelectorAll('#runs li').length > 0")
    return browser


def until(page: Any, script: str, *arguments: Any) -> Any:
    return WebDriverWait(page, PATIENCE, 0.1).until(lambda driver: driver.execute_script(script, *arguments))


def element(page: Any, selector: str) -> Any:
    return page.find_element(By.CSS_SELECTOR, selector)


def press(page: Any, selector: str) -> None:
    """Click in the middle of what is there, which fails if something lies above it."""
    target = element(page, selector)
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", target)
    target.click()


def states(page: Any) -> list[str]:
    """Of the runs that are shown, from above."""
    return page.execute_script("return [...document.querySelectorAll('#runs li')].map((run) => run.dataset.state)")


def painted(page: Any) -> Any:
    """What is to be seen of the chart, as an array (height, width, 3) from 0 to 1."""
    script = (
        "const box = document.querySelector('#chart svg').getBoundingClientRect();"
        "return {x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height, scale: 1}"
    )
    clip = page.execute_script(script)
    shot = page.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    return images.imread(io.BytesIO(base64.b64decode(shot["data"])), format="png")[..., :3]


def orange(picture: Any) -> int:
    red, green, blue = (picture[..., k] for k in range(3))
    return int(((red > 0.75) & (green < 0.5) & (blue < 0.2)).sum())


def run_of(page: Any, spec: Any) -> Any:
    return element(page, f"#runs li[data-key='{spec.id}']")


def test_states_progress_and_scores_are_shown(page, specs):
    chips = page.execute_script("return [...document.querySelectorAll('#chips button')].map((one) => one.textContent)")
    assert [chip.split()[1:] for chip in chips] == [
        ["3", "done"],
        ["2", "running"],
        ["1", "failed"],
        ["0", "stopped"],
        ["1", "waiting"],
    ]
    assert states(page) == ["running", "running", "failed", "waiting", "done", "done", "done"]
    assert "600 of 1k" in run_of(page, specs[3]).text
    assert run_of(page, specs[2]).text.split()[-1] == "22"
    scores = [row.text.split() for row in page.find_elements(By.CSS_SELECTOR, "#scores tr")]
    assert scores[0][:5] == ["CartPole-v1", "dqn", "3/3", "21", "21"]
    assert scores[1][:4] == ["CartPole-v1", "sv-dqn", "0/3", "~50.5"]
    assert "scores of 2 environments are on 2 scales" in element(page, "#scores-note").text
    assert element(page, "#live").text == "live"


def test_a_failed_run_opens_to_its_last_lines(page, specs):
    lines = run_of(page, specs[5]).find_element(By.TAG_NAME, "pre")
    assert not lines.is_displayed()
    press(page, f"#runs li[data-key='{specs[5].id}'] summary")
    assert lines.is_displayed()
    assert lines.text == f"line one\n{SCRIPT}"


def test_a_run_that_ends_changes_the_page_without_loading_it_anew(page, store, specs):
    page.execute_script("window.loaded = 'once'")
    press(page, f"#runs li[data-key='{specs[5].id}'] summary")
    kept = run_of(page, specs[3])
    finish(store, specs[3], 77.0)
    until(page, "return document.querySelectorAll('#runs li[data-state=done]').length === 4")
    assert kept.get_attribute("data-state") == "done"  # the same element, so that nothing flickers
    assert kept.text.split()[-1] == "77"
    assert element(page, "#facts div dd span").text == "4 of 7"
    assert page.execute_script("return window.loaded") == "once"
    assert run_of(page, specs[5]).find_element(By.TAG_NAME, "pre").is_displayed()  # what was open stays open


def test_new_rows_lengthen_the_curves(page, store, specs):
    last = (
        "const paths = document.querySelectorAll('[data-variant=\"sv-dqn\"] .one'); return paths[0].getAttribute('d')"
    )
    before = page.execute_script(last)
    write_rows(store, specs[3].id, "episodes.jsonl", games([400.0] * 50, after=600))
    assert until(page, f"const path = (() => {{ {last} }})(); return path !== arguments[0] && path", before) != before


def test_curves_are_painted_with_axes(page):
    picture = painted(page)
    assert picture.max() == 1.0
    assert orange(picture) > 200
    assert ((picture[..., 2] > 0.6) & (picture[..., 0] < 0.2)).sum() > 200  # blue
    texts = page.execute_script("return [...document.querySelectorAll('#chart text')].map((one) => one.textContent)")
    assert {"agent steps", "score, mean of the last 100 games", "0"} <= set(texts)
    count = "return ['.one', '.mean', '.band'].map((name) => document.querySelectorAll('#chart ' + name).length)"
    assert page.execute_script(count) == [6, 2, 2]


def test_toggling_an_arm_hides_it_until_it_is_toggled_back(page, store, specs):
    both = orange(painted(page))
    press(page, "[data-toggle='sv-dqn']")
    assert element(page, "[data-toggle='sv-dqn']").get_attribute("aria-pressed") == "false"
    assert orange(painted(page)) == 0
    write_rows(store, specs[3].id, "episodes.jsonl", games([50.0], after=600))
    until(page, "return document.querySelector('#runs .steps small').textContent.startsWith('610')")
    assert orange(painted(page)) == 0  # a refresh brings nothing back
    press(page, "[data-toggle='sv-dqn']")
    assert orange(painted(page)) > 0.5 * both


def test_the_pointer_reads_values_off(page):
    assert page.find_elements(By.CSS_SELECTOR, ".tip") == []
    chart = element(page, "#chart")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    ActionChains(page).move_to_element_with_offset(chart, -200, 0).perform()
    tip = element(page, ".tip").text
    assert "agent steps" in tip
    assert "dqn: " in tip
    assert "sv-dqn: " in tip
    ActionChains(page).move_to_element(element(page, "h1")).perform()
    assert page.find_elements(By.CSS_SELECTOR, ".tip") == []


def test_states_filter_the_runs(page):
    press(page, "#chips .failed")
    assert states(page) == ["failed"]
    assert element(page, "#chips .failed").get_attribute("aria-pressed") == "true"
    press(page, "#chips .failed")
    assert len(states(page)) == 7


def test_another_environment_is_chosen_by_name_or_by_its_score(page, store, specs):
    Select(element(page, "#subject")).select_by_visible_text("Acrobot-v1")
    until(page, "return document.querySelector('#curves-note').textContent === 'No game has ended yet.'")
    assert page.find_elements(By.CSS_SELECTOR, "#chart svg") == []
    press(page, "#scores tr:first-child button")
    until(page, "return document.querySelectorAll('#chart .one').length === 6")
    assert element(page, "#subject").get_attribute("value") == "CartPole-v1"


def test_script_in_a_label_is_text(page, store, specs):
    assert SCRIPT in run_of(page, specs[6]).text
    finish(store, specs[6], -80.0)  # now it is in the scores and in the legend too
    until(page, "return document.querySelectorAll('#scores tr').length === 3")
    assert SCRIPT in element(page, "#scores").text
    Select(element(page, "#subject")).select_by_visible_text("Acrobot-v1")
    until(page, "return document.querySelector('#legend').textContent.includes('onerror')")
    assert page.title == "trial"
    assert page.find_elements(By.CSS_SELECTOR, "img, body script + script, li script") == []


def test_dark_is_dark(browser, served):
    script = "return [document.documentElement, document.body].map((one) => getComputedStyle(one)[arguments[0]])"
    page = opened(browser, served)
    assert page.execute_script(script, "backgroundColor")[0] == LIGHT_PAPER
    page = opened(browser, served, scheme="dark")
    assert page.execute_script(script, "backgroundColor")[0] == DARK_PAPER
    assert page.execute_script(script, "color")[1] == "rgb(228, 229, 231)"
    picture = painted(page)
    assert (picture.max(-1) < 0.15).mean() > 0.5  # dark ground
    assert picture.max() > 0.8  # bright lines


@pytest.mark.parametrize("size", [PHONE, (320, 600)])
def test_a_phone_needs_no_sideways_scrolling(browser, served, specs, size):
    page = opened(browser, served, size)
    press(page, f"#runs li[data-key='{specs[5].id}'] summary")
    assert page.execute_script("return document.documentElement.scrollWidth") <= size[0]
    assert (
        page.execute_script("return document.querySelector('#chart svg').getBoundingClientRect().width") > 0.8 * size[0]
    )
    too_wide = (
        "return [...document.querySelectorAll('body *:not(table):not(table *):not(svg *)')]"
        ".filter((one) => one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.className)"
    )
    assert page.execute_script(too_wide) == []


def test_long_lists_are_folded(browser, tmp_path):
    many = sweep_of(tmp_path / "many", [training(seed=seed) for seed in range(100)])
    begin(many, training(seed=99), [1.0, 2.0])
    with serve(many, "trial") as served:
        page = opened(browser, served)
        assert len(states(page)) == 60
        assert states(page)[0] == "stopped"
        assert element(page, "#more-runs").text == "and 40 more"
        press(page, "#more-runs")
        assert len(states(page)) == 100


def test_a_server_that_is_gone_is_said(browser, store):
    with serve(store, "trial") as served:
        page = opened(browser, served)
    until(page, "return document.querySelector('#live').textContent.startsWith('not connected since')")
    assert len(states(page)) == 7  # what was known stays
    browser.get_log("browser")
