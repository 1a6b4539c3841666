"""Runs SidecarSet on an embedded cluster and shows the injection of sidecars into Pods.

Starts the embedded cluster in this process, installs the CRD, runs `steersman run sidecarset:operator` as a separate
process, and then acts as a user: create Pods, submit an invalid set, change an image, change a command. Needs only
Python. `--real` does the same on a real kube-apiserver. Ends with a one-line verdict; exit code 0 means that every
check succeeded.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text
from steersman import MergePatch, ObjectMeta
from steersman.client import Client, Invalid
from steersman.k8s import Container, Pod, PodSpec
from steersman.logs import configure
from steersman.manifest_files import load, read
from steersman.testing import Cluster, eventually

from sidecarset.api.v1alpha1.sidecarset_types import SidecarSet

HERE = Path(__file__).resolve().parent
NAME = "test-sidecarset"
DEADLINE = 60.0
"""The time limit of each step in seconds."""


@dataclass(frozen=True)
class State:
    """The state of the demo's objects in the API server."""

    sets: tuple[SidecarSet, ...]
    pods: tuple[Pod, ...]

    @classmethod
    async def look(cls, client: Client) -> State:
        sets, pods = await asyncio.gather(client.list(SidecarSet), client.list(Pod, namespace="default"))
        return cls(sets.items, pods.items)

    def counts(self, matched: int, updated: int, ready: int) -> bool:
        """Return whether the status describes the current spec with these numbers."""
        return any(
            each.status.observed_generation == each.metadata.generation
            and (each.status.matched_pods, each.status.updated_pods, each.status.ready_pods)
            == (matched, updated, ready)
            for each in self.sets
        )

    def images(self) -> set[str | None]:
        return {c.image for pod in self.pods for c in pod.spec.containers if c.name == "sidecar1"}


async def apply(client: Client, path: Path) -> None:
    manifests, problems = read([path])
    failed = [str(problem) for problem in problems]
    failed += [f"{o.reference}: {o.error}" async for o in load(client, manifests) if o.action == "failed"]
    if failed:
        raise RuntimeError("; ".join(failed))


async def create(client: Client, *names: str) -> None:
    for name in names:
        spec = PodSpec(containers=(Container(name="main", image="nginx:1.27"),), termination_grace_period_seconds=0)
        await client.create(
            Pod(metadata=ObjectMeta(name=name, namespace="default", labels={"app": "nginx"}), spec=spec)
        )


async def be_refused(client: Client) -> None:
    found = await client.get(SidecarSet, NAME)
    other = SidecarSet(metadata=ObjectMeta(name="second"), spec=found.spec)
    try:
        await client.create(other)
    except Invalid:
        return
    raise RuntimeError("two containers of one name were let pass")


async def change(client: Client, **fields: object) -> None:
    body = {"name": "sidecar1", "image": "busybox:1.37", "command": ["sleep", "999d"], **fields}
    await client.patch(SidecarSet, NAME, MergePatch({"spec": {"containers": [body]}}))


async def renew(client: Client) -> None:
    for pod in (await client.list(Pod, namespace="default")).items:
        await client.delete(pod)

    async def gone() -> bool:
        return not (await client.list(Pod, namespace="default")).items

    await eventually(gone, within=DEADLINE, what="no Pods")
    await create(client, "web-4", "web-5")


@dataclass(frozen=True)
class Step:
    """A step of the user, and the check of its effect."""

    title: str
    act: Callable[[Client], Awaitable[object]]
    done: Callable[[State], bool]


STORY: Sequence[Step] = (
    Step("apply the sample", lambda c: apply(c, HERE / "config/samples"), lambda w: w.counts(0, 0, 0)),
    Step(
        "create three Pods: each gets its sidecar",
        lambda c: create(c, "web-1", "web-2", "web-3"),
        lambda w: w.counts(3, 3, 3) and w.images() == {"busybox:1.36"},
    ),
    Step("a second set with the same container: refused", be_refused, lambda w: len(w.sets) == 1),
    Step(
        "change the image: the Pods get it in place",
        lambda c: change(c),
        lambda w: w.counts(3, 3, 3) and w.images() == {"busybox:1.37"},
    ),
    Step(
        "change the command: the Pods wait to be created anew, and the status says so",
        lambda c: change(c, command=["sleep", "1d"]),
        lambda w: w.counts(3, 0, 3) and w.sets[0].status.waiting_pods == 3,
    ),
    Step("create them anew", renew, lambda w: w.counts(2, 2, 2)),
)


