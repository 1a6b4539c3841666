"""The published samples of the field, as Python types, against what controller-gen makes of the same types in Go.

controller-gen decides: `golden/go` has the Go types, and nothing that it generates is kept. Skipped where the
tool is not installed (`go install sigs.k8s.io/controller-tools/cmd/controller-gen@latest`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from steersman.manifests import crds
from tests.manifests.golden_types import KINDS

GO_TYPES = Path(__file__).parent / "golden" / "go"
TOOLS = Path.home() / ".cache" / "steersman" / "tools"
ABSENT = "<absent>"
CONDITION = r"properties\.status\.properties\.conditions\.items\.(properties\.reason\.(minLength|pattern)|required)"
INTENDED = {
    r"metadata\.annotations": "which tool made it is no part of an API",
    rf".*{CONDITION}": "a condition without a reason is shown rather than refused",
    r".*\.metadata\.properties": "metadata in templates is declared, so that labels are not pruned",
    r".*\.(divisor|size|limits|requests|sizeLimit|storage|additionalProperties)\.pattern": (
        "a Quantity's exponent is a whole number, as Go parses it"
    ),
    r".*\.properties\.wait\.(format|pattern)": "a Duration has a form that the server can check",
    r".*\.properties\.range\.default\.(low|high)": (
        "the server holds a default against the rules before it fills in what is below"
    ),
    r".*\.azureDisk\.properties\.(cachingMode|kind)\.default": "the API server's own defaults",
    r".*\.onPodConditions\.items\.properties\.status\.default": "the API server's own defaults",
    r".*\.(configMapRef|secretRef|configMap|secret)\.x-kubernetes-map-type": (
        "a struct that Go embeds passes on its marker; the API server's OpenAPI does not say so"
    ),
}
"""Differences that are meant, by path, and why; docs/manifests.md lists them."""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    tool = shutil.which("controller-gen", path=f"{TOOLS}{os.pathsep}{os.environ.get('PATH', '')}")
    if tool is None or shutil.which("go") is None:
        pytest.skip(
            "controller-gen is not installed: go install sigs.k8s.io/controller-tools/cmd/controller-gen@latest"
        )
    out = tmp_path_factory.mktemp("golden")
    done = subprocess.run(
        [tool, "crd:allowDangerousTypes=true", "paths=./...", f"output:crd:dir={out}"],
        cwd=GO_TYPES,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and re.search(r"no required module provides|dial tcp|connection refused", done.stderr):
        pytest.skip("Go's module cache does not have k8s.io/api, and it cannot be downloaded")
    assert done.returncode == 0, done.stderr
    documents = [
        yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) for file in out.iterdir()
    ]
    return {document["metadata"]["name"]: document for document in documents}


@pytest.fixture(scope="module")
def ours() -> dict[str, dict[str, Any]]:
    return {crd["metadata"]["name"]: crd for crd in crds(KINDS, max_description=0)}


NAMES = sorted({kind.__resource__.crd_name for kind in KINDS})


@pytest.mark.parametrize("name", NAMES)
def test_what_python_declares_is_what_controller_gen_makes_of_go(
    name: str, ours: dict[str, dict[str, Any]], published: dict[str, dict[str, Any]]
) -> None:
    assert list(unintended(ours[name], published[name])) == []


def test_every_intended_difference_is_there(
    ours: dict[str, dict[str, Any]], published: dict[str, dict[str, Any]]
) -> None:
    found = [path for name in NAMES for path, _, _ in differences(by_version(ours[name]), by_version(published[name]))]
    assert [pattern for pattern in INTENDED if not any(re.fullmatch(pattern, path) for path in found)] == []


def unintended(mine: dict[str, Any], theirs: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for path, left, right in differences(by_version(mine), by_version(theirs)):
        if not any(re.fullmatch(pattern, path) for pattern in INTENDED):
            yield path, left, right


def by_version(crd: dict[str, Any]) -> dict[str, Any]:
    """Versions by name: ours are in the order of their priority, controller-gen's in that of their names."""
    versions = {version["name"]: version for version in crd["spec"]["versions"]}
    return {**crd, "spec": {**crd["spec"], "versions": versions}}


def differences(mine: Any, theirs: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The differences of two CRDs, without descriptions and the order of sets."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in sorted({*mine, *theirs}):
            if key == "description" and not path.endswith("properties") and "additionalPrinterColumns" not in path:
                continue
            yield from differences(mine.get(key, ABSENT), theirs.get(key, ABSENT), f"{path}.{key}".lstrip("."))
    elif path.endswith(("required", "enum")) and isinstance(mine, list) and isinstance(theirs, list):
        if sorted(mine) != sorted(theirs):
            yield path, mine, theirs
    elif isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        for index, (left, right) in enumerate(zip(mine, theirs, strict=True)):
            yield from differences(left, right, f"{path}[{index}]")
    elif mine != theirs:
        yield path, mine, theirs
