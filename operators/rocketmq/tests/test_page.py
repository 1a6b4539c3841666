"""The web page of the operator in a browser; values from a cluster are escaped."""

from __future__ import annotations

import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest
from steersman import Key
from steersman.operator import Address

from rocketmq.metrics import BrokerSamples
from rocketmq.page import MAX_LAG_ROWS, page, serve_page
from tests.test_broker_plan import broker, group

BROWSER_SECONDS = 120


def shown(*, lag=None):
    of = broker(groups=[0, 1], size=2)
    load = {"put_tps": 1250.4, "disk_percent": 41.6, "version": "5.5.0"}
    groups = (group(of, 0, m0=load), group(of, 1, m0={"answers": False}))
    counts = {("readers", "orders"): 5, ("<b>bold</b>", "bills"): 12} if lag is None else lag
    return ((Key("shop", "mq"), BrokerSamples(groups=groups, lag=counts)),)


@pytest.fixture
def url():
    server = serve_page(Address("127.0.0.1", 0), shown)
    yield f"http://{server.address}/"
    server.close()


def test_names_of_consumer_groups_are_text():
    text = page(shown())
    assert "&lt;b&gt;bold&lt;/b&gt;" in text
    assert "<b>" not in text


def test_a_page_without_brokers_says_so():
    assert "There is no Broker." in page(())


def test_rows_beyond_the_limit_are_counted():
    text = page(shown(lag={("readers", f"topic-{number}"): number for number in range(MAX_LAG_ROWS + 3)}))
    assert "3 rows with a smaller lag are not shown" in text
    assert "topic-102<" in text
    assert "topic-2<" not in text


def test_the_page_allows_no_scripts(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")


@pytest.mark.slow
def test_a_browser_shows_groups_masters_and_lag(url, tmp_path: Path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("chromium is not installed")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={tmp_path}"]
    picture = tmp_path / "page.png"
    for act in (["--dump-dom"], [f"--screenshot={picture}", "--window-size=1000,520"]):
        command = [browser, *flags, *act, url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=BROWSER_SECONDS)
        assert done.returncode == 0, done.stderr
        if act == ["--dump-dom"]:
            rows = done.stdout.split("<tr>")
    assert "<td>member 0</td><td>3 of 3</td><td>5.5.0</td>" in rows[2]
    assert '<td class="bad">none</td><td class="bad">0 of 3</td>' in rows[3]
    assert "<td>bills</td><td>12</td>" in rows[5]
    assert "<td>readers</td><td>orders</td><td>5</td>" in rows[6]
    assert picture.read_bytes().startswith(b"\x89PNG")
