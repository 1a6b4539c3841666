"""Tests without a cluster: hashes, plans, and the identity of the operator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steersman import ObjectMeta
from steersman.k8s import ConfigMap, Pod, PodStatus, Secret

from configmonitor.api.v1.configmonitor_types import (
    ConfigMonitor,
    ConfigMonitorSpec,
    ConfigMonitorStatus,
    PendingPod,
    Restart,
)
from configmonitor.plan import Seen, restart_for
from configmonitor.restarts import template_annotation
from configmonitor.self_selection import Itself, itself
from configmonitor.source import content_hash

WEB = {"app": "web"}
SEEN = Seen("sha256:new", "50")
keys = st.text("abc.", min_size=1, max_size=3)


def pod(name, labels=WEB, phase="Running"):
    return Pod(metadata=ObjectMeta(name=name, uid=f"uid-{name}", labels=labels), status=PodStatus(phase=phase))


def monitor(name, labels=WEB, restart=None, observed="20"):
    return ConfigMonitor(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}"),
        spec=ConfigMonitorSpec(config_map="settings", pod_selector=labels),
        status=ConfigMonitorStatus(observed_hash="sha256:old", observed_version=observed, restart=restart),
    )


def planned(me, pods, *siblings):
    return [p.name for p in restart_for(me, SEEN, pods, [me, *siblings]).pending]


def restart(hash=SEEN.hash, version=SEEN.version, pending=(), selector=WEB):
    return Restart(hash=hash, version=version, selector=selector, pending=tuple(pending))


async def hash_of(data, **options):
    return await content_hash(ConfigMap(metadata=ObjectMeta(name="x"), data=data, **options))


async def test_metadata_and_order_do_not_change_a_hash():
    one = ConfigMap(metadata=ObjectMeta(name="x", labels={"a": "b"}), data={"a": "1", "b": "2"})
    assert await content_hash(one) == await hash_of({"b": "2", "a": "1"})


@given(st.dictionaries(keys, keys, max_size=3), st.dictionaries(keys, keys, max_size=3))
async def test_only_equal_data_has_equal_hashes(one, other):
    assert (await hash_of(one) == await hash_of(other)) == (one == other)


async def test_data_and_binary_data_are_one():
    assert await hash_of({}, binary_data={"a": b"1"}) == await hash_of({"a": "1"})
    assert await hash_of({}, binary_data={"a": b"\xff"}) != await hash_of({"a": "1"})


async def test_secrets_of_two_names_do_not_show_that_they_are_equal():
    def secret(name):
        return Secret(metadata=ObjectMeta(name=name, namespace="default"), data={"p": b"same"})

    assert await content_hash(secret("one")) != await content_hash(secret("two"))
    assert await content_hash(secret("one")) == await content_hash(secret("one"))


def test_running_pods_with_all_labels_are_restarted():
    pods = [pod("a"), pod("other", {"app": "api"}), pod("ended", phase="Succeeded"), pod("waits", phase="Pending")]
    assert planned(monitor("m"), pods) == ["a", "waits"]


def test_what_a_sibling_has_taken_up_for_this_change_is_its_own():
    """A Pod that it did not list is newer than the change."""
    assert planned(monitor("m"), [pod("replacement")], monitor("s", restart=restart())) == []


def test_what_a_sibling_still_has_to_restart_is_taken_too():
    """The sibling may be deleted before it gets there; the uid keeps it at one restart."""
    waiting = restart(pending=[PendingPod(name="a", uid="uid-a")])
    assert planned(monitor("m"), [pod("a"), pod("replacement")], monitor("s", restart=waiting)) == ["a"]


@pytest.mark.parametrize(
    "other",
    [
        restart(hash="sha256:older"),
        restart(version="10"),
        restart(selector={"app": "api"}),
        restart(version="not a number"),
        None,
    ],
)
def test_a_sibling_that_acted_upon_something_else_counts_for_nothing(other):
    assert planned(monitor("m"), [pod("a")], monitor("s", restart=other)) == ["a"]


def test_the_annotation_of_a_template_is_a_valid_key_for_every_name():
    name = template_annotation("ConfigMap/" + "long." * 50 + "name").rpartition("/")[2]
    assert len(name) <= 63
    assert name != template_annotation("ConfigMap/" + "long." * 50 + "nome").rpartition("/")[2]
    assert template_annotation("Secret/s") == "configmonitor.magalix.com/secret.s"


def test_the_operator_knows_itself(tmp_path):
    file = tmp_path / "namespace"
    file.write_text("system\n")
    cluster = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "configmonitor-abc"}
    assert itself({"POD_NAME": "p", "POD_NAMESPACE": "n"}, file) == Itself("p", "n")
    assert itself({"POD_NAME": "p", "res_namespace": "n"}, file) == Itself("p", "n")
    assert itself(cluster, file) == Itself("configmonitor-abc", "system")
    assert itself(cluster, tmp_path / "none") is None
    assert itself({"HOSTNAME": "laptop"}, file) is None
