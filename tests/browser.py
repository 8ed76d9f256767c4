"""A headless Chromium, spoken to over a pipe in the DevTools protocol: real pages, console messages, screenshots."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_PATIENCE = 60.0  # seconds for one answer of the browser


def chromium() -> str | None:
    """The browser's command, where there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One tab of a running browser; `messages` gathers what pages write to the console, errors included."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._rest, self._number, self._session = b"", 0, ""
        self.messages: list[str] = []

    def open_tab(self) -> Self:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")
        return self

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        answer = self._wait(lambda one: one.get("id") == self._number)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def visit(self, address: str) -> None:
        """Open a page and wait until it is loaded."""
        self.ask("Page.navigate", url="about:blank")
        self.ask("Page.navigate", url=address)
        deadline = time.monotonic() + _PATIENCE
        while self.value("document.readyState + location.href.startsWith('file')") != "completetrue":
            assert time.monotonic() < deadline, f"{address} does not load"
            time.sleep(0.02)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives in the page (the page's own policy does not bind this)."""
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def look(self, width: int, *, scheme: str = "light", height: int = 900) -> None:
        """Set the window's width in CSS pixels and the reader's colour scheme."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.ask("Emulation.setEmulatedMedia", features=[feature])

    def screenshot(self, path: Path, *, most: int = 4000) -> None:
        """The whole page, at most `most` pixels high."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], most), "scale": 1}
        shot = self.ask("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _wait(self, wanted: Any) -> dict[str, Any]:
        while True:
            while b"\0" not in self._rest:
                more = os.read(self._reading, 1 << 16)
                assert more, "the browser ended"
                self._rest += more
            line, _, self._rest = self._rest.partition(b"\0")
            message: dict[str, Any] = json.loads(line)
            self._note(message)
            if wanted(message):
                return message

    def _note(self, message: dict[str, Any]) -> None:
        body = message.get("params", {})
        match message.get("method"):
            case "Log.entryAdded":
                self.messages.append(body["entry"]["text"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                self.messages.append(json.dumps(body))
            case "Page.javascriptDialogOpening":
                self.messages.append(f"dialog: {body['message']}")


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with one tab, ended with the block."""
    command = chromium()
    assert command, "no chromium"
    to_browser, from_us = os.pipe()
    to_us, from_browser = os.pipe()
    # The browser reads commands from descriptor 3 and answers on 4; a shell puts the pipes there.
    plumbing = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        arguments = ["bash", "-c", plumbing, "-", command, *_FLAGS, f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            arguments,
            pass_fds=(to_browser, from_browser),
            env={**os.environ, "TMPDIR": profile},  # so that what it leaves behind goes with the profile
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        try:
            yield Browser(to_us, from_us).open_tab()
        finally:
            os.close(from_us)
            os.close(to_us)
            process.terminate()
            process.wait(timeout=30)
