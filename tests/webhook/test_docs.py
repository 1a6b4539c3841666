"""The examples of docs/webhooks.md work as described there."""

import re
import sys
import types
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "webhooks.md"


@pytest.fixture
def page(monkeypatch):
    """The page's examples, one after the other, in a module that can be imported."""
    module = types.ModuleType("cellar")
    monkeypatch.setitem(sys.modules, "cellar", module)
    for block in re.findall(r'```python(?: title="file: cellar.py")?\n(.*?)```', PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), module.__dict__)
    return module


def test_the_examples_of_the_page_work(page, cluster, operator):
    page.test_a_cask_keeps_its_wood(cluster, operator)


def test_the_page_names_the_limits_that_hold():
    from steersman.operator.webhooks import _THREADS
    from steersman.webhook.admission import MAX_CONCURRENT_REQUESTS
    from steersman.webhook.http import Limits
    from steersman.webhook.review_timeout import MIN_RESERVED_SECONDS, response_timeout

    text = " ".join(PAGE.read_text().split())
    assert f"a pool of {_THREADS} threads" in text
    assert f"more than {MAX_CONCURRENT_REQUESTS} requests at the same time" in text
    assert f"larger than {Limits().body >> 20} MiB" in text
    assert response_timeout("timeout=10s", 0) == 9
    assert f"less a tenth (at least {MIN_RESERVED_SECONDS:g} s)" in text
