"""The generated files are those that the generators write, and all of them describe one release of Kubernetes."""

from __future__ import annotations

import re

import pytest

from codegen.__main__ import GENERATORS, main
from codegen.sources import GO_MODULE_VERSION, ROOT, SourceMissingError, server_version
from steersman.version import KUBERNETES_VERSION


@pytest.mark.parametrize(
    "name",
    [
        "api-documents",
        pytest.param("schemas", marks=pytest.mark.slow),
        "protobuf",
        "settings",
        "reference",
        "patterns",
        "telemetry",
    ],
)
def test_the_committed_files_are_those_of_the_generator(name: str):
    try:
        files = GENERATORS[name]()
    except SourceMissingError as problem:
        pytest.skip(str(problem))
    assert [str(path) for path, content in files.items() if (ROOT / path).read_bytes() != content] == []


def test_every_source_is_of_the_release_that_the_version_names():
    assert server_version()["gitVersion"] == f"v{KUBERNETES_VERSION}"
    required = (ROOT / "hack" / "controlplane" / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{KUBERNETES_VERSION}\n" in required
    staged = set(re.findall(r"^\s+k8s\.io/(?:api|apimachinery|client-go) (v[\d.]+)", required, re.MULTILINE))
    assert staged == {GO_MODULE_VERSION}


def test_an_unknown_generator_is_wrong_usage(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["--check", "nothing"])
    assert ended.value.code == 2
    assert "unknown generators: nothing" in capsys.readouterr().err
