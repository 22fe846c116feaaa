"""A headless Chromium without a network, for the tests of the report and for its screenshots."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import Any, Self

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service


class Browser:
    """One browser window, for use in a `with` statement. Raises AssertionError if Chromium is not installed."""

    def __init__(self) -> None:
        chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
        missing = [name for name, path in (("chromium", chromium), ("chromedriver", driver)) if path is None]
        if missing:
            raise AssertionError(
                f"{' and '.join(missing)} not found in PATH: the report must be opened in a real browser; "
                "install the packages chromium and chromium-driver"
            )
        try:
            socket.gethostbyname("localhost")
        except OSError:
            pytest.skip("localhost has no address here, and the browser's driver needs one: /etc/hosts is missing")
        options = webdriver.ChromeOptions()
        options.binary_location = str(chromium)
        for argument in (
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--hide-scrollbars",
            "--force-renderer-accessibility",
            "--host-resolver-rules=MAP * ~NOTFOUND",
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(str(driver)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.quit()

    def command(self, name: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        """Runs a command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, parameters or {})

    def open(self, page: Path) -> None:
        self.driver.get(page.resolve().as_uri())

    def script(self, source: str) -> Any:
        """Runs a script in the page and returns its value; the page's own content policy does not block it."""
        return self.driver.execute_script(source)

    def size(self, width: int, height: int) -> None:
        """Sets the size of the page in CSS pixels; below a width of 600, the browser acts as a phone."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.command("Emulation.setDeviceMetricsOverride", metrics)

    def scheme(self, name: str) -> None:
        """Sets the preferred colour scheme, `light` or `dark`."""
        self.command("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})
