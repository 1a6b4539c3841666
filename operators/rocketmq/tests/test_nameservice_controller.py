"""The name servers on a cluster, with only the permissions that the operator declares."""

from __future__ import annotations

import pytest
from steersman.testing import eventually

KIND = "nameservices.rocketmq.daocloud.io"
SERVICE = """
apiVersion: rocketmq.daocloud.io/v1
kind: NameService
metadata: {name: mq}
spec: {size: 2, nameServiceImage: "rocketmq:5.5.0"}
"""


def address(cluster, ordinal, port=9876):
    return f"mq-namesrv-{ordinal}.mq-namesrv.{cluster.namespace}.svc:{port}"


def has(*expected):
    return lambda service: service.get("status", {}).get("nameServers", []) == list(expected)


def conditions(service):
    return {each["type"]: each["status"] for each in service["status"]["conditions"]}


def test_name_servers_have_stable_names_and_follow_the_size(cluster, operator):
    running = operator("rocketmq:operator")
    cluster.apply(SERVICE)
    service = cluster.wait(KIND, "mq", has(address(cluster, 0), address(cluster, 1)))
    assert conditions(service) == {"Available": "True", "Progressing": "False"}
    assert cluster.get("services", "mq-namesrv")["spec"]["clusterIP"] == "None"

    cluster.scale(KIND, "mq", 3)
    cluster.wait(KIND, "mq", has(*(address(cluster, each) for each in range(3))))
    cluster.scale(KIND, "mq", 1)
    cluster.wait(KIND, "mq", has(address(cluster, 0)))
    running.wait_idle()
    assert [r.error for r in running.reconciles if r.error] == []
    eventually(
        lambda: (
            {"Created", "Updated", "NameServersChanged"}
            <= {event["reason"] for event in cluster.list("events.events.k8s.io")}
        ),
        what="Events for the changes",
    )


def test_a_deleted_stateful_set_is_created_again(cluster, operator):
    operator("rocketmq:operator")
    cluster.apply(SERVICE)
    before = cluster.wait("statefulsets", "mq-namesrv", lambda found: True)["metadata"]["uid"]
    cluster.delete("statefulsets", "mq-namesrv")
    cluster.wait("statefulsets", "mq-namesrv", lambda found: found["metadata"]["uid"] != before)


def test_a_stateful_set_that_a_quota_refuses_is_reported(cluster, operator):
    cluster.apply(
        """
        apiVersion: v1
        kind: ResourceQuota
        metadata: {name: none}
        spec: {hard: {count/statefulsets.apps: "0"}}
        """
    )
    cluster.wait("resourcequota", "none", lambda quota: "hard" in quota.get("status", {}))
    operator("rocketmq:operator")
    cluster.apply(SERVICE)

    def refused(service):
        found = service.get("status", {}).get("conditions", ())
        return [each["reason"] for each in found if "quota" in each["message"]] == ["ChildRefused"]

    cluster.wait(KIND, "mq", refused)


@pytest.mark.slow
def test_a_restart_is_in_progress_until_every_pod_has_the_new_template(cluster, operator):
    operator("rocketmq:operator")
    cluster.apply(SERVICE)
    cluster.wait(KIND, "mq", lambda found: found.get("status") and conditions(found)["Progressing"] == "False")
    before = {pod["metadata"]["uid"] for pod in cluster.list("pods")}
    cluster.patch(KIND, "mq", {"spec": {"env": [{"name": "GENERATION", "value": "2"}]}})

    def complete(found):
        current = found["status"]["observedGeneration"] == found["metadata"]["generation"]
        return current and conditions(found)["Progressing"] == "False"

    cluster.wait(KIND, "mq", complete, within=120)
    after = {pod["metadata"]["uid"] for pod in cluster.list("pods")}
    assert len(after) == 2
    assert not before & after
