"""Two pictures of the demo's page for the documentation: report-page.png, its top, and report-moving.png, with sliders.

Run it with `python -m examples.report_page docs/pictures`. It needs chromium, chromedriver and selenium.
"""

import base64
import io
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from tests.report.browser import browser

FRAMES = 20
WIDTH = 760  # pixels of the moving picture
MOVE = """
for (const [slider, place] of [["#slider-0", arguments[0]], ["#slider-1", arguments[1]]]) {
  const input = document.querySelector(slider);
  input.value = place;
  input.dispatchEvent(new Event("input"));
}
"""
BELOW = "return Math.ceil(document.querySelector('#controls').getBoundingClientRect().bottom)"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, browser() as driver:
        page = Path(scratch) / "page.html"
        subprocess.run(["decouply", "demo", "--quiet", "--report", str(page)], check=True)
        driver.set_window_size(1000, 2400)
        driver.get(page.as_uri())
        driver.execute_script(MOVE, 930, 850)
        below = driver.execute_script(BELOW)
        top = {"x": 0, "y": 0, "width": 984, "height": below + 16, "scale": 1}

        def picture() -> Image.Image:
            shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "clip": top})["data"]
            return Image.open(io.BytesIO(base64.b64decode(shot))).convert("RGB")

        picture().save(folder / "report-page.png")
        frames = []
        for angle in np.linspace(0, 2 * np.pi, FRAMES, endpoint=False):
            driver.execute_script(MOVE, int(500 + 400 * np.sin(angle)), int(500 + 350 * np.sin(2 * angle)))
            frame = picture()
            frame = frame.resize((WIDTH, round(WIDTH * frame.height / frame.width)))
            colours = frames[0] if frames else frame.quantize(32)  # the same in all frames, so that most pixels rest
            frames.append(frame.quantize(palette=colours, dither=Image.Dither.NONE))
        frames[0].save(
            folder / "report-moving.png", save_all=True, append_images=frames[1:], duration=180, loop=0, optimize=True
        )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures"))
