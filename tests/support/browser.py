"""A headless Chromium that is driven over pipes, by its DevTools protocol."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_SECONDS = 60
_KEYS = {"ArrowDown": 40, "ArrowUp": 38, "Enter": 13, "Escape": 27, "Home": 36, "End": 35, "Tab": 9}


def chromium() -> str | None:
    """The program; None without one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


# A program that moves the pipes to the numbers 3 and 4 of the protocol, and becomes the browser.
_MOVE = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One page of a browser.

    Commands go to file descriptor 3 of the browser, answers come from 4. Each ends with a zero
    byte.
    """

    def __init__(self, program: str, profile: Path) -> None:
        """Start it; ``profile``: a folder of its own."""
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [
            sys.executable, "-c", _MOVE, str(to_read), str(to_write), program, "--headless=new",
            "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, pass_fds=(to_read, to_write), stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer, self._number, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(_SECONDS)
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)

    def open(self, address: str) -> None:
        """Load a page and wait until it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)  # fmt: skip
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, *keys: str) -> None:
        """Type keys, as a keyboard does."""
        for key in keys:
            named: dict[str, Any] = {"key": key}
            if key in _KEYS:
                named |= {"code": key, "windowsVirtualKeyCode": _KEYS[key]}
            else:
                named["text"] = key
            self.call("Input.dispatchKeyEvent", type="keyDown", **named)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._read, 1 << 16)
            assert part, "the browser has ended"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))
