"""The packages of the operator: the OLM bundle, the Helm chart with metadata for ArtifactHub, one manifest, images."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.remoting_servers import server_files

PROJECT = Path(__file__).parent.parent
KINDS = {"Broker", "Console", "Controller", "NameService", "RocketMQCluster", "TopicTransfer"}


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
    csv = yaml.safe_load((tmp_path / "manifests/rocketmq.clusterserviceversion.yaml").read_text())
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


def test_each_server_has_an_image_whose_script_exists():
    text = (PROJECT / "images/Dockerfile").read_text()
    targets = dict(re.findall(r'^FROM server AS (\w+)\n(?:.*\n)*?CMD \["sh", "(\w+)"\]', text, re.MULTILINE))
    assert set(targets) == {"nameserver", "broker", "controller", "proxy"}
    for script in targets.values():
        assert (PROJECT / "images/bin" / script).is_file()


def test_the_images_have_the_jars_of_the_tests():
    pom = (PROJECT / "images/pom.xml").read_text()
    assert tuple(re.findall(r"<artifactId>(rocketmq-(?!server<)\w+)</artifactId>", pom)) == server_files().ARTIFACTS
