"""Debian's Chromium, driven over its DevTools protocol through a pipe: no port, and nothing to install."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")

CODES = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "Home": 36, "End": 35, " ": 32}
"""Keys without a text of their own, as Windows numbers them."""

PATIENCE = 60.0
"""Seconds of a busy machine after which something will not happen any more."""


class Browser:
    """One headless browser; `open` makes a tab."""

    def __init__(self, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        given = [
            str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--mute-audio", "--disable-background-networking", "--disable-component-update",
            "--hide-scrollbars", f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank",
        ]  # fmt: skip

        def pipes() -> None:  # Chromium reads from 3 and writes to 4
            os.dup2(os.dup2(to_read, 13), 3), os.dup2(os.dup2(to_write, 14), 4)

        self._process = subprocess.Popen(
            given, close_fds=False, preexec_fn=pipes, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read), os.close(to_write)
        self._number, self._rest = 0, b""
        self._answers: dict[int, Any] = {}
        self.said: list[dict[str, Any]] = []
        """Events of the protocol, in order."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(30)
        os.close(self._read), os.close(self._write)

    def ask(self, method: str, session: str = "", **parameters: Any) -> Any:
        """Send a command and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while self._number not in self._answers:
            self._receive(deadline)
        answer = self._answers.pop(self._number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _receive(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        assert left > 0, "the browser does not answer"
        if not select.select([self._read], [], [], left)[0]:
            return
        *messages, self._rest = (self._rest + os.read(self._read, 1 << 20)).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            else:
                self.said.append(message)

    def open(self, url: str, width: int = 1600, height: int = 1000, *, dark: bool = False) -> "Tab":
        """Open a page in a tab of its own."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, target, session)
        for domain in ("Page", "Runtime", "Log", "Accessibility"):
            tab.ask(f"{domain}.enable")
        tab.size(width, height)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        tab.ask("Emulation.setEmulatedMedia", features=scheme)
        tab.ask("Page.navigate", url=url)
        tab.until("location.href !== 'about:blank' && document.readyState === 'complete'")
        return tab


class Tab:
    """One page in the browser."""

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        self.browser, self.target, self.session = browser, target, session

    def ask(self, method: str, **parameters: Any) -> Any:
        """Send a command to this page."""
        return self.browser.ask(method, self.session, **parameters)

    def size(self, width: int, height: int) -> None:
        """Make the window so large."""
        wanted = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **wanted)

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page; promises are awaited."""
        result = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def settled(self, script: str) -> None:
        """Wait until an expression gives the same twice, a moment apart: until nothing is drawn anew."""
        before, now = None, self.run(script)
        while before != now:
            self.run("new Promise((ready) => setTimeout(ready, 300))")
            before, now = now, self.run(script)

    def until(self, script: str) -> None:
        """Wait until an expression is true, also of the next page where the tab is led to another."""
        deadline = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < deadline, f"never: {script}"
            try:
                if self.run(f"Boolean({script})"):
                    return
                self.run("new Promise((ready) => setTimeout(ready, 50))")
            except AssertionError as error:
                if "navigated" not in str(error):
                    raise

    def press(self, *keys: str) -> None:
        """Press keys, as a keyboard does."""
        for key in keys:
            text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
            codes = {
                "Enter": 13,
                "Tab": 9,
                "Escape": 27,
                "ArrowDown": 40,
                "ArrowUp": 38,
                "Home": 36,
                "End": 35,
                " ": 32,
            }
            code = codes.get(key, 0)
            down = {"type": "keyDown", "key": key, "windowsVirtualKeyCode": code} | (
                {"text": text} if text else {}
            )
            self.ask("Input.dispatchKeyEvent", **down)
            self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def click(self, script: str) -> None:
        """Click the element that an expression finds, as a mouse does: at its middle, once it stays there."""
        self.run(f"({script}).scrollIntoView({{block: 'nearest'}})")
        at, before = self._middle(script), None
        while at != before:
            at, before = self._middle(script), at
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)

    def _middle(self, script: str) -> Any:
        """Return where the middle of an element is, two frames from now."""
        return self.run(
            "new Promise((ready) => requestAnimationFrame(() => requestAnimationFrame(() => {"
            f"const r = ({script}).getBoundingClientRect(); "
            "ready([r.x + r.width / 2, r.y + r.height / 2]); })))"
        )

    def press_button(self, label: str) -> None:
        """Press the button of an accessible name."""
        found = (
            "[...document.querySelectorAll('button')].find((one) => !one.disabled && one.offsetParent && "
            f"(one.getAttribute('aria-label') || one.textContent) === {json.dumps(label)})"
        )
        self.until(f"Boolean({found})")
        self.click(found)

    def picture(self, path: Path) -> None:
        """Write what is in sight as a PNG."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def text(self, selector: str) -> str:
        """Return the text of an element."""
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def errors(self) -> list[str]:
        """Return what went wrong in the page so far: exceptions, and what its policy refused, not answers."""
        mine = [one for one in self.browser.said if one.get("sessionId") == self.session]
        thrown = [
            str(one["params"]["exceptionDetails"])
            for one in mine
            if one["method"] == "Runtime.exceptionThrown"
        ]
        logged = [one["params"]["entry"] for one in mine if one["method"] == "Log.entryAdded"]
        mine = [one for one in logged if one["level"] == "error" and one["source"] != "network"]
        return thrown + [str(one["text"]) for one in mine]

    def close(self) -> None:
        """Close the tab."""
        self.browser.ask("Target.closeTarget", targetId=self.target)
