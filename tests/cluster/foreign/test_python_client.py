"""The official Python client: typed objects, patches, watches, dynamic access, exec, logs and port forwards."""

import contextlib
import gc
import time

import pytest
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client import ApiException
from kubernetes.stream import portforward, stream

# The client leaves it to the garbage collector to close its sockets.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
LABELS = {"app": "web"}


@pytest.fixture
def api(cluster):
    made = config.new_client_from_config(str(cluster.kubeconfig))
    yield made
    made.close()
    gc.collect()


def pod(name, image, *command):
    container = client.V1Container(name="c", image=image, args=list(command))
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels=LABELS),
        spec=client.V1PodSpec(containers=[container], termination_grace_period_seconds=1),
    )


def until(look, what, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return found


def running(core, namespace, name):
    def look():
        status = core.read_namespaced_pod_status(name, namespace).status
        return status.phase == "Running" and all(c.ready for c in status.container_statuses or ())

    until(look, f"{name} runs")


def test_objects_are_made_changed_listed_and_deleted(api, namespace):
    core = client.CoreV1Api(api)
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="cm", labels=LABELS), data={"a": "1"})
    made = core.create_namespaced_config_map(namespace, body)
    assert made.metadata.creation_timestamp.tzinfo is not None
    with pytest.raises(ApiException) as taken:
        core.create_namespaced_config_map(namespace, body)
    assert taken.value.status == 409
    assert core.patch_namespaced_config_map("cm", namespace, {"data": {"b": "2"}}).data == {"a": "1", "b": "2"}
    changed = core.patch_namespaced_config_map("cm", namespace, [{"op": "remove", "path": "/data/a"}])
    assert changed.data == {"b": "2"}
    made.data = {"stale": "yes"}
    with pytest.raises(ApiException) as stale:
        core.replace_namespaced_config_map("cm", namespace, made)
    assert stale.value.reason == "Conflict"
    assert [cm.metadata.name for cm in core.list_namespaced_config_map(namespace, label_selector="app=web").items] == [
        "cm"
    ]
    core.delete_collection_namespaced_config_map(namespace, label_selector="app=web")
    with pytest.raises(ApiException) as gone:
        core.read_namespaced_config_map("cm", namespace)
    assert gone.value.status == 404


def test_lists_come_in_pages(api, namespace):
    core = client.CoreV1Api(api)
    for number in range(5):
        core.create_namespaced_secret(namespace, {"metadata": {"name": f"s{number}"}, "stringData": {"k": "v"}})
    names, token = [], None
    while token != "":
        page = core.list_namespaced_secret(namespace, limit=2, _continue=token)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue or ""
    assert names == [f"s{number}" for number in range(5)]


def test_a_watch_tells_what_happens(api, namespace):
    core = client.CoreV1Api(api)
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "one"}})
    version = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "two"}})
    core.delete_namespaced_config_map("one", namespace)
    watching = watch.Watch()
    seen = []
    for event in watching.stream(
        core.list_namespaced_config_map, namespace, resource_version=version, timeout_seconds=10
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 2:
            watching.stop()
    assert seen == [("ADDED", "two"), ("DELETED", "one")]


@pytest.mark.slow
def test_a_deployment_rolls_out_and_scales(api, namespace):
    apps = client.AppsV1Api(api)
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=LABELS),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="busybox", args=["-c", "sleep 3600"])]),
    )
    spec = client.V1DeploymentSpec(replicas=1, selector=client.V1LabelSelector(match_labels=LABELS), template=template)
    apps.create_namespaced_deployment(
        namespace, client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    )
    apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 2}})
    until(lambda: apps.read_namespaced_deployment_status("web", namespace).status.ready_replicas == 2, "two are ready")
    assert apps.read_namespaced_deployment_scale("web", namespace).status.replicas == 2
    apps.delete_namespaced_deployment("web", namespace, propagation_policy="Foreground")
    core = client.CoreV1Api(api)
    # A process that misses its SIGTERM has a grace period of 30 s.
    until(lambda: not core.list_namespaced_pod(namespace).items, "its Pods are gone", seconds=60.0)


def test_custom_resources_through_the_dynamic_client(api, namespace):
    group = f"{namespace}.example.com"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    utils.create_from_dict(api, definition)

    def find():
        try:
            return dynamic.DynamicClient(api).resources.get(api_version=f"{group}/v1", kind="Thing")
        except dynamic.exceptions.ResourceNotFoundError:
            return None

    things = until(find, "the kind is served")
    body = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "one"}, "spec": {"size": 1}}
    things.create(body=body, namespace=namespace)
    applied = things.server_side_apply(
        body={**body, "spec": {"size": 2}}, namespace=namespace, field_manager="me", force_conflicts=True
    )
    assert applied.spec.size == 2
    assert [item.metadata.name for item in things.get(namespace=namespace).items] == ["one"]
    client.ApiextensionsV1Api(api).delete_custom_resource_definition(f"things.{group}")


def test_exec_logs_and_files_of_a_running_pod(api, namespace):
    core = client.CoreV1Api(api)
    core.create_namespaced_pod(namespace, pod("shell", "busybox", "-c", "echo up; sleep 3600"))
    running(core, namespace, "shell")
    until(lambda: core.read_namespaced_pod_log("shell", namespace) == "up\n", "it has logged")
    attach = core.connect_get_namespaced_pod_exec
    options = {"stderr": True, "stdin": False, "stdout": True, "tty": False}
    said = stream(attach, "shell", namespace, command=["sh", "-c", "echo out; echo err >&2"], **options)
    assert sorted(said.split()) == ["err", "out"]
    session = stream(attach, "shell", namespace, command=["sh", "-c", "exit 3"], _preload_content=False, **options)
    session.run_forever(timeout=10)
    assert session.returncode == 3
    talk = stream(attach, "shell", namespace, command=["sh"], _preload_content=False, **{**options, "stdin": True})
    talk.write_stdin("echo hello | tr a-z A-Z\n")
    assert talk.readline_stdout(timeout=10) == "HELLO"
    talk.write_stdin("exit\n")
    talk.close()
    core.delete_namespaced_pod("shell", namespace, grace_period_seconds=0)


def test_a_port_is_forwarded(api, namespace):
    core = client.CoreV1Api(api)
    core.create_namespaced_pod(namespace, pod("web", "web", "8123", "--bind", "0.0.0.0"))
    running(core, namespace, "web")

    def answered():
        """Return the response, or nothing while the server does not listen yet."""
        forward = portforward(core.connect_get_namespaced_pod_portforward, "web", namespace, ports="8123")
        connection = forward.socket(8123)
        connection.setblocking(True)
        with contextlib.closing(connection), contextlib.suppress(OSError):
            connection.sendall(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")
            answer = b""
            while piece := connection.recv(4096):
                answer += piece
            if answer.startswith(b"HTTP/1.0 200 OK"):
                return forward
        return None

    forward = until(answered, "it answers")
    assert forward.error(8123) is None
    core.delete_namespaced_pod("web", namespace, grace_period_seconds=0)
