"""A real headless Chromium, driven by selenium; tests are skipped where there is none."""

import shutil

import pytest

from pipeline.report.page.page import render_page
from report_content import report_content

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1300,900",
)


def found(*names):
    return next((path for name in names if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Start Chromium once; pages are loaded by the tests."""
    chromium = found("chromium", "chromium-browser", "google-chrome")
    driver = found("chromedriver")
    if not chromium or not driver:
        pytest.skip("Chromium or its driver is not installed (Debian: chromium, chromium-driver)")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    started.set_script_timeout(60)
    yield started
    started.quit()


@pytest.fixture(scope="session")
def report_file(tmp_path_factory):
    """Write the page once."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_page(report_content()), encoding="utf-8")
    return path
