"""`steersman manifests`: writes the manifests of an operator to files, or compares them with files."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steersman.cli.crds.validation import embedded_check
from steersman.cli.operator_loader import LoadError
from steersman.cli.packaging import package_options
from steersman.cli.target import Target

if TYPE_CHECKING:
    from steersman.manifests import Changes, Package

__all__ = ["manifests"]


def manifests(
    target: Target,
    output: Annotated[Path, typer.Option("--output-dir", "-o", help="The directory to write to.")] = Path("config"),
    *,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if a file differs.")] = False,
    install: Annotated[
        Path | None, typer.Option("--install", help="Also write all objects of the installation to this file.")
    ] = None,
    helm: Annotated[Path | None, typer.Option("--helm", help="Also write a Helm chart to this directory.")] = None,
    dashboard: Annotated[
        Path | None, typer.Option("--dashboard", help="Also write a dashboard for Grafana to this file.")
    ] = None,
    image: package_options.Image = None,
    version: package_options.Version = None,
    namespace: package_options.Namespace = None,
    watch_namespace: package_options.WatchNamespace = None,
    replicas: package_options.Replicas = 1,
    certificates: package_options.Certificates = "self-managed",
    metrics: package_options.Metrics = True,
    monitoring: package_options.Monitoring = False,
    network_policies: package_options.NetworkPolicies = False,
    install_crds: package_options.InstallCrds = False,
    split: Annotated[bool, typer.Option("--split", help="Write every object to a separate file.")] = False,
    max_description: Annotated[
        int | None, typer.Option("--max-description", min=0, help="Maximum length of descriptions in characters.")
    ] = None,
    format: package_options.Format = "text",
) -> None:
    """Write the manifests of an operator below config/ (kustomize), or check that they are up to date.

    Files of other origin are not changed; generated files that are no longer needed are removed. A generated file
    without its first line is no longer overwritten (except CRDs and roles).
    """
    from steersman.manifests import ManifestError  # `steersman run` does not need these modules.

    package = package_options.package_for(
        target,
        image=image,
        version=version,
        namespace=namespace,
        watch_namespace=watch_namespace,
        replicas=replicas,
        certificates=certificates,
        metrics=metrics,
        monitoring=monitoring,
        network_policies=network_policies,
        install_crds=install_crds,
        max_description=max_description,
    )
    try:
        outputs = _outputs(package, output, install, helm, dashboard, split=split)
    except ManifestError as wrong:
        raise LoadError("\nerror: ".join(wrong.problems), 1) from None
    finish(outputs, check=check, format=format)


@dataclass(frozen=True, slots=True)
class Output:
    """Return the files below one directory, and the subdirectories with generated files that are out of date."""

    directory: Path
    files: Mapping[str, str]
    folders: tuple[str, ...] = ()


def _outputs(
    package: Package, config: Path, install: Path | None, helm: Path | None, dashboard: Path | None, *, split: bool
) -> list[Output]:
    from steersman.manifests.config_directory import CONFIG_FOLDERS, package_files, samples
    from steersman.manifests.helm import CHART_FOLDERS, chart_files
    from steersman.manifests.install import install_file
    from steersman.manifests.monitoring import dashboard as dashboard_of

    try:
        files = {**package_files(package, check=embedded_check(), split=split), **samples(package, config)}
    except OSError as problem:
        raise LoadError(f"{problem.filename or config}: {problem.strerror}", 1) from None
    found = [Output(config, files, CONFIG_FOLDERS)]
    if install is not None:
        found.append(Output(install.parent, {install.name: install_file(package)}))
    if helm is not None:
        found.append(Output(helm, chart_files(package), CHART_FOLDERS))
    if dashboard is not None:
        found.append(Output(dashboard.parent, {dashboard.name: dashboard_of(package)}))
    return found


def finish(outputs: list[Output], *, check: bool, format: str) -> None:
    """Write or compare, print the changes, and exit with 1 when a check finds differences."""
    from steersman.manifests import compare, write

    done: list[tuple[Output, Changes]] = []
    for output in outputs:
        try:
            changes = (compare if check else write)(output.files, output.directory, output.folders)
        except OSError as problem:
            raise LoadError(f"{problem.filename or output.directory}: {problem.strerror}", 1) from None
        done.append((output, changes))
    if format == "json":
        told = {
            word: [str(output.directory / path) for output, changes in done for path in getattr(changes, word)]
            for word in ("new", "changed", "gone", "kept")
        }
        typer.echo(json.dumps(told))
    else:
        for output, changes in done:
            _print_changes(changes, output.files, output.directory, check=check)
    if check and any(changes for _, changes in done):
        if format == "text":
            typer.echo("Run it without --check to update them.", err=True)
        raise typer.Exit(1)


def _print_changes(changes: Changes, files: Mapping[str, str], output: Path, *, check: bool) -> None:
    words = ("is missing", "differs", "is no longer generated") if check else ("created", "changed", "removed")
    for word, paths in zip(words, (changes.new, changes.changed, changes.gone), strict=True):
        for path in paths:
            typer.echo(f"{output / path}: {word}")
            if check and path in changes.changed:
                old = (output / path).read_text(encoding="utf-8", errors="replace")
                typer.echo("\n".join(difflib.unified_diff(old.splitlines(), files[path].splitlines(), lineterm="")))
    for path in changes.kept:
        typer.echo(f"{output / path}: kept: it was edited")
    if not changes:
        many = f"{len(files)} files" if len(files) > 1 else next(iter(files), "nothing")
        typer.echo(f"{many} in {output} {'are' if len(files) > 1 else 'is'} up to date")
