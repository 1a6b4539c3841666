"""The page of a failure: its content, and its view in a browser."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from steersman.testing.explore import ExploredError, Failure, Plan, ScenarioRun, explored, replay
from steersman.testing.explore import page as page_module
from steersman.testing.explore.page import MAX_ITEMS, page, page_data
from steersman.testing.explore.trace import Mark
from tests.docs.browser import CHROMIUM, browser

from .planted import CLASSES, app

EVIL = "</script><img src=x onerror='document.title=1'><!--"
PASSWORD = base64.b64encode(b"a password").decode()


@explored(jobs=1)
async def records_late(run: ScenarioRun) -> None:
    await run.operator(lambda: CLASSES["generate_name"](False))
    await run.apply(
        app(),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "evil"}, "data": {"text": EVIL}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"password": PASSWORD}},
    )
    await run.settled()


@pytest.fixture(scope="module")
def failure() -> Failure:
    plan = Plan.read("crash-after:W1")
    reference, outcome, findings = replay(records_late.request(), plan)
    return Failure(plan, 1, findings, outcome, reference)


def test_a_page_has_both_runs_with_masked_states(failure: Failure) -> None:
    data = page_data(failure, "again")
    assert [run["name"] for run in data["runs"]] == ["reference", "crash-after:W1"]
    assert [run["processes"] for run in data["runs"]] == [[1], [1, 2]]
    created = [
        sum(item["kind"] == "commit" and item["object"] == "configmaps/default/child-*" for item in run["items"])
        for run in data["runs"]
    ]
    assert created == [1, 2]
    assert all("resourceVersion" not in text for text in data["states"])
    assert data["omitted"] == ""


def test_no_text_ends_the_script_and_no_secret_is_on_the_page(failure: Failure) -> None:
    text = page(replace_finding(failure, EVIL), EVIL)
    assert text.count("</script>") == 2
    assert "<img" not in text
    assert PASSWORD not in text
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    assert any("onerror" in state for state in json.loads(data[1])["states"])


def replace_finding(failure: Failure, message: str) -> Failure:
    return Failure(failure.plan, 1, [replace(failure.findings[0], message=message)], failure.outcome, failure.reference)


def test_a_page_is_bounded(failure: Failure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "MAX_STATE_BYTES", 600)
    long = Failure(
        failure.plan, 1, [replace(failure.findings[0], message="x" * 10_000)], failure.outcome,
        replace(failure.reference, trace=replace(failure.reference.trace, marks=[Mark(5e5, 0, "many")] * 9_000)),
    )  # fmt: skip
    data = page_data(long, "again")
    assert len(data["runs"][0]["items"]) == MAX_ITEMS
    assert sum(map(len, data["states"][1:])) <= 600
    assert len(data["findings"][0]) < 2_100
    assert "items and" in data["omitted"]


def test_a_failing_test_links_its_page(pages: Path) -> None:
    with pytest.raises(ExploredError) as caught:
        explored(jobs=1, plans=("crash-after:W1",))(records_late.explored.scenario)()
    (made,) = pages.iterdir()
    assert f"picture: {made.as_uri()}" in str(caught.value)
    assert "Plan crash-after:W1" in made.read_text()


def test_a_directory_that_cannot_be_written_does_not_hide_the_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STEERSMAN_EXPLORE_PAGES", str(tmp_path / "file"))
    with pytest.raises(ExploredError, match="does not survive the plan crash-after:W1"):
        explored(jobs=1, plans=("crash-after:W1",))(records_late.explored.scenario)()


@pytest.fixture
def file(failure: Failure, tmp_path: Path) -> Path:
    made = tmp_path / "page.html"
    made.write_text(page(failure, "again"))
    return made


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium")
async def test_a_browser_draws_both_runs_filters_and_compares_states(file: Path, tmp_path: Path) -> None:
    async with browser(tmp_path / "profile") as shown:
        await shown.open(file.as_uri())
        assert await shown.run("document.querySelectorAll('#runs svg').length") == 2
        assert await shown.run("document.title") == "Plan crash-after:W1"
        assert "W1 crash-after" in await shown.run(
            "[...document.querySelectorAll('.write.failed text')].map((label) => label.textContent)"
        )
        # The cursor is where the states differ: a second child.
        assert "configmaps/default/child-*" in await shown.run("document.querySelector('#difference').textContent")
        assert await shown.run("document.querySelectorAll('#difference .added').length") > 0
        await shown.run("document.querySelector('#object').value = 'configmaps/default/evil'")
        await shown.run("document.querySelector('#object').dispatchEvent(new Event('change'))")
        visible = "new Set([...document.querySelectorAll('#runs g:not(.hidden)')].map((g) => g.dataset.object))"
        assert await shown.run(f"[...{visible}].sort()") == ["", "configmaps/default/evil"]
        assert "onerror" in await shown.run("document.querySelector('#difference').textContent")
        assert await shown.run("document.images.length") == 0
        before = await shown.run("document.querySelector('#time').textContent")
        await shown.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowUp', bubbles: true}))")
        assert await shown.run("document.querySelector('#time').textContent") != before
        assert shown.requested == [file.as_uri()]
        assert shown.problems == []


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium")
async def test_a_page_is_dark_where_the_system_is(file: Path, tmp_path: Path) -> None:
    async with browser(tmp_path / "profile") as shown:
        colours: list[str] = []
        for scheme in ("light", "dark"):
            feature = [{"name": "prefers-color-scheme", "value": scheme}]
            await shown.call("Emulation.setEmulatedMedia", features=feature)
            await shown.open(file.as_uri())
            colours.append(await shown.run("getComputedStyle(document.body).backgroundColor"))
        assert colours == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]
