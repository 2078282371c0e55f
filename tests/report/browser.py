"""A headless Chromium for tests."""

import shutil
import tempfile
from contextlib import contextmanager

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


def programs():
    """Where chromium and chromedriver are; None for what is missing."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None), shutil.which("chromedriver")


def what_is_missing():
    """Why tests are skipped, and what to do; nothing where a browser is there."""
    missing = [name for name, path in zip(("chromium", "chromedriver"), programs(), strict=True) if path is None]
    if not missing:
        return ""
    return (
        f"needs {' and '.join(missing)} for the report page: `.ci/run` installs Debian's chromium and chromium-driver"
    )


@contextmanager
def browser():
    """A driver with a profile of its own, which is removed afterwards."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    chromium, chromedriver = programs()
    options = Options()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(chromedriver))
        try:
            yield driver
        finally:
            driver.quit()
