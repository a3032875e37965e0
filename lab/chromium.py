"""Debian's Chromium without a window, driven by the DevTools protocol through a pipe.

https://chromedevtools.github.io/devtools-protocol/ has the methods; with --remote-debugging-pipe
messages are JSON that ends in a NUL, read from descriptor 3 and written to descriptor 4.
"""

import base64
import json
import os
import select
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from lab.command import stop
from lab.failure import EX_LATE, LabFailure
from lab.prepare import prepare_browser

PROGRAM: Final = "/usr/bin/chromium"
SECONDS: Final = 60.0
"""For one answer: a browser on a busy machine takes seconds to start."""

KEYS: Final = {  # name → (code, what it types)
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    "Space": (32, " "),
    "End": (35, ""),
    "Home": (36, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
}


class Browser:
    """One browser with one tab, which closes with it."""

    def __enter__(self) -> Self:
        prepare_browser()
        self._folder = tempfile.TemporaryDirectory(prefix="rdmadiag-chromium-")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        options = (
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
            f"--user-data-dir={self._folder.name}",
            "--remote-debugging-pipe",
            "about:blank",
        )
        script = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._child = subprocess.Popen(
            ["bash", "-c", script, PROGRAM, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs_in, theirs_out),
            env=dict(os.environ, HOME=self._folder.name),
            process_group=0,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._number = 0
        self._left = b""
        self._session = ""
        self.events: list[Any] = []  # since the page was opened
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")
        self.call("Performance.enable", timeDomain="threadTicks")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        stop(self._child)
        os.close(self._in)
        os.close(self._out)
        self._folder.cleanup()

    def call(self, method: str, **params: object) -> Any:
        """The result; LabFailure where the browser refuses, ends, or says nothing for SECONDS."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            answer = self._message(deadline, method)
            if answer.get("id") == self._number:
                break
            self.events.append(answer)
        if "error" in answer:
            raise LabFailure(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _message(self, deadline: float, awaited: str) -> Any:
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise LabFailure(f"no answer within {SECONDS:g} s: {awaited}", EX_LATE)
            read = os.read(self._in, 1 << 20)
            if not read:
                raise LabFailure(f"the browser ended: {awaited}")
            self._left += read
        line, _, self._left = self._left.partition(b"\0")
        return json.loads(line)

    def shape(self, width: int, *, dark: bool, height: int = 900) -> None:
        """The window's width and height in CSS pixels, and which colours the user prefers."""
        self._width, self._height = width, height
        self._size(height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, page: Path | str) -> None:
        """A page from the disk, or at an address; returns after its load event."""
        self.events.clear()
        self.call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        deadline = time.monotonic() + SECONDS
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._message(deadline, "Page.loadEventFired"))

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page, of a promise what it comes to."""
        found = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise LabFailure(f"{found['exceptionDetails']}: {script}")
        return found["result"].get("value")

    def work(self) -> dict[str, float]:
        """CPU seconds of the page's main thread since it was opened, by kind of work."""
        found = {
            each["name"]: each["value"] for each in self.call("Performance.getMetrics")["metrics"]
        }
        return {name: found[name] for name in ("TaskDuration", "ScriptDuration", "LayoutDuration")}

    def press(self, *keys: str, shift: bool = False) -> None:
        """Keys by their name in KEYS, or a letter each."""
        for key in keys:
            code, text = KEYS.get(key, (ord(key[0].upper()), key))
            name = " " if key == "Space" else key
            event = {"key": name, "code": key, "windowsVirtualKeyCode": code}
            event |= {"modifiers": 8} if shift else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
            self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        """A PNG of what the window shows; or of the whole page, in a window of its height."""
        if whole:
            self._size(self.evaluate("document.documentElement.scrollHeight"))
            self.evaluate("new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))")
        taken = self.call("Page.captureScreenshot")
        file.write_bytes(base64.b64decode(taken["data"]))
        if whole:
            self._size(self._height)

    def _size(self, height: int) -> None:
        size = {"width": self._width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
