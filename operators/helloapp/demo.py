"""Runs HelloApp on an embedded cluster and shows the effects of changes: `make demo`.

Starts the embedded cluster in this process, installs the CRD, runs `steersman run helloapp:operator` as a separate
process, and then acts as a user: apply, scale, kill a Pod, delete the Deployment, scale it by hand, delete everything.
Needs only Python. `--real` does the same on a real kube-apiserver with its own controllers. Ends with a one-line
verdict; exit code 0 means that the cluster reached every expected state.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree
from steersman.client import Client
from steersman.k8s import Deployment, Pod, ReplicaSet
from steersman.logs import configure
from steersman.manifest_files import load, read
from steersman.models import MergePatch
from steersman.testing import Cluster

from helloapp.api.v1.helloapp_types import HelloApp

HERE = Path(__file__).resolve().parent
NAME = "helloapp-sample"
DEADLINE = 60.0
"""The time limit of each step: a real garbage collector discovers new kinds every half minute."""
SETTLED = 0.4
"""Seconds for the viewer to read the result of a step."""


@dataclass(frozen=True)
class ClusterState:
    """The state of the demo's objects in the API server."""

    apps: tuple[HelloApp, ...] = ()
    deployments: tuple[Deployment, ...] = ()
    replica_sets: tuple[ReplicaSet, ...] = ()
    pods: tuple[Pod, ...] = ()

    @classmethod
    async def read(cls, client: Client) -> ClusterState:
        apps, deployments, sets, pods = await asyncio.gather(
            client.list(HelloApp, namespace="default"),
            client.list(Deployment, namespace="default"),
            client.list(ReplicaSet, namespace="default"),
            client.list(Pod, namespace="default"),
        )
        return cls(apps.items, deployments.items, sets.items, pods.items)

    @property
    def deployment_uid(self) -> str:
        return self.deployments[0].metadata.uid or "" if self.deployments else ""

    @property
    def empty(self) -> bool:
        return not (self.apps or self.deployments or self.replica_sets or self.pods)

    def settled(self, size: int) -> bool:
        """Return whether all four kinds and the status agree on `size`."""
        if len(self.apps) != 1 or len(self.deployments) != 1:
            return False
        app, deployment = self.apps[0], self.deployments[0]
        return (
            app.spec.size == deployment.spec.replicas == app.status.ready_replicas == len(self.pods) == size
            and not any(pod.metadata.deletion_timestamp for pod in self.pods)
            and app.status.pods == tuple(sorted(pod.metadata.name for pod in self.pods))
            and any(c.type == "Ready" and c.status == "True" for c in app.status.conditions)
        )


@dataclass
class User:
    """Performs the steps on the cluster, and remembers states that must not come back."""

    client: Client
    gone: set[str] = field(default_factory=set[str])

    async def apply(self, *paths: Path) -> None:
        manifests, problems = read(paths)
        failed = [str(problem) for problem in problems]
        outcomes = [outcome async for outcome in load(self.client, manifests)]
        failed += [f"{o.reference}: {o.error}" for o in outcomes if o.action == "failed"]
        if failed:
            raise RuntimeError("; ".join(failed))

    async def size(self, size: int) -> None:
        await self.client.patch(HelloApp, NAME, MergePatch({"spec": {"size": size}}), namespace="default")

    async def scale_by_hand(self, replicas: int) -> None:
        await self.client.patch(Deployment, NAME, MergePatch({"spec": {"replicas": replicas}}), namespace="default")

    async def delete_deployment(self) -> None:
        deployment = await self.client.get(Deployment, NAME, namespace="default")
        self.gone.add(deployment.metadata.uid or "")
        await self.client.delete(deployment)

    async def kill_pod(self) -> None:
        pod = (await self.client.list(Pod, namespace="default")).items[0]
        self.gone.add(pod.metadata.name)
        await self.client.delete(pod)

    async def delete_app(self) -> None:
        await self.client.delete(HelloApp, NAME, namespace="default")


@dataclass(frozen=True)
class Step:
    """A step of the user, and the check of its effect."""

    title: str
    act: Callable[[User], Awaitable[object]]
    done: Callable[[ClusterState, User], bool]


STORY: Sequence[Step] = (
    Step(
        "apply the sample: a Deployment, a ReplicaSet and a Pod appear",
        lambda user: user.apply(HERE / "config/samples"),
        lambda state, _: state.settled(1),
    ),
    Step("scale up to 3", lambda user: user.size(3), lambda state, _: state.settled(3)),
    Step(
        "kill a Pod: it is replaced",
        User.kill_pod,
        lambda state, user: state.settled(3) and not user.gone & {p.metadata.name for p in state.pods},
    ),
    Step(
        "delete the Deployment: it comes back",
        User.delete_deployment,
        lambda state, user: state.settled(3) and state.deployment_uid not in user.gone,
    ),
    Step(
        "scale the Deployment to 5 by hand: corrected",
        lambda user: user.scale_by_hand(5),
        lambda state, _: state.settled(3) and (state.deployments[0].metadata.generation or 0) >= 3,
    ),
    Step("scale down to 1", lambda user: user.size(1), lambda state, _: state.settled(1)),
    Step("delete the HelloApp: everything goes with it", User.delete_app, lambda state, _: state.empty),
)


