"""A page in a real browser, for tests of what people see."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Literal

from orun.measure.web.chromium import Chromium
from tests.web import require_program


class Tab(Chromium):
    """A page in a browser with a screen."""

    def show(
        self, page: Path | str, width: int = 1280, scheme: Literal["light", "dark"] = "light", media: str = ""
    ) -> None:
        """Load a file, or what is at an address, in a page of that width."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)
        self.load(page.as_uri() if isinstance(page, Path) else page)

    def picture(self, path: Path) -> None:
        """Write what the whole page looks like as PNG."""
        answer = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))


def browser(folder: Path) -> Tab:
    """A page in a new browser, which keeps its files in that folder; the test is skipped where there is none."""
    return Tab(require_program("chromium"), folder)
