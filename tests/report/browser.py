"""A browser without a window, driven over a pipe: enough to open a page and press keys.

The protocol (https://chromedevtools.github.io/devtools-protocol) is JSON, each message ended by a
null character, on file descriptors 3 and 4 of the browser: no other package is needed.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

from support import installing, may_install, skip_without_root

LIMIT = 40  # seconds for an answer


def find_chromium() -> str:
    """Return the path of the browser; install it first, if need be and possible."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    with installing():
        install_chromium()
    if found := shutil.which("chromium"):
        return found
    skip_without_root("it installs chromium, if that is missing")


def install_chromium() -> None:
    """Install the browser, unless another test has done so meanwhile, or it is not allowed."""
    if may_install() and shutil.which("chromium") is None:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], check=False, env=env, **quiet)
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"]
        subprocess.run(install, check=False, env=env, **quiet)


class Browser:
    """One tab. `problems` are the errors and warnings of its console, and its requests."""

    def __init__(self, profile: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()

        def connect() -> None:
            # both are moved out of the way first: one may be 3 or 4 itself
            spare_in, spare_out = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(spare_in, 3)
            os.dup2(spare_out, 4)

        self._process = subprocess.Popen(
            [
                find_chromium(),
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--remote-debugging-pipe",
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            preexec_fn=connect,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._number = 0
        self._left = b""
        self._session: str | None = None
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters):
        """Send a command and return its answer; keep what the page reports meanwhile."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _receive(self) -> dict:
        end = time.monotonic() + LIMIT
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._in], [], [], max(0, end - time.monotonic()))
            assert ready, f"chromium said nothing for {LIMIT} s"
            block = os.read(self._in, 1 << 20)
            assert block, "chromium has ended"
            self._left += block
        message, _, self._left = self._left.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict) -> None:
        method, told = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
            self.problems.append(json.dumps(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.problems.append(json.dumps(told["entry"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])

    def open(
        self, page: Path | str, width: int = 1280, height: int = 900, dark: bool = False
    ) -> None:
        """Open a file or an address, and wait until its figures are drawn."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.set_dark(dark)
        url = page if isinstance(page, str) else page.resolve().as_uri()
        self.send("Page.navigate", url=url)
        self.wait("document.body && document.body.dataset.drawn === 'yes'")

    def set_dark(self, dark: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def do(self, script: str):
        """Return the value of a JavaScript expression, after awaiting promises."""
        done = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait(self, condition: str) -> None:
        end = time.monotonic() + LIMIT
        while not self.do(f"Boolean({condition})"):
            assert time.monotonic() < end, f"waited for {condition}: {self.problems}"
            time.sleep(0.05)

    def press(self, key: str, code: int, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            told = {"key": key, "windowsVirtualKeyCode": code, "code": key}
            if text and kind == "keyDown":
                told["text"] = text
            self.send("Input.dispatchKeyEvent", type=kind, **told)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Move the mouse from one place to another, with its left button down."""
        middle = tuple((a + b) / 2 for a, b in zip(start, end, strict=True))
        steps = [("Pressed", start), ("Moved", middle), ("Moved", end), ("Released", end)]
        for kind, (x, y) in steps:
            told = {"x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=f"mouse{kind}", **told)

    def screenshot(self, path: Path) -> None:
        """Write a picture of the whole page, however high it is."""
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        image = self.send(
            "Page.captureScreenshot", captureBeyondViewport=True, clip=clip, format="png"
        )
        path.write_bytes(base64.b64decode(image["data"]))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(20)
        os.close(self._in)
        os.close(self._out)
