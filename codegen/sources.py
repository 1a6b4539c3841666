"""The sources of the generators: the recorded API documents, Go modules and a real control plane."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from steersman.version import KUBERNETES_VERSION

__all__ = [
    "ARCHIVE",
    "CLUSTER",
    "GO_MODULE_VERSION",
    "ROOT",
    "SourceMissingError",
    "api_documents",
    "discovery_documents",
    "go_module_directory",
    "run_go",
    "server_version",
]

ROOT: Final = Path(__file__).resolve().parents[1]
CLUSTER: Final = Path("packages/steersman-cluster/src/steersman_cluster")
"""The package of the embedded cluster, below `ROOT`."""
ARCHIVE: Final = ROOT / "codegen" / "data" / f"kubernetes-{KUBERNETES_VERSION.rpartition('.')[0]}-api.tar.xz"
"""Responses of a kube-apiserver: `/openapi/v3`, aggregated discovery and `/version`."""
GO_MODULE_VERSION: Final = f"v0.{KUBERNETES_VERSION.partition('.')[2]}"
"""The version of the modules k8s.io/api, k8s.io/apimachinery and their neighbours in this release."""
_API_MODULES: Final = (
    "k8s.io/api",
    "k8s.io/apiextensions-apiserver",
    "k8s.io/apimachinery",
    "k8s.io/kube-aggregator",
)
_GO_MODULE: Final = ROOT / "hack" / "controlplane"


class SourceMissingError(Exception):
    """A generator cannot run on this machine; the message names the missing source."""


@cache
def _members() -> dict[str, bytes]:
    if not ARCHIVE.exists():
        raise SourceMissingError(f"{ARCHIVE.relative_to(ROOT)} is missing: record it from a kube-apiserver")
    found: dict[str, bytes] = {}
    with tarfile.open(ARCHIVE) as archive:
        for name in archive.getnames():
            content = archive.extractfile(name) if name.endswith(".json") else None
            if content is not None:
                found[name.removeprefix("./")] = content.read()
    return found


def api_documents() -> dict[str, bytes]:
    """Return the OpenAPI v3 documents by name (`api_v1`, `apis_apps_v1`), sorted, as the server sent them."""
    prefix = "openapi-v3/api"
    members = sorted(_members().items())
    return {Path(name).stem: body for name, body in members if name.startswith(prefix)}


def discovery_documents() -> list[dict[str, Any]]:
    """Return the aggregated discovery documents of `/api` and `/apis`."""
    return [json.loads(_members()[f"discovery/aggregated-{name}.json"]) for name in ("api", "apis")]


def server_version() -> dict[str, str]:
    """Return the response of `/version`."""
    return json.loads(_members()["version.json"])


def go_module_directory() -> Path:
    """Return the directory `k8s.io` of Go's module cache, with the modules of the release downloaded.

    Raises:
        SourceMissingError: Go is not installed, the modules cannot be downloaded, or `go.mod` is of another release.
    """
    _run("mod", "download", *_API_MODULES)
    directory = Path(_run("env", "GOMODCACHE").strip()) / "k8s.io"
    for module in _API_MODULES:
        if not (directory / f"{module.removeprefix('k8s.io/')}@{GO_MODULE_VERSION}").is_dir():
            required = (_GO_MODULE / "go.mod").relative_to(ROOT)
            raise SourceMissingError(f"{required} does not require {module} {GO_MODULE_VERSION}: update it")
    return directory


def run_go(program: Path) -> str:
    """Return the output of a Go program that uses the modules of `hack/controlplane/go.mod`.

    Raises:
        SourceMissingError: Go is not installed, or the program cannot be built.
    """
    return _run("run", "-mod=readonly", str(program))


def _run(*arguments: str) -> str:
    if shutil.which("go") is None:
        raise SourceMissingError("Go is not installed")
    done = subprocess.run(["go", *arguments], cwd=_GO_MODULE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SourceMissingError(f"`go {' '.join(arguments)}` failed: {done.stderr.strip()[-500:]}")
    return done.stdout
