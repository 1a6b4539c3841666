"""The demo's story: the Flask application says what its ConfigMap says, again and again.

`python story.py` (or `make -C .. demo`) starts an embedded cluster whose Pods are processes of this machine, runs the
operator and the application in it, changes the ConfigMap, and shows what the application answers over HTTP. Needs
Python and Flask, nothing else. Exit code 0 means that the application said everything it should.
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from steersman.logs import configure
from steersman.testing import EmbeddedCluster
from steersman.testing.node_faults import forwarded

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
PORT = 5000
APP = HERE / "flaskapp.yaml"
MONITOR = PROJECT / "config" / "samples" / "configmonitor.yaml"
CRD = PROJECT / "config" / "crd"
WITHIN = 60.0


def config_map(message: str) -> dict[str, Any]:
    """The application's ConfigMap, with another message."""
    return {"data": {"config.cfg": f'MSG="{message}"\n'}}


@contextmanager
def cluster_with_processes() -> Generator[EmbeddedCluster]:
    """An embedded cluster that knows the application's image: Flask, in this Python."""
    with tempfile.TemporaryDirectory() as scratch:
        images = Path(scratch) / "images.yaml"
        # Where no sandbox can be had, a Pod's files are below $STEERSMAN_ROOT.
        program = 'exec "$0" "$1" "$STEERSMAN_ROOT/config/config.cfg"'
        command = ["sh", "-c", program, sys.executable, str(HERE / "app" / "app.py")]
        image = {"command": command, "env": {"PORT": str(PORT)}}
        images.write_text(json.dumps({"images": {"magalixcorp/flask": image}}))  # YAML, too
        with EmbeddedCluster.start(node_kind="process", images=images) as cluster:
            yield cluster


@contextmanager
def operator(kubeconfig: Path, log: Path, namespace: str = "default") -> Generator[subprocess.Popen[bytes]]:
    """`steersman run configmonitor:operator` for the time of a block."""
    command = [sys.executable, "-m", "steersman", "run", "configmonitor:operator", "--kubeconfig", str(kubeconfig)]
    command += ["--metrics-bind-address=0", "--health-probe-bind-address=0", "--no-leader-elect"]
    command += ["--namespace", namespace]
    with log.open("ab") as out:
        process = subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def answers(cluster: EmbeddedCluster) -> Iterator[str]:
    """What each of the application's Pods answers over HTTP at the moment.

    A Pod's address exists only in the cluster's network, so each Pod is reached through a port of this machine.
    """
    for pod in cluster.list("pods", labels="app=frontend"):
        metadata: Any = pod["metadata"]
        if metadata.get("deletionTimestamp"):
            continue
        with (
            forwarded(cluster, metadata["name"], PORT) as (host, port),
            urllib.request.urlopen(f"http://{host}:{port}/", timeout=5) as response,
        ):
            yield response.read().decode()


def until(holds: Callable[[], bool], within: float = WITHIN) -> bool:
    """Wait until something holds; an exception means not yet. False when it does not come about."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            if holds():
                return True
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.1)
    return False


def says(cluster: EmbeddedCluster, message: str, within: float = WITHIN) -> bool:
    """Whether the application, all Pods of it, comes to answer with a message."""
    return until(lambda: list(answers(cluster)) == [message], within)


def tell(cluster: EmbeddedCluster, console: Console, namespace: str = "default") -> bool:
    """Go through the story; returns whether it went as told."""
    log = cluster.directory / "operator.log"
    with cluster.test(namespace):
        cluster.apply(CRD, APP, MONITOR)
        with operator(cluster.kubeconfig, log):
            console.print("applied demo/flaskapp.yaml and a ConfigMonitor; the operator runs")
            for message in ("Welcome to Kubernetes!", "Welcome to Operators!", "Welcome back!"):
                if message != "Welcome to Kubernetes!":
                    cluster.patch("configmap", "flaskapp-config", config_map(message))
                    console.print(f'changed the ConfigMap: MSG="{message}"')
                started = time.monotonic()
                if not says(cluster, message):
                    console.print(f"[red]✘[/] the application does not say {message!r}. Its Pods:")
                    for pod in cluster.list("pods", labels="app=frontend"):
                        console.print(pod["metadata"]["name"], pod.get("status"), markup=False, highlight=False)
                    console.print("The operator's log ends with:")
                    console.print(log.read_text()[-3000:], markup=False, highlight=False)
                    return False
                console.print(f"  [green]✔[/] GET / → {message} [dim]{time.monotonic() - started:.1f} s[/]")
                if not until(lambda: _seen(cluster)):
                    console.print("[red]✘[/] the ConfigMonitor has not seen the ConfigMap")
                    return False
    return True


def _seen(cluster: EmbeddedCluster) -> bool:
    found: Any = cluster.get("configmonitor", "flaskapp-config-monitor") or {}
    status: Any = found.get("status") or {}
    return bool(status.get("observedHash"))


def main() -> int:
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    console = Console(highlight=False)
    configure(level="error")
    try:
        with cluster_with_processes() as cluster:
            done = tell(cluster, console)
    except KeyboardInterrupt:
        console.print("stopped")
        return 130
    except Exception as problem:
        console.print(f"[red]✘ the story could not be told:[/] {problem}")
        return 1
    console.print("[green]✔ the application says what its ConfigMap says[/]" if done else "[red]✘ it does not[/]")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
