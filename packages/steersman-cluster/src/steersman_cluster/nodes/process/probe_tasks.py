"""The tasks that probe a container: one for each of its probes, while the container runs."""

from __future__ import annotations

import asyncio
from typing import Final

from steersman_cluster.nodes.agent import Agent
from steersman_cluster.nodes.network.cluster_network import ClusterNetwork
from steersman_cluster.nodes.node_pod import NodePod
from steersman_cluster.nodes.pod_events import ProbeFailed, Readiness, StartedUp
from steersman_cluster.nodes.process.container_run import Run
from steersman_cluster.nodes.process.handlers import Counter, Execute, act
from steersman_cluster.nodes.process.pod_resources import PodResources
from steersman_cluster.objects import Object

__all__ = ["watch"]

_PROBE_NAMES: Final = {"startupProbe": "Startup", "readinessProbe": "Readiness", "livenessProbe": "Liveness"}


async def watch(
    agent: Agent,
    node_pod: NodePod,
    resources: PodResources,
    run: Run,
    kind: str,
    execute: Execute,
    network: ClusterNetwork | None,
) -> None:
    """Run one probe of a container periodically, until its final result or until the task is cancelled.

    The success of a startup probe and the failure of a startup or liveness probe are final. Liveness and readiness
    probes start after the startup probe has succeeded.

    Args:
        agent: Receives the results.
        node_pod: The Pod.
        resources: The resources of the Pod.
        run: The run of the container.
        kind: The field of the probe: `startupProbe`, `readinessProbe` or `livenessProbe`.
        execute: Runs a command in the container.
        network: The network of the cluster, or `None` if Pods share the network of the machine.
    """
    container = run.container
    probe: Object = container[kind]
    name: str = container["name"]
    await asyncio.sleep(probe.get("initialDelaySeconds") or 0)
    if kind != "startupProbe":
        await run.started_up.wait()
    counter = Counter(probe.get("successThreshold") or 1, probe.get("failureThreshold") or 3)
    timeout, period = float(probe.get("timeoutSeconds") or 1), float(probe.get("periodSeconds") or 10)
    while True:
        passed, output = await act(probe, container, resources.facts.ip, execute, timeout, network)
        before, counter = counter.verdict, counter.take(passed=passed)
        if not passed:
            path = f"spec.containers{{{name}}}"
            agent.report(node_pod, "Warning", "Unhealthy", f"{_PROBE_NAMES[kind]} probe failed: {output}", path)
        if counter.verdict != before and counter.verdict is not None:
            verdict = counter.verdict
            if kind == "readinessProbe":
                agent.post(node_pod.uid, Readiness(name, run.attempt, verdict))
            elif kind == "startupProbe" and verdict:
                run.started_up.set()
                agent.post(node_pod.uid, StartedUp(name, run.attempt, ready="readinessProbe" not in container))
                return
            elif not verdict:
                why = "startup" if kind == "startupProbe" else "liveness"
                grace = probe.get("terminationGracePeriodSeconds")
                agent.post(node_pod.uid, ProbeFailed(name, run.attempt, why, grace))
                return
        await asyncio.sleep(period)
