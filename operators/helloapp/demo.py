"""Runs HelloApp on a real control plane and shows how the world follows: `make demo`.

Starts etcd, kube-apiserver, kube-controller-manager and kube-scheduler on loopback, installs the CRD, runs
`steersman run helloapp:operator` as a process of its own, and then does what a user would do with kubectl: apply,
scale, delete the Deployment, scale it by hand. Ends by itself with a one-line verdict; exit code 0 means that
everything followed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from steersman.testing.controlplane import BinariesNotFoundError, ControlPlane

HERE = Path(__file__).resolve().parent
DEADLINE = 60.0
"""Seconds that each step may take."""


@dataclass(frozen=True)
class Step:
    """Something a user does, and how to see that the operator has answered."""

    title: str
    act: Callable[[ControlPlane], object]
    done: Callable[[World], bool]


@dataclass(frozen=True)
class World:
    """What the API server knows of the demo's objects at one moment."""

    app: dict[str, Any]
    deployment: dict[str, Any]
    deployment_uid: str
    pods: tuple[tuple[str, str], ...]

    @classmethod
    def look(cls, plane: ControlPlane) -> World:
        apps = plane.call("GET", "/apis/apps.anupam.com/v1/namespaces/default/helloapps")["items"]
        deployments = plane.call("GET", "/apis/apps/v1/namespaces/default/deployments")["items"]
        pods = plane.call("GET", "/api/v1/namespaces/default/pods")["items"]
        return cls(
            app=apps[0] if apps else {},
            deployment=deployments[0] if deployments else {},
            deployment_uid=deployments[0]["metadata"]["uid"] if deployments else "",
            pods=tuple(
                (p["metadata"]["name"], "Terminating" if "deletionTimestamp" in p["metadata"] else p["status"]["phase"])
                for p in pods
            ),
        )

    @property
    def wanted(self) -> int | None:
        return self.app.get("spec", {}).get("size")

    @property
    def replicas(self) -> int | None:
        return self.deployment.get("spec", {}).get("replicas")

    @property
    def ready(self) -> int | None:
        return self.app.get("status", {}).get("readyReplicas")

    def settled(self, size: int) -> bool:
        status = self.app.get("status", {})
        return (
            (self.wanted, self.replicas, self.ready, len(self.pods)) == (size, size, size, size)
            and status.get("pods", []) == sorted(name for name, _ in self.pods)
            and any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))
        )


def draw(world: World, steps: list[tuple[str, str]]) -> Table:
    """One frame: the objects to the right of the story so far."""
    story = "\n".join(f"{mark} {title}" for mark, title in steps)
    objects = Table.grid(padding=(0, 2))
    objects.add_row("[bold]HelloApp[/]", f"size {world.wanted}, status.readyReplicas {world.ready}")
    objects.add_row("[bold]Deployment[/]", f"replicas {world.replicas}" if world.deployment else "[red]absent[/]")
    for name, phase in world.pods:
        objects.add_row("[bold]Pod[/]", f"{name} [{'green' if phase == 'Running' else 'yellow'}]{phase}[/]")
    frame = Table(title="HelloApp on a real control plane", expand=True)
    frame.add_column("what happens", ratio=1)
    frame.add_column("what the cluster says", ratio=1)
    frame.add_row(story, objects)
    return frame


def story() -> list[Step]:
    patch = ["patch", "helloapp", "helloapp-sample", "--type=merge", "-p"]
    deleted: list[str] = []

    def delete_deployment(plane: ControlPlane) -> None:
        deleted.append(World.look(plane).deployment_uid)
        plane.kubectl("delete", "deployment", "helloapp-sample", "--wait=false")

    return [
        Step(
            "kubectl apply -f helloapp.yaml",
            lambda p: p.kubectl("apply", "-f", str(HERE / "config/samples/helloapp.yaml")),
            lambda w: w.settled(1),
        ),
        Step("scale up: size 3", lambda p: p.kubectl(*patch, '{"spec":{"size":3}}'), lambda w: w.settled(3)),
        Step(
            "kubectl delete deployment: it returns",
            delete_deployment,
            lambda w: w.settled(3) and w.deployment_uid not in (*deleted, ""),
        ),
        Step(
            "kubectl scale deployment --replicas=5: corrected",
            lambda p: p.kubectl("scale", "deployment", "helloapp-sample", "--replicas=5"),
            lambda w: w.settled(3) and w.deployment["metadata"]["generation"] >= 3,
        ),
        Step("scale down: size 1", lambda p: p.kubectl(*patch, '{"spec":{"size":1}}'), lambda w: w.settled(1)),
    ]


def run(console: Console) -> bool:
    with console.status("starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler"):
        plane = ControlPlane.start(ready_after=0.3)
    with plane:
        plane.add_node("node-1")
        plane.kubectl("apply", "-f", str(HERE / "config/crd"))
        plane.kubectl("wait", "--for=condition=Established", "crd/helloapps.apps.anupam.com", "--timeout=30s")
        log = plane.directory / "operator.log"
        command = [sys.executable, "-m", "steersman", "run", "helloapp:operator", "--kubeconfig", str(plane.kubeconfig)]
        command += ["--metrics-bind-address=0", "--health-probe-bind-address=0", "--no-leader-elect"]
        with log.open("wb") as out, subprocess.Popen(command, cwd=HERE, stdout=out, stderr=out) as operator:
            try:
                done = tell(plane, operator, console)
            finally:
                operator.terminate()
                if operator.wait(30) != 0:
                    console.print(f"[yellow]the operator ended with {operator.returncode}[/]")
            if not done:
                console.print(log.read_text()[-4000:], markup=False, highlight=False)
            return done


def tell(plane: ControlPlane, operator: subprocess.Popen[bytes], console: Console) -> bool:
    told: list[tuple[str, str]] = []
    with Live(console=console, refresh_per_second=10, transient=False) as live:
        for step in story():
            told.append(("[yellow]▶[/]", step.title))
            step.act(plane)
            started = time.monotonic()
            while True:
                world = World.look(plane)
                took = time.monotonic() - started
                if step.done(world):
                    told[-1] = ("[green]✔[/]", f"{step.title} [dim]{took:.1f} s[/]")
                    live.update(draw(world, told))
                    break
                live.update(draw(world, told))
                if took > DEADLINE or operator.poll() is not None:
                    told[-1] = ("[red]✘[/]", step.title)
                    live.update(draw(world, told))
                    return False
                time.sleep(0.1)
    return True


def main() -> int:
    console = Console()
    started = time.monotonic()
    try:
        done = run(console)
    except BinariesNotFoundError as problem:
        console.print(f"[red]✘[/] {problem}")
        return 1
    except KeyboardInterrupt:
        console.print("stopped")
        return 130
    took = f"{time.monotonic() - started:.0f} s"
    console.print(
        f"[green]✔ HelloApp followed every change[/] in {took}"
        if done
        else f"[red]✘ HelloApp did not follow[/] ({took})"
    )
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
