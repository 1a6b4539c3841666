"""The images of the server, and the level of capability that the bundle claims."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
NAMED_TEST = r"`(tests/[a-z_/]+\.py)::(test_\w+)`"


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_the_image_of_the_server_has_the_packages_of_the_tests_for_each_series(flavor):
    text = (PROJECT / f"images/{flavor}.Dockerfile").read_text()
    sys.path.insert(0, str(PROJECT / "hack"))
    try:
        servers = importlib.import_module("servers")
    finally:
        sys.path.pop(0)
    packages = {name: needed for name, needed in servers.SERVERS.items() if name.startswith(flavor)}
    assert {f"{flavor}-{series}" for series in re.findall(r"AS series-([0-9.]+)$", text, re.MULTILINE)} == set(packages)
    installed = re.search(r"--no-install-recommends \\\n\s+(.*) \\$", text, re.MULTILINE)
    assert installed is not None
    assert {each for needed in packages.values() for each in needed} <= set(installed[1].split())


def test_the_capability_level_is_justified_line_by_line_with_tests_that_exist():
    text = (PROJECT / "docs/capabilities.md").read_text()
    level = re.search(r"^The bundle claims \*\*(.+)\*\*", text, re.MULTILINE)
    assert level is not None
    assert f'--capability "{level[1]}"' in (PROJECT / "Makefile").read_text()
    assert len(re.findall(NAMED_TEST, text)) > 20


@pytest.mark.parametrize("page", ["docs/capabilities.md", "docs/failures.md", "README.md"])
def test_the_tests_that_a_page_names_exist(page):
    text = (PROJECT / page).read_text()
    assert "tests/" in text
    for file, name in re.findall(NAMED_TEST, text):
        assert re.search(rf"^(    )?(async )?def {name}\(", (PROJECT / file).read_text(), re.MULTILINE), (
            f"{file}::{name}"
        )
