"""`steersman cluster start --real-node`: a real cluster of one node, until Ctrl-C."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from steersman.cli.operator_loader import LoadError

if TYPE_CHECKING:
    from steersman.testing.real_node import RealNode

__all__ = ["COMMAND", "FLAG", "mount", "routed"]

COMMAND: Final = "start-real-node"
FLAG: Final = "--real-node"
_CONTEXT: Final = "steersman-real-node"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def routed(words: list[str]) -> list[str]:
    """Return the words of a command line with `cluster start --real-node` as the command that it is."""
    if words[:2] == ["cluster", "start"] and FLAG in words:
        return ["cluster", COMMAND, *(word for word in words[2:] if word != FLAG)]
    return words


def mount(cluster: typer.Typer) -> None:
    """Add the command to the group `steersman cluster`."""
    cluster.command(COMMAND, hidden=True)(start)


def start(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Add a context for the cluster to this kubeconfig until the cluster stops.", dir_okay=False),
    ] = None,
    image: Annotated[
        list[Path] | None,
        typer.Option(
            help="An image archive (OCI or docker) to load into the node; may be repeated.", exists=True, dir_okay=False
        ),
    ] = None,
    *,
    install_packages: Annotated[
        bool, typer.Option("--install-packages", help="Install missing Debian packages with apt-get.")
    ] = False,
) -> None:
    """Start a real cluster of one node with kubelet, containerd and CoreDNS, until Ctrl-C.

    It needs Linux and root, and the programs of `hack/controlplane/build.sh --node`. Everything runs in namespaces of
    its own; the API server listens on loopback. Nothing is pulled from registries: `--image` loads images.

    For example:

        steersman cluster start --real-node

        steersman cluster start --real-node --kubeconfig ~/.kube/config --image operator.tar
    """
    from steersman.testing import real_node
    from steersman.testing.controlplane.binaries import BinariesNotFoundError
    from steersman.testing.controlplane.process import ComponentError

    if install_packages and (missing := real_node.missing_packages()):
        typer.echo(f"installing {', '.join(missing)}", err=True)
        _install(missing)
    if (reason := real_node.unavailable()) is not None:
        hint = "; --install-packages installs them" if real_node.missing_packages() else ""
        raise LoadError(f"{reason}{hint}", 1)
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in _SIGNALS:
        signal.signal(number, on_signal)
    try:
        with real_node.RealNode.start() as node:
            node.import_images(*(image or ()))
            with ExitStack() as stack:
                _show(node, kubeconfig, stack)
                stop.wait()
    except (BinariesNotFoundError, ComponentError) as problem:
        raise LoadError(str(problem), 1) from None
    typer.echo("stopped")


def _install(packages: tuple[str, ...]) -> None:
    from steersman.testing.real_node import Unavailable, install_packages

    try:
        install_packages(packages)
    except Unavailable as problem:
        raise LoadError(str(problem), 1) from None


def _show(node: RealNode, kubeconfig: Path | None, stack: ExitStack) -> None:
    """Add the context to the user's kubeconfig, and print how to use the cluster."""
    typer.echo(f"node ready: {node.server}")
    if kubeconfig is not None:
        from steersman_cluster.cli.user_kubeconfig import merge, take_out

        merge(kubeconfig, node.kubeconfig, _CONTEXT)
        stack.callback(take_out, kubeconfig, _CONTEXT)
        typer.echo(f"context {_CONTEXT} in {kubeconfig}")
    else:
        typer.echo(f"export KUBECONFIG={node.kubeconfig}")
    typer.echo("Ctrl-C stops it")
