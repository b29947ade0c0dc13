"""A real browser for tests, and what checks pages in it. Nothing is fetched: `make browser` installs all of it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(sys.prefix) / "browser" / "node_modules"
AXE = TOOLS / "axe-core" / "axe.min.js"
NU = TOOLS / "vnu-jar" / "build" / "dist" / "vnu.jar"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def needed(*paths: str | Path) -> None:
    """Skip the test, and say why, where a program or a file is not there."""
    gone = [str(p) for p in paths if not (p.is_file() if isinstance(p, Path) else shutil.which(p))]
    if gone:
        pytest.skip(f"not installed: {', '.join(gone)}; make browser installs it")


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    """A headless Chromium with a fresh profile."""
    needed("chromium", "chromedriver")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def look(driver: Any, page: Path, width: int, scheme: str) -> None:
    """Open a page on a screen of that width, where a person likes it dark or light."""
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    driver.get(page.as_uri())


def violations(driver: Any) -> list[str]:
    """What axe finds wrong with the page for people who cannot see or point."""
    driver.execute_script(AXE.read_text())
    run = "const done = arguments[0]; axe.run().then(result => done(result.violations));"
    return [f"{v['id']}: {v['nodes'][0]['html'][:120]}" for v in driver.execute_async_script(run)]
