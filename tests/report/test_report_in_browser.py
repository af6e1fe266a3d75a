"""The report in headless Chromium, driven by selenium: mouse, keyboard, narrow screens and dark colours."""

import json
import shutil

import pytest

pytest.importorskip("selenium", reason="selenium is not installed (pip install '.[dev]')")

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from pipeline.report.page.page import render_page
from report_content import METHODS, report_content

pytestmark = pytest.mark.slow

FLAGS = (
    *("headless", "no-sandbox", "disable-gpu", "disable-quic", "disable-dev-shm-usage", "no-first-run"),
    *("disable-background-networking", "disable-component-update", "disable-sync", "window-size=1300,900"),
)
UNDRAWN = """
return [...document.querySelectorAll('details.problem[open] .chart, #headline .chart')]
  .filter(element => element.dataset.drawn !== 'yes').map(element => element.dataset.chart)"""
DRAWN = """
return [...document.querySelectorAll('.chart')].map(element => {
  const svg = element.querySelector('svg'), box = svg ? svg.getBoundingClientRect() : {width: 0, height: 0};
  const marks = svg ? svg.querySelectorAll('.role-mark path, .role-mark text, .role-mark line').length : 0;
  return {chart: element.closest('figure').id, width: box.width, height: box.height, marks,
          inside: box.width <= element.clientWidth + 1};
})"""


def wait_for(browser, condition, description):
    """Wait until ``condition()`` holds."""
    WebDriverWait(browser, 60, 0.05).until(lambda _: condition(), f"still waiting for: {description}")


def all_drawn(browser):
    wait_for(browser, lambda: browser.execute_script(UNDRAWN) == [], "charts to be drawn")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Start Chromium once for all tests."""
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium, driver = next(filter(None, map(shutil.which, names)), None), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("Chromium or its driver is not installed (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    started.set_script_timeout(60)
    yield started
    started.quit()


@pytest.fixture(scope="session")
def report_file(tmp_path_factory):
    """Write the page once."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_page(report_content()), encoding="utf-8")
    return path


def load(browser, page):
    """Load a page with the width of a desktop and light colours, and clear the logs."""
    size(browser, 1300)
    colours(browser, "light")
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(page.as_uri())


@pytest.fixture
def report(browser, report_file):
    """Reload the page, and check that the console stays empty during the test."""
    load(browser, report_file)
    browser.execute_script("localStorage.clear()")
    browser.refresh()
    all_drawn(browser)
    yield browser
    assert browser.get_log("browser") == []


def size(browser, width):
    measures = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", measures)