def draw(state: ClusterState, told: Sequence[str], title: str) -> Table:
    """Render one frame: the steps so far, and the state of the cluster."""
    frame = Table.grid(expand=True)
    frame.add_column(ratio=1)
    frame.add_column(ratio=1)
    story = Panel(Text.from_markup("\n".join(told)), title="what happens", height=16)
    frame.add_row(story, Panel(Group(*_trees(state)), title=title, height=16))
    return frame


def _trees(state: ClusterState) -> Iterator[Any]:
    """Render the objects as a tree of owners."""
    everything = (*state.deployments, *state.replica_sets, *state.pods)
    living = {obj.metadata.uid for obj in (*state.apps, *everything)}

    def grow(tree: Tree, uid: str | None) -> None:
        for child in everything:
            if any(owner.uid == uid for owner in child.metadata.owner_references):
                grow(tree.add(_line(child)), child.metadata.uid)

    for root in (*state.apps, *everything):
        if not any(owner.uid in living for owner in root.metadata.owner_references):
            tree = Tree(_line(root), guide_style="dim")
            grow(tree, root.metadata.uid)
            yield tree
    if state.empty:
        yield Text("nothing", style="dim")


def _line(obj: Any) -> str:
    match obj:
        case HelloApp():
            said = f"size {obj.spec.size}, [cyan]status.readyReplicas {obj.status.ready_replicas}[/]"
        case Pod():
            ready = any(c.type == "Ready" and c.status == "True" for c in (obj.status and obj.status.conditions) or ())
            said = "[green]Ready[/]" if ready else f"[yellow]{(obj.status and obj.status.phase) or 'Pending'}[/]"
        case _:
            said = f"{(obj.status and obj.status.ready_replicas) or 0}/{obj.spec.replicas} ready"
    if obj.metadata.deletion_timestamp:
        said = "[red]Terminating[/]"
    return f"[bold]{type(obj).__name__}[/] {obj.metadata.name}  {said}"


def start(real: bool) -> tuple[Cluster, str]:
    """Start the selected cluster; yields it with its title."""
    if real:
        from steersman.testing import ControlPlane

        plane = ControlPlane.start(ready_after=0.3)
        plane.add_node("node-1")
        return plane, "the real control plane"
    from steersman.testing import EmbeddedCluster

    configure(level="error")
    return EmbeddedCluster.start(ready_after=0.3), "the embedded cluster"


@contextmanager
def operator(kubeconfig: Path, log: Path) -> Generator[subprocess.Popen[bytes]]:
    """Run `steersman run helloapp:operator` for the time of a block."""
    command = [sys.executable, "-m", "steersman", "run", "helloapp:operator", "--kubeconfig", str(kubeconfig)]
    command += ["--metrics-bind-address=0", "--health-probe-bind-address=0", "--no-leader-elect"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=HERE, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def tell(cluster: Cluster, title: str, console: Console) -> bool:
    """Install, run, and perform the steps; returns whether every check succeeded."""
    log = cluster.directory / "operator.log"
    async with Client(cluster.config) as client:
        user = User(client)
        await user.apply(HERE / "config/crd")
        with operator(cluster.kubeconfig, log) as process:
            told: list[str] = []
            state = ClusterState()
            with Live(console=console, refresh_per_second=12, transient=not console.is_terminal) as live:
                for step in STORY:
                    started = time.monotonic()
                    await step.act(user)
                    while True:
                        took = time.monotonic() - started
                        state = await ClusterState.read(client)
                        live.update(draw(state, [*told, f"[yellow]▶[/] {step.title}"], title))
                        if step.done(state, user):
                            break
                        if took > DEADLINE or process.poll() is not None:
                            live.update(draw(state, [*told, f"[red]✘[/] {step.title}"], title))
                            live.stop()
                            why = "the operator has ended" if process.poll() is not None else f"not after {took:.0f} s"
                            console.print(f"[red]✘[/] {step.title}: {why}. The operator's log ends with:")
                            console.print(log.read_text()[-3000:], markup=False, highlight=False)
                            return False
                        await asyncio.sleep(0.08)
                    told.append(f"[green]✔[/] {step.title} [dim]{took:.1f} s[/]")
                    live.update(draw(state, told, title))
                    if console.is_terminal:
                        await asyncio.sleep(SETTLED)
                    else:
                        console.print(told[-1])
    return True


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Run HelloApp on a cluster of its own and show how the cluster follows."
    )
    parser.add_argument("--real", action="store_true", help="on a real control plane (make controlplane builds it)")
    real = bool(parser.parse_args().real)
    console = Console(highlight=False)
    started = time.monotonic()
    try:
        with console.status("starting a cluster"):
            cluster, title = start(real)
        with closing(cluster):
            done = asyncio.run(tell(cluster, f"what {title} says", console))
    except KeyboardInterrupt:
        console.print("stopped")
        return 130
    except Exception as problem:
        console.print(f"[red]✘ HelloApp could not be shown:[/] {problem}", markup=True)
        return 1
    took = f"{time.monotonic() - started:.0f} s"
    console.print(
        f"[green]✔ HelloApp followed every change on {title}[/] in {took}"
        if done
        else f"[red]✘ HelloApp did not follow[/] ({took})"
    )
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
