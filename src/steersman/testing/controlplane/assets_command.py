"""`steersman cluster assets`: list, install and remove the binaries of a test control plane."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import typer

from steersman.testing.controlplane import assets
from steersman.testing.controlplane.binaries import BinariesNotFoundError, find_binaries

app = typer.Typer(
    name="assets",
    help="Binaries of a real control plane (etcd, kube-apiserver, kubectl) for tests: fetch, list, remove.",
    no_args_is_help=True,
)

Index = Annotated[
    str | None,
    typer.Option("--index", envvar=assets.INDEX_VARIABLE, help="Address of the index of releases.", show_default=False),
]
Os = Annotated[str | None, typer.Option("--os", help="Operating system, this machine's by default.")]
Arch = Annotated[str | None, typer.Option("--arch", help="Architecture, this machine's by default.")]


@app.command("install")
def install(
    version: Annotated[str | None, typer.Argument(help="1.36 or v1.36.0; the newest stable one by default.")] = None,
    index: Index = None,
    os: Os = None,
    arch: Arch = None,
) -> None:
    """Download a release, verify its SHA-512 and unpack it into the cache."""
    with _errors():
        release = assets.pick(assets.fetch_index(index), version, os=os, arch=arch)
        typer.echo(f"{release.version} for {release.os}/{release.arch} from {release.url}", err=True)
        done = assets.install(release, progress=_Meter())
    typer.echo(done.directory)


@app.command("list")
def list_(
    *,
    remote: Annotated[
        bool, typer.Option("--remote", help="List the versions of the index, not the installed ones.")
    ] = False,
    index: Index = None,
    os: Os = None,
    arch: Arch = None,
) -> None:
    """List the sets in the cache, or the available releases."""
    if not remote:
        for one in assets.installed():
            typer.echo(f"{one.name}\t{one.directory}")
        return
    here = assets.this_platform()
    with _errors():
        for release in assets.fetch_index(index):
            if (release.os, release.arch) == (os or here[0], arch or here[1]):
                typer.echo(release.version)


@app.command("remove")
def remove(name: Annotated[str, typer.Argument(help="A name that `list` shows.")]) -> None:
    """Remove one set of binaries from the cache."""
    with _errors():
        done = assets.remove(name)
    typer.echo(f"removed {done.name}", err=True)


@app.command("path")
def path() -> None:
    """Print the directory of the binaries that tests would use now, for KUBEBUILDER_ASSETS."""
    with _errors():
        typer.echo(find_binaries().directory)


@contextmanager
def _errors() -> Generator[None]:
    """Turn errors of this package into one line on standard error and exit status 1."""
    try:
        yield
    except (assets.AssetsError, BinariesNotFoundError) as error:
        typer.echo(f"steersman: {error}", err=True)
        raise typer.Exit(1) from error


class _Meter:
    """Shows the progress of a download, a line for each tenth."""

    def __init__(self) -> None:
        self._shown = 0

    def __call__(self, received: int, total: int | None) -> None:
        tenths = received * 10 // total if total else 0
        if tenths > self._shown:
            self._shown = tenths
            typer.echo(f"{tenths * 10} % of {(total or 0) >> 20} MiB", err=True)
