"""The packages of the operator: the OLM bundle, the Helm chart with metadata for ArtifactHub, one manifest, images."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).parent.parent
KINDS = {"MySQLBackup", "MySQLBackupInstance", "MySQLBackupSchedule", "MySQLCluster", "MySQLSwitchover"}


def made(*words: str) -> str:
    """Run a target of the Makefile with the current interpreter, and return its output."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    command = [make, "-s", f"PYTHON={sys.executable}", *words]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_bundle_for_olm_is_valid_and_owns_every_kind(tmp_path):
    made("bundle", f"BUNDLE={tmp_path}")
    checked = [sys.executable, "-m", "steersman", "bundle", "validate", str(tmp_path)]
    done = subprocess.run(checked, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    csv = yaml.safe_load((tmp_path / "manifests/mysqlcluster.clusterserviceversion.yaml").read_text())
    assert {each["kind"] for each in csv["spec"]["customresourcedefinitions"]["owned"]} == KINDS


def test_the_chart_has_the_metadata_of_artifacthub(tmp_path):
    made("chart", f"CHART={tmp_path}")
    chart = yaml.safe_load((tmp_path / "Chart.yaml").read_text())
    kinds = yaml.safe_load(chart["annotations"]["artifacthub.io/crds"])
    assert {each["kind"] for each in kinds} == KINDS
    assert chart["annotations"]["artifacthub.io/operator"] == "true"


def test_one_manifest_installs_everything(tmp_path):
    made("build-installer", f"INSTALLER={tmp_path / 'install.yaml'}")
    objects = list(yaml.safe_load_all((tmp_path / "install.yaml").read_text()))
    definitions = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    assert {each["spec"]["names"]["kind"] for each in definitions} == KINDS
    assert [each["kind"] for each in objects].count("Deployment") == 1


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
    tests = re.findall(r"`(tests/[a-z_/]+\.py)::(test_\w+)`", text)
    assert len(tests) > 20
    for file, name in tests:
        assert re.search(rf"^(    )?(async )?def {name}\(", (PROJECT / file).read_text(), re.MULTILINE), (
            f"{file}::{name}"
        )