def colours(browser, scheme):
    features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
    emulated = [{"name": name, "value": value} for name, value in features.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": emulated})


def open_all(report):
    press(report, "open-all")
    all_drawn(report)


def press(report, name):
    button = report.find_element(By.ID, name)
    report.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()


def find(report, css):
    return report.find_element(By.CSS_SELECTOR, css)


def find_all(report, css):
    return report.find_elements(By.CSS_SELECTOR, css)


def head(report, title):
    """Return the sort button of a column of the first table."""
    (button,) = [button for button in find_all(report, "#table-headline thead button") if button.text == title]
    return button


def sorted_by(report):
    heads = {th.text: th.get_attribute("aria-sort") for th in find_all(report, "#table-headline thead th")}
    return {name: order for name, order in heads.items() if order != "none"}


def rows(report, table="table-headline"):
    """Return the titles of the visible rows of a table."""
    return report.execute_script(
        "return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].filter(row => !row.hidden)"
        ".map(row => row.cells[0].textContent)",
        table,
    )


def requested(browser):
    """Return the requested addresses, except data in the page itself."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [url for url in urls if not url.startswith("data:")]


def test_charts_and_pictures_need_no_network_and_are_described_to_screen_readers(browser, report_file):
    load(browser, report_file)
    open_all(browser)
    drawn = browser.execute_script(DRAWN)
    # the overview, and 10 charts per problem; the first has two sweeps and the chosen values as well
    assert len(drawn) == 1 + 13 + 10 + 10
    assert [c for c in drawn if c["width"] <= 150 or c["height"] <= 90 or not c["marks"] or not c["inside"]] == []
    assert requested(browser) == [report_file.as_uri()]
    assert browser.get_log("browser") == []
    assert browser.execute_script("return window.hacked === undefined")  # see the class names
    sizes = browser.execute_script("""
        return [...document.querySelectorAll('img')].map(image => [image.alt, image.naturalWidth])""")
    assert len(sizes) == 2 * 5
    assert all(alt and width == 24 for alt, width in sizes)
    absent = find(browser, "#p-right-left .grid")
    assert "No pictures: the images of left are not here." in absent.text
    lacking = browser.execute_script("""
        const none = [];
        const check = (selector, fits) => document.querySelectorAll(selector).forEach(e => {
          if (!fits(e)) none.push(selector + ' ' + (e.id || e.className || e.textContent.slice(0, 40)));
        });
        check('.chart', e => e.getAttribute('role') === 'img' && e.getAttribute('aria-label').length > 20);
        check('.chart svg', e => e.closest('[aria-hidden=true]'));
        check('#main table', e => e.caption && e.caption.textContent.trim());
        check('#main th', e => e.scope === 'col' || e.scope === 'row');
        check('img', e => e.alt);
        check('input, select', e => e.closest('label'));
        check('button', e => e.textContent.trim() || e.getAttribute('aria-label'));
        check('[aria-controls]', e => document.getElementById(e.getAttribute('aria-controls')));
        check('a[href^="#"]', e => document.getElementById(e.hash.slice(1)));
        check('[id]', e => document.querySelectorAll('#' + CSS.escape(e.id)).length === 1);
        check('.scroll', e => e.tabIndex === 0 && e.getAttribute('aria-label'));
        return none;""")
    assert lacking == []
    levels = browser.execute_script("return [...document.querySelectorAll('h1, h2, h3')].map(h => h.tagName)")
    assert levels[0] == "H1"
    assert levels.count("H1") == 1
    assert browser.execute_script("return document.documentElement.lang") == "en"


@pytest.mark.long
def test_the_page_of_a_real_run(browser, finished):
    """The page of stage `report` at the end of `dvc repro`, with images and sweeps."""
    page = finished / "results/toy/report.html"
    load(browser, page)
    open_all(browser)
    drawn = browser.execute_script(DRAWN)
    assert len(drawn) > 10
    assert [chart for chart in drawn if not chart["marks"] or not chart["inside"]] == []
    pictures = browser.execute_script("return [...document.images].map(i => i.complete && i.naturalWidth > 0)")
    assert len(pictures) > 3
    assert all(pictures)
    assert browser.get_log("browser") == []
    assert requested(browser) == [page.as_uri()]


@pytest.mark.long
def test_opening_a_problem_saving_a_chart_tooltips_and_the_security_policy(report):
    assert report.execute_script("return document.querySelectorAll('details.problem[open]').length") == 1
    assert not find_all(report, "#p-left-many svg")
    cell = find(report, "#p-left-right-matrix .mark-rect path")
    report.execute_script("arguments[0].scrollIntoView({block: 'center'})", cell)
    webdriver.ActionChains(report).move_to_element(cell).perform()
    wait_for(report, lambda: find_all(report, "#vg-tooltip-element.visible"), "a tooltip")
    tooltip = report.find_element(By.ID, "vg-tooltip-element").text
    assert "accuracy, %" in tooltip
    assert "99.00" in tooltip
    report.execute_script("""
        window.saved = [];
        HTMLAnchorElement.prototype.click = function () { window.saved.push(this.download); };""")
    find(report, "#p-left-right-tasks .save").click()
    wait_for(report, lambda: report.execute_script("return window.saved.length"), "the picture")
    assert report.execute_script("return window.saved") == ["p-left-right-tasks.svg"]
    find(report, "#table-headline a[href='#p-left-many']").send_keys(Keys.ENTER)
    wait_for(report, lambda: find_all(report, "#p-left-many svg"), "the problem to open")
    all_drawn(report)
    press(report, "close-all")
    assert not find_all(report, "details.problem[open]")
    stopped = report.execute_async_script("""
        const done = arguments[0];
        document.addEventListener('securitypolicyviolation', event => done(event.violatedDirective));
        fetch('http://127.0.0.1:9/').catch(() => 0);""")
    assert stopped == "connect-src"  # the page's own Content-Security-Policy
    report.get_log("browser")  # discard the logged violation


def test_sorting_by_mouse(report):
    before = rows(report)
    assert before == ["left-right", "left-many", "right-left", "mean"]
    head(report, "calibrated").click()
    assert sorted_by(report) == {"calibrated": "descending"}
    assert rows(report) == before
    head(report, "calibrated").click()
    assert sorted_by(report) == {"calibrated": "ascending"}
    assert rows(report) == ["right-left", "left-many", "left-right", "mean"]  # the mean stays below


@pytest.mark.long
def test_sorting_by_keyboard_and_filtering_are_announced(report):
    button, status = head(report, "problem"), find(report, "#table-headline output")
    report.execute_script("arguments[0].focus()", button)
    assert report.execute_script("return getComputedStyle(arguments[0]).outlineStyle", button) != "none"
    button.send_keys(Keys.SPACE)
    assert rows(report) == ["left-many", "left-right", "right-left", "mean"]
    assert status.text == "sorted by problem, ascending"
    field = find(report, "#table-headline [data-filter]")
    field.send_keys("LEFT many")
    assert rows(report) == ["left-many"]
    assert status.text == "1 of 4 rows"
    field.send_keys(Keys.ENTER)  # sends no form
    field.send_keys(Keys.CONTROL, "a", Keys.NULL, Keys.DELETE)
    assert len(rows(report)) == 4
    chosen = Select(find(report, "#table-comparison select"))
    chosen.select_by_visible_text("heads")
    assert rows(report, "table-comparison") == ["EWC†"]
    chosen.select_by_visible_text("all")
    assert len(rows(report, "table-comparison")) == len(METHODS)


def paper(report):
    return report.execute_script("return getComputedStyle(document.body).backgroundColor")


def axis_colour(report):
    return report.execute_script("""
        return document.querySelector('#p-left-right-tasks .role-axis-label text').getAttribute('fill')""")


@pytest.mark.long
def test_colours_follow_the_system_and_the_button(report):
    light, ink = paper(report), axis_colour(report)
    colours(report, "dark")
    wait_for(report, lambda: axis_colour(report) != ink, "charts to follow the system")
    dark = paper(report)
    assert sum(map(int, dark[4:-1].split(","))) < 150 < 600 < sum(map(int, light[4:-1].split(",")))
    toggle = report.find_element(By.ID, "theme")
    assert toggle.get_attribute("aria-label") == "Light colours"
    toggle.click()
    wait_for(report, lambda: axis_colour(report) == ink, "charts to follow the button")
    assert paper(report) == light
    report.refresh()  # the choice is kept and overrides the system
    all_drawn(report)
    assert paper(report) == light


@pytest.mark.long
@pytest.mark.parametrize("width", [360, 768])
def test_a_narrow_page_never_scrolls_sideways(report, width):
    size(report, width)
    report.refresh()
    open_all(report)
    for details in find_all(report, "details"):
        report.execute_script("arguments[0].open = true", details)
    assert report.execute_script("return document.documentElement.scrollWidth") <= width
    wide = [chart["chart"] for chart in report.execute_script(DRAWN) if not chart["inside"]]
    assert wide == []
    small = report.execute_script("""
        const silent = 'svg, script, style';
        const texts = [...document.querySelectorAll('body *')].filter(e => !e.closest(silent) && e.innerText);
        return texts.filter(e => parseFloat(getComputedStyle(e).fontSize) < 11).map(e => e.className)""")
    assert small == []
