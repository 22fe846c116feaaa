"""Photograph a report: python screenshot.py IN.html OUT.png [--width 1200] [--height N] [--dark]."""

from __future__ import annotations

import argparse
import base64
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from report_browser import Browser


def main() -> None:
    """Take the picture of the whole page, or of its first `--height` CSS pixels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("image", type=Path)
    parser.add_argument("--width", type=int, default=1200, help="width of the page in CSS pixels")
    parser.add_argument("--height", type=int, help="cut the picture at this height in CSS pixels; default: whole page")
    parser.add_argument("--dark", action="store_true", help="as with a dark colour scheme")
    options = parser.parse_args()
    with Browser() as browser:
        browser.size(options.width, 900)
        browser.scheme("dark" if options.dark else "light")
        browser.open(options.page)
        height = options.height or browser.script("return document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": options.width, "height": height, "scale": 1}
        shot = browser.command("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    options.image.write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    main()