def draw(state: State, told: Sequence[str]) -> Table:
    """Render one frame: the steps so far, the counts, and the Pods."""
    frame = Table.grid(padding=(0, 3))
    pods = Table("Pod", "containers")
    for pod in state.pods:
        pods.add_row(pod.metadata.name, ", ".join(f"{c.name} {c.image}" for c in pod.spec.containers))
    counts = Table("SidecarSet", "matched", "updated", "ready")
    for each in state.sets:
        status = each.status
        counts.add_row(each.metadata.name, *map(str, (status.matched_pods, status.updated_pods, status.ready_pods)))
    frame.add_row(Text.from_markup("\n".join(told)), counts, pods)
    return frame


@contextmanager
def operator(kubeconfig: Path, log: Path) -> Generator[subprocess.Popen[bytes]]:
    """Run `steersman run sidecarset:operator` for the time of a block."""
    command = [sys.executable, "-m", "steersman", "run", "sidecarset:operator", "--kubeconfig", str(kubeconfig)]
    command += ["--metrics-bind-address=0", "--health-probe-bind-address=0", "--no-leader-elect"]
    command += ["--webhook-bind-address=127.0.0.1:0"]
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


async def tell(cluster: Cluster, console: Console) -> bool:
    """Install, run, and perform the steps; returns whether every check succeeded."""
    log = cluster.directory / "operator.log"
    async with Client(cluster.config) as client:
        await apply(client, HERE / "config/crd/bases/apps.kruise.io_sidecarsets.yaml")
        with operator(cluster.kubeconfig, log) as process:
            started = time.monotonic()
            while "the operator runs" not in log.read_text():
                if process.poll() is not None or time.monotonic() - started > DEADLINE:
                    console.print(log.read_text()[-3000:], markup=False)
                    return False
                await asyncio.sleep(0.1)
            told: list[str] = []
            with Live(console=console, refresh_per_second=12, transient=not console.is_terminal) as live:
                for step in STORY:
                    started = time.monotonic()
                    await step.act(client)
                    while not step.done(state := await State.look(client)):
                        live.update(draw(state, [*told, f"[yellow]▶[/] {step.title}"]))
                        if time.monotonic() - started > DEADLINE or process.poll() is not None:
                            live.stop()
                            console.print(f"[red]✘[/] {step.title}. The operator's log ends with:")
                            console.print(log.read_text()[-3000:], markup=False, highlight=False)
                            return False
                        await asyncio.sleep(0.08)
                    told.append(f"[green]✔[/] {step.title} [dim]{time.monotonic() - started:.1f} s[/]")
                    live.update(draw(state, told))
                    if not console.is_terminal:
                        console.print(told[-1])
    return True


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


def main() -> int:
    parser = argparse.ArgumentParser(description="Run SidecarSet on a cluster of its own and show what Pods get.")
    parser.add_argument("--real", action="store_true", help="on a real control plane (make controlplane builds it)")
    real = bool(parser.parse_args().real)
    console = Console(highlight=False)
    started = time.monotonic()
    try:
        with console.status("starting a cluster"):
            cluster, title = start(real)
        with closing(cluster):
            done = asyncio.run(tell(cluster, console))
    except KeyboardInterrupt:
        console.print("stopped")
        return 130
    except Exception as problem:
        console.print(f"[red]✘ SidecarSet could not be shown:[/] {problem}", markup=True)
        return 1
    took = f"{time.monotonic() - started:.0f} s"
    verdict = "[green]✔ every Pod followed" if done else "[red]✘ not every Pod followed"
    console.print(f"{verdict} on {title}[/] in {took}")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
