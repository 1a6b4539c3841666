"""A whole cluster with an operator on virtual time."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from datetime import timedelta
from pathlib import Path

import pytest

from steersman.client import NotFound
from steersman.k8s import ConfigMap, Deployment
from steersman.testing.faults import conflict, latency, unavailable
from steersman.testing.simulation import Simulation, simulated

from . import guarded, webs

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
"""


@pytest.mark.slow
@simulated(seed=1)
async def test_an_hour_passes_and_the_cluster_lives_on(simulation: Simulation) -> None:
    started = simulation.now()
    await simulation.apply(DEPLOYMENT)
    await simulation.passes(hours=1)

    assert simulation.now() - started >= timedelta(hours=1)
    deployment = await simulation.client.get(Deployment, "web", namespace="default")
    assert deployment.status is not None
    assert deployment.status.ready_replicas == 3


def story(seed: int) -> list[str]:
    lines: list[str] = []

    @simulated(seed=seed)
    async def run(simulation: Simulation) -> None:
        simulation.faults.add(
            conflict(resource="configmaps", verb="patch", probability=0.3),
            unavailable(verb="patch", resource="webs", probability=0.3),
            latency(0.2, verb="patch", probability=0.5),
        )
        running = await simulation.operator(webs.operator)
        for n in range(10):
            await simulation.apply(webs.web(f"site-{n}", "red" if simulation.rng.random() < 0.5 else "blue"))
        await simulation.apply(DEPLOYMENT)
        await simulation.passes(minutes=20)
        await running.wait_idle()
        lines.extend(simulation.audit())

    run()
    return lines


@pytest.mark.slow
def test_one_seed_gives_one_story() -> None:
    first, again, other = story(7), story(7), story(8)

    assert len(first) > 200
    assert first == again
    assert first != other


@simulated(seed=3)
async def test_an_operator_gets_over_what_goes_wrong(simulation: Simulation) -> None:
    broken = conflict(verb="patch", resource="configmaps", times=5)
    simulation.faults.add(broken)
    running = await simulation.operator(webs.operator)
    await simulation.apply(webs.web("one", "red"))

    async def painted() -> bool:
        try:
            return (await simulation.client.get(ConfigMap, "one", namespace="default")).data == {"colour": "red"}
        except NotFound:
            return False

    await simulation.eventually(painted)
    await running.wait_idle()

    assert simulation.faults.struck(broken) == 5
    assert [r.error is None for r in running.reconciles][-1]
    assert simulation.audit(user=running.user, writes=True)


def gate(name: str, **spec: str) -> dict[str, object]:
    return {"apiVersion": "tests.steersman.dev/v1", "kind": "Gate", "metadata": {"name": name}, "spec": spec}


@simulated(seed=5)
async def test_webhooks_default_refuse_and_convert_without_a_socket(simulation: Simulation) -> None:
    await simulation.operator(guarded.operator)
    await simulation.apply(gate("plain"))

    stored = await simulation.client.get(guarded.Gate, "plain", namespace="default")
    assert stored.spec.colour == "green"
    converted = await simulation.client.get(guarded.OldGate, "plain", namespace="default")
    assert converted.spec.paint == "green"
    with pytest.raises(AssertionError, match="grey is no colour"):
        await simulation.apply(gate("dull", colour="grey"))


@simulated(seed=5)
async def test_a_webhook_that_hangs_is_given_up_after_its_timeout(simulation: Simulation) -> None:
    await simulation.operator(guarded.operator)
    began = simulation.now()
    with pytest.raises(AssertionError, match="did not finish within 9 s"):
        await simulation.apply(gate("late", colour="slow"))
    assert timedelta(seconds=5) < simulation.now() - began < timedelta(seconds=60)


@simulated(seed=5)
async def test_no_webhook_is_called_after_its_operator_has_stopped(simulation: Simulation) -> None:
    running = await simulation.operator(guarded.operator)
    await running.stop()
    await simulation.apply({**gate("free", colour="grey")})
    assert simulation.cluster.server.admission.caller.in_process == {}


def test_a_traceback_shows_no_values_of_local_variables() -> None:
    # In a process of its own, since other tests configure the logs of this one.
    code = """
        from steersman.logs import configure
        from steersman.testing.simulation import Simulation, simulated
        from tests.testing import guarded
        from tests.testing.test_simulation import gate

        @simulated(seed=5)
        async def run(simulation):
            running = await simulation.operator(guarded.operator)
            await simulation.apply(gate("one", colour="red"))
            await simulation.passes(seconds=5)

        configure(format="console")
        run()
    """
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=root, capture_output=True, text=True, check=True
    )
    output = done.stdout + done.stderr
    assert "red gates do not open" in output
    assert "the-token-of-the-gate" not in output.replace('secret = "the-token-of-the-gate"', "")
