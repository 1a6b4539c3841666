"""Packages and modules stay small enough to find the place of a change."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = (ROOT / "src/steersman", ROOT / "packages/steersman-cluster/src/steersman_cluster")
MAX_MODULES = 40
MAX_LINES = 600
GENERATED = SOURCES[0] / "k8s"

PACKAGES = sorted({path.parent for source in SOURCES for path in source.rglob("__init__.py")} - {GENERATED})


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_has_few_modules(package: Path) -> None:
    modules = sorted(path.name for path in package.glob("*.py"))
    assert len(modules) <= MAX_MODULES, f"move modules of one purpose to a package below {package.name}"


def test_modules_are_short() -> None:
    modules = [path for package in PACKAGES for path in package.glob("*.py")]
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules}
    assert {path: count for path, count in lines.items() if count > MAX_LINES} == {}
