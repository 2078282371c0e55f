"""The picture in docs/report.md: the top of the demo's page, after two inputs were moved.

Run it with `python -m examples.report_page docs/report.png`. It needs chromium and chromedriver.
"""

import base64
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
    subprocess.run(["decouply", "demo", "--quiet", "--report", str(page)], check=True)
    driver.set_window_size(1000, 2400)
    driver.get(page.as_uri())
    driver.execute_script(MOVE)
    below = driver.execute_script(
        "return Math.ceil(document.querySelector('#controls').getBoundingClientRect().bottom)"
    )
    top = {"x": 0, "y": 0, "width": 984, "height": below + 16, "scale": 1}
    picture = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "clip": top})["data"]
    Path(sys.argv[1] if len(sys.argv) > 1 else "report.png").write_bytes(base64.b64decode(picture))
