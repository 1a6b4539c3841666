"""Pods of all kinds pass the Pod Security level `restricted`, unless the spec has other settings."""

from __future__ import annotations

from typing import Any

import pytest
from steersman import ObjectMeta
from steersman.k8s import PodSecurityContext, SecurityContext
from steersman.models import to_dict
from steersman.testing import CallError

from rocketmq import consoles, nameservers, quorum
from rocketmq.api.v1.broker_types import Broker, BrokerSpec
from rocketmq.api.v1.console_types import Console, ConsoleSpec
from rocketmq.api.v1.controller_types import Controller, ControllerSpec
from rocketmq.api.v1.nameservice_types import NameService, NameServiceSpec
from rocketmq.brokers import children
from rocketmq.brokers.names import Member
from rocketmq.brokers.settings import Endpoints

META = ObjectMeta(name="mq", namespace="shop")


def templates() -> dict[str, Any]:
    stored = {"storage_mode": "EmptyDir"}
    broker = Broker(metadata=META, spec=BrokerSpec(size=1, broker_image="mq:1", **stored))
    controller = Controller(metadata=META, spec=ControllerSpec(size=1, controller_image="mq:1", **stored))
    name_service = NameService(metadata=META, spec=NameServiceSpec(size=1, name_service_image="mq:1"))
    console = Console(metadata=META, spec=ConsoleSpec(console_image="mq:1"))
    return {
        "broker": children.stateful_set(broker, Member(0, 0), Endpoints()).spec.template,
        "controller": quorum.sync(controller)[1].spec.template,
        "name server": nameservers.sync(name_service)[1].spec.template,
        "console": consoles.sync(console, ("mq:9876",))[1].spec.template,
    }


def create(cluster, template: Any) -> None:
    """Create a Pod of a template in a namespace that enforces the level, without storing it."""
    level = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    cluster.patch("namespaces", cluster.namespace, level)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mq"}, "spec": to_dict(template)["spec"]}
    cluster.call("POST", f"/api/v1/namespaces/{cluster.namespace}/pods?dryRun=All", pod)


@pytest.mark.parametrize("kind", templates())
def test_a_pod_passes(cluster, kind):
    create(cluster, templates()[kind])


def test_the_spec_replaces_the_settings(cluster):
    spec = NameServiceSpec(
        size=1,
        name_service_image="mq:1",
        security_context=PodSecurityContext(run_as_user=0),
        container_security_context=SecurityContext(privileged=True),
    )
    _, servers = nameservers.sync(NameService(metadata=META, spec=spec))
    with pytest.raises(CallError, match="restricted"):
        create(cluster, servers.spec.template)
