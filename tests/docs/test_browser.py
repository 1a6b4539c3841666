"""The built site in a real browser: navigation, search, dark mode, copies of code, diagrams; it loads nothing else."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest

from tests.docs.browser import CHROMIUM, Page, browser

ROOT: Final = Path(__file__).parents[2]
MKDOCS: Final = ROOT / ".venv/docs/bin/mkdocs"
MERMAID: Final = ROOT / ".venv/docs/scripts/mermaid.min.js"
PICTURES: Final = ROOT / "build/screenshots"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium"),
    pytest.mark.skipif(not MKDOCS.exists(), reason="needs the packages of the site: make docs"),
]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, freshly built."""
    directory = tmp_path_factory.mktemp("site")
    subprocess.run(
        [MKDOCS, "build", "--quiet", "--strict", "--site-dir", directory],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        check=True,
        timeout=300,
    )
    return directory


@pytest.fixture(scope="module")
def site(directory: Path) -> Iterator[str]:
    """The address of the site on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(directory)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_search_dark_mode_copies_and_navigation_work(site: str, tmp_path: Path) -> None:
    async with browser(tmp_path) as page:
        await page.open(f"{site}/index.html")
        await page.picture(PICTURES / "start.png")
        await search(page)
        await page.open(f"{site}/index.html")
        await dark_mode(page)
        await copy_of_code(page, site)
        await navigation(page)
        outside = [address for address in page.requested if not address.startswith((site, "data:", "blob:"))]
        assert outside == [], "the site loads nothing from elsewhere"
        assert page.problems == []


@pytest.mark.skipif(not MERMAID.exists(), reason="needs npm when the packages of the site are installed: make docs")
async def test_a_site_on_a_disk_can_be_searched(directory: Path, tmp_path: Path) -> None:
    async with browser(tmp_path) as page:
        await page.open(f"file://{directory}/index.html")
        await search(page)
        assert [address for address in page.requested if address.startswith("http")] == []


async def search(page: Page) -> None:
    await page.click("label[for=__search]")
    await page.run(
        "(() => { const q = document.querySelector('.md-search__input'); q.focus(); q.value = 'finalizer';"
        " q.dispatchEvent(new Event('input', {bubbles: true}));"
        " q.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true})); })()"
    )
    first = await page.until("document.querySelector('.md-search-result__link')?.href")
    await page.picture(PICTURES / "search.png")
    await page.open(first)
    assert "inalizer" in await page.run("document.body.innerText")


async def dark_mode(page: Page) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light = await page.run(background)
    await page.click("label[for=__palette_1]:not([hidden])")
    await page.until("document.body.dataset.mdColorScheme == 'slate'")
    assert await page.run(background) != light
    await page.picture(PICTURES / "dark.png")
    await page.call("Page.reload")
    await page.until("document.readyState == 'complete' && document.body?.dataset.mdColorScheme == 'slate'")


async def copy_of_code(page: Page, site: str) -> None:
    await page.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    await page.open(f"{site}/tutorials/first-operator.html")
    code = await page.until("document.querySelector('.highlight pre code')?.innerText")
    commands = [line.removeprefix("$ ") for line in code.splitlines() if line.startswith("$ ")]
    button = ".highlight button[data-clipboard-target], .highlight .md-clipboard, .highlight .md-code__button"
    await page.call("Page.bringToFront")
    await page.click(button)
    copied = await page.until("navigator.clipboard.readText()")
    assert copied.split("\n") == commands
    assert "pip install" in copied


async def navigation(page: Page) -> None:
    tabs = await page.run("[...document.querySelectorAll('.md-tabs__link')].map(link => link.innerText.trim())")
    assert tabs == ["Home", "Tutorials", "How-to guides", "Reference", "Explanation", "Decisions"]
    for tab in tabs:
        script = f"[...document.querySelectorAll('.md-tabs__link')].find(l => l.innerText.trim() == '{tab}')"
        address = await page.run(f"{script}.href")
        await page.open(address)
        await page.until(f"document.querySelector('.md-tabs__item--active')?.innerText.trim() == '{tab}'")
    await page.picture(PICTURES / "decisions.png")


@pytest.mark.skipif(not MERMAID.exists(), reason="needs npm when the packages of the site are installed: make docs")
async def test_diagrams_are_drawn(site: str, tmp_path: Path) -> None:
    async with browser(tmp_path) as page:
        await page.open(f"{site}/architecture.html")
        drawn = "[...document.querySelectorAll('.mermaid')].filter(d => d.getBoundingClientRect().height > 50).length"
        await page.until(f"{drawn} == 1 && !document.querySelector('pre.mermaid')")
        await page.run("document.querySelector('.mermaid').scrollIntoView()")
        await page.picture(PICTURES / "diagram.png")
        assert [address for address in page.requested if not address.startswith((site, "data:", "blob:"))] == []


async def test_every_page_opens_without_an_error(site: str, tmp_path: Path) -> None:
    async with browser(tmp_path) as page:
        for file in sorted((ROOT / "docs").rglob("*.md")):
            name = str(file.relative_to(ROOT / "docs").with_suffix("")).replace("README", "index")
            await page.open(f"{site}/{name}.html")
            assert await page.run("document.querySelector('h1')?.innerText"), name
        assert page.problems == []
