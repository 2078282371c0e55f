"""The picture in docs/report.md: the block diagram of the demo's page, after two inputs were moved.

Run it with `python -m examples.report_page docs/report.png`. It needs chromium and chromedriver.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.report.browser import browser

MOVE = """
for (const [slider, place] of [["#slider-0", 930], ["#slider-1", 850]]) {
  const input = document.querySelector(slider);
  input.value = place;
  input.dispatchEvent(new Event("input"));
}
"""
with tempfile.TemporaryDirectory() as folder, browser() as driver:
    page = Path(folder) / "page.html"
    subprocess.run(["decouple", "demo", "--quiet", "--report", str(page)], check=True)
    driver.set_window_size(1000, 2400)  # all of the section must be in view
    driver.get(page.as_uri())
    driver.execute_script(MOVE)
    driver.find_element("css selector", "#found").screenshot(sys.argv[1] if len(sys.argv) > 1 else "report.png")
