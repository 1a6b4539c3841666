"""A page in Chromium, controlled by the DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from steersman.testing import eventually

CHROMIUM: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_START_SECONDS: Final = 60.0
_CALL_SECONDS: Final = 30.0


class Page:
    """One page. Times are those of the browser; each wait ends with an error after `within` seconds."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.requested: list[str] = []
        """The addresses of all requests so far."""
        self.problems: list[str] = []
        """Exceptions of scripts, and errors on the console."""

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, and keep what the browser reports meanwhile."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(_CALL_SECONDS):
            while True:
                message = await self._socket.receive_json()
                match message.get("method"):
                    case "Network.requestWillBeSent":
                        self.requested.append(message["params"]["request"]["url"])
                    case "Runtime.exceptionThrown":
                        self.problems.append(json.dumps(message["params"]["exceptionDetails"])[:500])
                if message.get("id") == number:
                    assert "error" not in message, f"{method}: {message['error']}"
                    return message["result"]

    async def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        result = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in result, f"{script}: {result['exceptionDetails']}"
        return result["result"].get("value")

    async def until(self, script: str, within: float = 30.0) -> Any:
        """Return the first value of an expression that is true."""

        async def look() -> Any:
            return await self.run(script)

        return await eventually(look, within=within, what=script)

    async def open(self, address: str) -> None:
        """Open an address, and wait until the page is complete."""
        await self.call("Page.navigate", url=address)
        await self.until(f"location.href.startsWith({json.dumps(address)}) && document.readyState == 'complete'")

    async def click(self, selector: str) -> None:
        """Click the first element of a CSS selector."""
        await self.until(f"!!document.querySelector({json.dumps(selector)})")
        await self.run(f"document.querySelector({json.dumps(selector)}).click()")

    async def picture(self, file: Path) -> None:
        """Write a screenshot."""
        shot = await self.call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(_write, file, base64.b64decode(shot["data"]))


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


@asynccontextmanager
async def browser(directory: Path, size: tuple[int, int] = (1280, 900)) -> AsyncIterator[Page]:
    """Start Chromium with an empty profile below `directory`, and yield its page."""
    assert CHROMIUM is not None
    options = ["--headless=new", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={directory}"]
    options += ["--no-first-run", f"--window-size={size[0]},{size[1]}", "--disable-dev-shm-usage"]
    if os.geteuid() == 0:
        options.append("--no-sandbox")  # the sandbox of Chromium refuses the user root
    nowhere = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        CHROMIUM, *options, "about:blank", stdout=nowhere, stderr=nowhere, start_new_session=True
    )
    try:
        port_file = directory / "DevToolsActivePort"

        async def port() -> str:
            assert process.returncode is None, f"Chromium ended with exit code {process.returncode}"
            return port_file.read_text().split()[0]

        number = await eventually(port, within=_START_SECONDS, what="the port of Chromium")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{number}/json/list") as response:
                targets: list[dict[str, Any]] = await response.json(content_type=None)
            address = next(target["webSocketDebuggerUrl"] for target in targets if target["type"] == "page")
            async with session.ws_connect(address, max_msg_size=0) as socket:
                page = Page(socket)
                for domain in ("Page", "Runtime", "Network"):
                    await page.call(f"{domain}.enable")
                yield page
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
