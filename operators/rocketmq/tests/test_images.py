"""The images of the servers, and their start scripts with a `java` that prints its arguments."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.remoting_servers import server_files

IMAGES = Path(__file__).parents[1] / "images"
BIN = IMAGES / "bin"


def options(tmp_path: Path, script: str, **env: str) -> list[str]:
    """Return the arguments that a start script passes to Java."""
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    java.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", **env}
    done = subprocess.run(
        ["sh", script, "-c", "file.conf"],
        cwd=BIN,
        env=variables,
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("script", ["mqnamesrv", "mqbroker", "mqcontroller"])
def test_a_server_generates_no_keys_for_tls_at_its_start(tmp_path: Path, script: str):
    assert "-Dtls.server.mode=disabled" in options(tmp_path, script)


def test_java_opt_turns_tls_on(tmp_path: Path):
    found = options(tmp_path, "mqbroker", JAVA_OPT="-Dtls.server.mode=enforcing")
    assert [each for each in found if each.startswith("-Dtls.server.mode=")][-1] == "-Dtls.server.mode=enforcing"
    assert found[-2:] == ["-c", "file.conf"]


def test_each_server_has_an_image_whose_script_exists():
    text = (IMAGES / "Dockerfile").read_text()
    targets = dict(re.findall(r'^FROM server AS (\w+)\n(?:.*\n)*?CMD \["sh", "(\w+)"\]', text, re.MULTILINE))
    assert set(targets) == {"nameserver", "broker", "controller", "proxy"}
    for script in targets.values():
        assert (IMAGES / "bin" / script).is_file()


def test_the_images_have_the_jars_of_the_tests():
    pom = (IMAGES / "pom.xml").read_text()
    assert tuple(re.findall(r"<artifactId>(rocketmq-(?!server<)\w+)</artifactId>", pom)) == server_files().ARTIFACTS


def test_the_proxy_gets_a_configuration_file_with_the_name_of_the_cluster(tmp_path: Path):
    options(tmp_path, "mqproxy", ROCKETMQ_HOME=str(tmp_path), ROCKETMQ_CLUSTER="shop")
    file = tmp_path / "conf/rmq-proxy.json"
    assert json.loads(file.read_text()) == {"rocketMQClusterName": "shop"}

    file.write_text("{}")
    options(tmp_path, "mqproxy", ROCKETMQ_HOME=str(tmp_path), ROCKETMQ_CLUSTER="shop")
    assert file.read_text() == "{}", "a file that exists stays"
