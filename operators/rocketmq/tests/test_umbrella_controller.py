"""RocketMQCluster and Console on simulated nodes: their children and their status."""

from __future__ import annotations

from steersman import ObjectMeta, replace
from steersman.testing import eventually

from rocketmq import umbrella
from rocketmq.api.v1.broker_types import Autoscaling, Broker, BrokerSpec
from rocketmq.api.v1.nameservice_types import NameServiceSpec
from rocketmq.api.v1.rocketmqcluster_types import RocketMQCluster, RocketMQClusterSpec

KIND = "rocketmqclusters.rocketmq.daocloud.io"
CONSOLE = "consoles.rocketmq.daocloud.io"
CLUSTER = """
apiVersion: rocketmq.daocloud.io/v1
kind: RocketMQCluster
metadata: {name: shop}
spec:
  nameService: {size: 2, nameServiceImage: rocketmq}
  broker: {clusterMode: CONTROLLER, brokerImage: rocketmq, storageMode: EmptyDir}
  controller: {size: 3, controllerImage: rocketmq, storageMode: EmptyDir}
  console: {consoleImage: dashboard}
"""


def condition(found, kind="Available"):
    return next((c for c in found.get("status", {}).get("conditions", ()) if c["type"] == kind), {})


def test_a_cluster_has_an_object_of_each_kind_and_says_which_is_missing(cluster, operator):
    running = operator("rocketmq:operator")
    cluster.apply(CLUSTER)
    # Simulated Pods are ready, but they run no server.
    found = cluster.wait(KIND, "shop", lambda each: "Controller" in condition(each).get("message", ""))
    assert condition(found)["status"] == "False"
    for kind in ("nameservices", "controllers", "brokers", "consoles"):
        assert cluster.get(f"{kind}.rocketmq.daocloud.io", "shop")["metadata"]["ownerReferences"][0]["name"] == "shop"

    sets = {each["metadata"]["name"] for each in cluster.list("statefulsets")}
    assert {"shop-namesrv", "shop-controller", "shop-0-0", "shop-0-1"} <= sets
    files = cluster.get("configmaps", "shop-0")["data"]["shop-0-0-0.conf"]
    assert "controllerAddr=shop-controller-0.shop-controller" in files
    running.wait_idle()
    assert [r.error for r in running.reconciles if r.error] == []


def test_a_console_shows_the_name_servers_and_follows_their_number(cluster, operator):
    operator("rocketmq:operator")
    cluster.apply(CLUSTER)

    def shown():
        spec = (cluster.get("deployments", "shop-console") or {}).get("spec")
        return spec["template"]["spec"]["containers"][0]["env"][0]["value"].count(":9876") if spec else 0

    eventually(lambda: shown() == 2, what="two name servers in the console")
    cluster.wait(CONSOLE, "shop", "Available")
    cluster.patch(KIND, "shop", {"spec": {"nameService": {"size": 3}}})
    eventually(lambda: shown() == 3, what="three name servers in the console")


def test_a_console_that_leaves_the_spec_is_removed(cluster, operator):
    operator("rocketmq:operator")
    cluster.apply(CLUSTER)
    cluster.wait(CONSOLE, "shop", lambda each: True)
    cluster.patch(KIND, "shop", {"spec": {"console": None}})
    eventually(lambda: cluster.get(CONSOLE, "shop") is None, what="the removal of the console")


def test_a_broker_that_scales_itself_keeps_its_number_of_groups():
    def sizes(enabled):
        limits = Autoscaling(enabled=enabled, min_groups=1, max_groups=4)
        spec = BrokerSpec(broker_image="b", replica_per_group=2, storage_mode="EmptyDir", autoscaling=limits)
        whole = RocketMQClusterSpec(name_service=NameServiceSpec(name_service_image="n"), broker=spec)
        present = Broker(metadata=ObjectMeta(name="shop"), spec=replace(spec, size=3))
        found = umbrella.sync(RocketMQCluster(metadata=ObjectMeta(name="shop"), spec=whole), present)
        return [each.spec.size for each in found if isinstance(each, Broker)]

    assert sizes(True) == [3]
    assert sizes(False) == [1]
