"""Shared options of the commands that generate manifests, and the package description that they produce.

The version and description come from the project's pyproject.toml, if it has them.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from steersman.cli.operator_loader import LoadError, load_operator

if TYPE_CHECKING:
    from steersman.manifests import Package

__all__ = [
    "Certificates",
    "Format",
    "Image",
    "InstallCrds",
    "Metrics",
    "Monitoring",
    "Namespace",
    "NetworkPolicies",
    "Replicas",
    "Version",
    "WatchNamespace",
    "package_for",
    "project",
]

Image = Annotated[str | None, typer.Option("--image", help="The operator's image; NAME:VERSION if left out.")]
Version = Annotated[
    str | None, typer.Option("--version", help="Version of the package; by default that of the project.")
]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace of the operator; default: NAME-system.")
]
WatchNamespace = Annotated[
    list[str] | None,
    typer.Option("--watch-namespace", help="Namespace to watch; may be repeated; default: all."),
]
Replicas = Annotated[int, typer.Option("--replicas", min=0, help="Number of Pods; one of them is the leader.")]
Certificates = Annotated[
    Literal["self-managed", "cert-manager"],
    typer.Option("--certificates", help="The source of the certificates of webhooks."),
]
Metrics = Annotated[bool, typer.Option("--metrics/--no-metrics", help="Serve metrics, over TLS.")]
Monitoring = Annotated[
    bool, typer.Option("--monitoring", help="Install the ServiceMonitor and the alerts (Prometheus operator).")
]
NetworkPolicies = Annotated[bool, typer.Option("--network-policies", help="Install the NetworkPolicies.")]
InstallCrds = Annotated[
    bool,
    typer.Option(
        "--install-crds/--no-install-crds",
        help="The operator installs its CRDs at its start, and its role allows it; the package contains no CRDs.",
    ),
]
Format = Annotated[Literal["text", "json"], typer.Option("--output", help="The format of the output.")]


def package_for(
    target: str,
    *,
    image: str | None = None,
    version: str | None = None,
    namespace: str | None = None,
    watch_namespace: list[str] | None = None,
    **more: Any,
) -> Package:
    """Load the operator and describe its package. Raises `LoadError`."""
    from steersman.manifests import ManifestError, Package

    operator = load_operator(target)
    facts = project(Path.cwd())
    try:
        return Package(
            operator,
            target if ":" in target else f"{target}:operator",
            image=image or "",
            version=version or str(facts.get("version") or "0.1.0"),
            description=str(facts.get("description") or ""),
            namespace=namespace or "",
            namespaces=tuple(dict.fromkeys(watch_namespace or ())),
            **more,
        )
    except ManifestError as wrong:
        raise LoadError("\nerror: ".join(wrong.problems)) from None


def project(directory: Path) -> dict[str, Any]:
    """Return the `[project]` table of the pyproject.toml; empty if there is no readable one."""
    try:
        document = tomllib.loads((directory / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}
    table = document.get("project")
    return cast("dict[str, Any]", table) if isinstance(table, dict) else {}
