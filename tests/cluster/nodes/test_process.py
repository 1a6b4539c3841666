"""Process nodes end to end: real programs under a real API server, in every mode that works here."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from steersman.testing import EmbeddedCluster, eventually
from steersman_cluster import nodes
from steersman_cluster.errors import APIError
from steersman_cluster.kubelet import STDOUT, LogOptions
from steersman_cluster.nodes.process.cleanup import marked
from steersman_cluster.nodes.process.sandbox import detect

from .conftest import Api

HOST = "steersman.dev/host"
MODES = [
    pytest.param("bubblewrap", marks=pytest.mark.skipif(not shutil.which("bwrap"), reason="no bubblewrap")),
    pytest.param("namespaces", marks=pytest.mark.skipif(detect() == "plain", reason="no namespaces")),
    "plain",
]

PYTHON = sys.executable


@pytest.fixture(params=MODES)
async def node(api: Api, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[nodes.Nodes]:
    images = tmp_path / "images.yaml"
    server = tmp_path / "site"
    server.mkdir()
    (server / "index.html").write_text("hello from the image\n")
    images.write_text(
        f"images:\n  web:\n    command: [{PYTHON}, -m, http.server]\n    workingDir: ./site\n    args: ['8080']\n"
    )
    name = f"{api.namespace}-node"
    handles = await nodes.start(
        api.client, "process", names=(name,), images=images, data=tmp_path / "data", mode=request.param
    )
    handles.name = name  # type: ignore[attr-defined]
    yield handles
    mark = handles.agent.runtime.mark  # type: ignore[attr-defined]
    await handles.close()
    assert marked(mark) == []
    await api.client.raw.request("DELETE", f"/api/v1/nodes/{name}")


async def until(read: Callable[[], Awaitable[Any]], holds: Callable[[Any], Any], seconds: float = 120.0) -> Any:
    found: Any = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = await read()
                if holds(found):
                    return found
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"it did not come about: {found}") from None


async def pod_until(api: Api, name: str, holds: Callable[[Any], Any]) -> Any:
    return await until(lambda: api.get("pods", name), lambda pod: pod is not None and holds(pod["status"]))


def ready(status: Any) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ()))


def waits(reason: str) -> Callable[[Any], bool]:
    return lambda s: any(
        c["state"].get("waiting", {}).get("reason") == reason for c in s.get("containerStatuses") or ()
    )


async def log_of(node: Any, api: Api, pod: str, **options: Any) -> str:
    kubelet = node.kubelets[node.name]
    return b"".join([c async for c in kubelet.logs(api.namespace, pod, "", LogOptions(**options))]).decode()


async def run(node: Any, api: Api, pod: str, *command: str, tty: bool = False, stdin: bytes = b"") -> tuple[int, str]:
    session = await node.kubelets[node.name].exec(api.namespace, pod, "", command, stdin=bool(stdin), tty=tty)
    if stdin:
        await session.write(stdin)
        await session.close_stdin()
    output = b"".join([data async for _, data in session])
    code = await session.wait()
    await session.close()
    return code, output.decode()


async def test_a_program_runs_to_its_end_with_its_environment(node: Any, api: Api) -> None:
    await api.create("configmaps", "settings", data={"COLOUR": "green", "SIZE": "9"})
    await api.create("secrets", "key", stringData={"TOKEN": "s3cret"})
    env = [
        {"name": "A", "value": "one"},
        {"name": "B", "value": "$(A)-two-$(NOPE)-$$(A)"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "key", "key": "TOKEN"}}},
        {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        {"name": "MAYBE", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "x", "optional": True}}},
    ]
    container = {
        "name": "c",
        "image": HOST,
        "command": ["sh", "-c", 'echo "$B|$TOKEN|$ME|$IP|$CPU|$COLOUR|$0|${MAYBE-unset}"', "$(A)"],
        "env": env,
        "envFrom": [{"configMapRef": {"name": "settings"}}],
        "resources": {"limits": {"cpu": "250m"}},
    }
    await api.pod("env", node.name, container, restartPolicy="Never")
    pod = await pod_until(api, "env", lambda s: s["phase"] == "Succeeded")
    expected = f"one-two-$(NOPE)-$(A)|s3cret|env|{pod['status']['podIP']}|250|green|one|unset\n"
    assert await log_of(node, api, "env") == expected


@pytest.mark.slow
async def test_a_server_is_probed_reached_and_stopped(node: Any, api: Api) -> None:
    ip = "$(POD)"
    container = {
        "name": "web",
        "image": "web:1.2",
        "args": ["8080", "--bind", ip],
        "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "ports": [{"name": "http", "containerPort": 8080}],
        "startupProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 1, "failureThreshold": 30},
        "readinessProbe": {"httpGet": {"port": "http", "path": "/index.html"}, "periodSeconds": 1},
        "livenessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1},
    }
    await api.pod("web", node.name, container)
    await pod_until(api, "web", ready)
    reader, writer = await node.kubelets[node.name].connect(api.namespace, "web", 8080)
    writer.write(b"GET /index.html HTTP/1.0\r\n\r\n")
    assert b"hello from the image" in await reader.read()
    writer.close()
    await api.send("DELETE", api.path("pods", "web"))
    await until(lambda: api.get("pods", "web"), lambda pod: pod is None)


async def test_a_failing_container_backs_off_and_shows_its_previous_log(node: Any, api: Api) -> None:
    container = {
        "name": "c",
        "image": HOST,
        "command": ["sh", "-c", "echo out; echo why > ${STEERSMAN_ROOT}/dev/termination-log; exit 3"],
    }
    await api.pod("crash", node.name, container)
    pod = await pod_until(api, "crash", waits("CrashLoopBackOff"))
    status = pod["status"]["containerStatuses"][0]
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert status["lastState"]["terminated"]["message"] == "why\n"
    assert pod["status"]["phase"] == "Running"
    assert await log_of(node, api, "crash") == "out\n"
    assert await log_of(node, api, "crash", previous=True) == "out\n"


@pytest.mark.slow
async def test_what_is_missing_is_named(node: Any, api: Api) -> None:
    await api.pod("image", node.name, {"name": "c", "image": "nowhere/app:1"})
    pod = await pod_until(api, "image", waits("ImagePullBackOff"))
    assert "images.yaml" in pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    reference = {"configMapKeyRef": {"name": "late", "key": "x"}}
    await api.pod(
        "key",
        node.name,
        {"name": "c", "image": HOST, "command": ["true"], "env": [{"name": "X", "valueFrom": reference}]},
    )
    pod = await pod_until(api, "key", waits("CreateContainerConfigError"))
    assert pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"] == 'configmap "late" not found'
    await api.pod("command", node.name, {"name": "c", "image": HOST, "command": ["no-such-program"]})
    pod = await pod_until(api, "command", lambda s: (s.get("containerStatuses") or [{}])[0].get("restartCount"))
    assert "executable file not found in $PATH" in str(pod["status"]["containerStatuses"][0])


async def test_volumes_are_files_and_follow_their_sources(node: Any, api: Api) -> None:
    await api.create("configmaps", "cfg", data={"a.txt": "one", "b.txt": "bee"})
    await api.create("secrets", "sec", stringData={"password": "hush"})
    volumes = [
        {"name": "cfg", "configMap": {"name": "cfg"}},
        {"name": "sec", "secret": {"secretName": "sec", "defaultMode": 0o400}},
        {"name": "work", "emptyDir": {}},
        {"name": "info", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]
    mounts = [
        {"name": "cfg", "mountPath": "/etc/app/cfg"},
        {"name": "cfg", "mountPath": "/srv/only-b", "subPath": "b.txt"},
        {"name": "sec", "mountPath": "/var/run/sec"},
        {"name": "work", "mountPath": "/work-dir"},
        {"name": "info", "mountPath": "/info"},
    ]
    script = "R=$STEERSMAN_ROOT; echo shared > $R/work-dir/f; exec sleep 1000"
    container = {"name": "c", "image": HOST, "command": ["sh", "-c", script], "volumeMounts": mounts}
    await api.pod("vol", node.name, container, volumes=volumes)
    await pod_until(api, "vol", ready)

    async def cat(path: str) -> str:
        return (await run(node, api, "vol", "sh", "-c", f"cat $STEERSMAN_ROOT{path}"))[1]

    await until(lambda: cat("/work-dir/f"), lambda text: text == "shared\n")  # a container that has started is ready
    assert await cat("/etc/app/cfg/a.txt") == "one"
    assert await cat("/srv/only-b") == "bee"
    assert await cat("/var/run/sec/password") == "hush"
    assert await cat("/info/labels") == 'app="vol"'
    namespace = await cat("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
    assert namespace == api.namespace
    assert (await cat("/run/secrets/kubernetes.io/serviceaccount/token")).count(".") == 2 or node[
        node.name
    ].mode == "plain"
    await api.merge("configmaps", "cfg", {"data": {"a.txt": "two"}})
    await until(lambda: cat("/etc/app/cfg/a.txt"), lambda text: text == "two")
    assert not [path for path in ("/etc/app", "/work-dir") if os.path.lexists(path)]  # noqa: ASYNC240


async def test_commands_run_inside_with_and_without_a_terminal(node: Any, api: Api) -> None:
    container = {"name": "c", "image": HOST, "command": ["sleep", "1000"], "env": [{"name": "X", "value": "y"}]}
    await api.pod("ex", node.name, container)
    await pod_until(api, "ex", ready)
    assert await run(node, api, "ex", "sh", "-c", "echo $X; exit 7") == (7, "y\n")
    assert await run(node, api, "ex", "cat", stdin=b"through") == (0, "through")
    code, output = await run(node, api, "ex", "sh", "-c", "test -t 0 && stty size && echo terminal", tty=True)
    assert (code, "terminal" in output) == (0, True)
    with pytest.raises(APIError, match="not found"):
        await run(node, api, "none", "true")


@pytest.mark.slow
async def test_stopping_asks_first_and_insists_after_the_grace_period(node: Any, api: Api) -> None:
    polite = 'trap "echo bye; exit 0" TERM; echo up; while :; do sleep 0.05; done'
    stubborn = 'trap "" TERM; echo up; while :; do sleep 0.05; done'
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo stopping > ${STEERSMAN_ROOT}/shared/hook"]}}}
    shared = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    where = api.cluster.directory / f"{api.namespace}-shared"
    where.mkdir()
    await api.pod(
        "stop",
        node.name,
        {"name": "polite", "image": HOST, "command": ["sh", "-c", polite], "lifecycle": hook, **shared},
        {"name": "stubborn", "image": HOST, "command": ["sh", "-c", stubborn]},
        volumes=[{"name": "shared", "hostPath": {"path": str(where)}}],
    )
    await pod_until(api, "stop", ready)
    kubelet = node.kubelets[node.name]

    def said(container: str, *, follow: bool = False) -> Coroutine[Any, Any, str]:
        return _read(kubelet.logs(api.namespace, "stop", container, LogOptions(follow=follow)))

    for container in ("polite", "stubborn"):  # a process that has only just begun knows no signal yet
        await until(partial(said, container), lambda text: text == "up\n")
    following = asyncio.create_task(said("polite", follow=True))
    started = asyncio.get_running_loop().time()
    await api.send("DELETE", api.path("pods", "stop"))
    await until(lambda: api.get("pods", "stop"), lambda pod: pod is None)
    assert 1.5 < asyncio.get_running_loop().time() - started < 8
    assert await following == "up\nbye\n"
    assert (where / "hook").read_text() == "stopping\n"


async def _read(chunks: AsyncIterator[bytes]) -> str:
    return b"".join([chunk async for chunk in chunks]).decode()


async def test_init_containers_and_sidecars_come_first_and_share_a_volume(node: Any, api: Api) -> None:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    say = "echo {} >> $STEERSMAN_ROOT/v/order"
    inits = [
        {"name": "i1", "image": HOST, "command": ["sh", "-c", say.format("i1")], **mount},
        {
            "name": "side",
            "image": HOST,
            "restartPolicy": "Always",
            "command": ["sh", "-c", say.format("side") + "; exec sleep 1000"],
            "startupProbe": {
                "exec": {"command": ["sh", "-c", "grep -q side $STEERSMAN_ROOT/v/order"]},
                "periodSeconds": 1,
            },
            **mount,
        },
    ]
    main = {
        "name": "main",
        "image": HOST,
        "command": ["sh", "-c", say.format("main") + "; cat $STEERSMAN_ROOT/v/order"],
    }
    await api.pod(
        "init",
        node.name,
        {**main, **mount},
        initContainers=inits,
        volumes=[{"name": "v", "emptyDir": {}}],
        restartPolicy="Never",
    )
    pod = await pod_until(api, "init", lambda s: s["phase"] == "Succeeded")
    assert (await log_of(node, api, "init")).split() == ["i1", "side", "main"]
    assert pod["status"]["initContainerStatuses"][1]["restartCount"] == 0


async def test_a_failed_liveness_probe_restarts_the_container(node: Any, api: Api) -> None:
    container = {
        "name": "c",
        "image": HOST,
        "command": ["sleep", "1000"],
        "livenessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1},
    }
    await api.pod("live", node.name, container, terminationGracePeriodSeconds=1)
    await pod_until(api, "live", lambda s: (s.get("containerStatuses") or [{}])[0].get("restartCount"))
    found = f"{api.path('events')}?fieldSelector=involvedObject.name=live"
    said = "Container c failed liveness probe, will be restarted"
    await until(lambda: api.send("GET", found), lambda events: said in {e["message"] for e in events["items"]})


async def test_a_probe_that_is_still_running_ends_with_its_node(node: Any, api: Api) -> None:
    probe = {"exec": {"command": ["sleep", "777"]}, "timeoutSeconds": 600}
    container = {"name": "c", "image": HOST, "command": ["sleep", "1000"], "livenessProbe": probe}
    await api.pod("slow", node.name, container)
    mark = node.agent.runtime.mark

    async def commands() -> list[bytes]:
        return [line for pid in marked(mark) for line in command_line(pid)]

    await until(commands, lambda lines: b"777" in lines)  # the fixture says that nothing is left


async def test_a_command_that_nobody_waits_for_ends_with_its_node(node: Any, api: Api) -> None:
    await api.pod("idle", node.name, {"name": "c", "image": HOST, "command": ["sleep", "1000"]})
    await pod_until(api, "idle", ready)
    await node.kubelets[node.name].exec(api.namespace, "idle", "", ["sleep", "777"], stdin=False, tty=False)


def command_line(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


async def test_output_goes_to_the_log_line_by_line(node: Any, api: Api) -> None:
    script = "for i in 1 2 3 4 5; do echo line $i; done; echo oops >&2; exec sleep 1000"
    await api.pod("log", node.name, {"name": "c", "image": HOST, "command": ["sh", "-c", script]})
    await pod_until(api, "log", ready)
    await until(lambda: log_of(node, api, "log"), lambda text: "oops" in text and "line 5" in text)
    assert await log_of(node, api, "log", tail_lines=2, stream="Stdout") == "line 4\nline 5\n"
    assert await log_of(node, api, "log", stream="Stderr") == "oops\n"
    assert await log_of(node, api, "log", limit_bytes=4) in ("line", "oops")
    stamped = await log_of(node, api, "log", timestamps=True, stream="Stderr")
    assert stamped.endswith("Z oops\n")
    assert await log_of(node, api, "log", since_seconds=0) == ""


async def test_attached_readers_see_output_from_then_on(node: Any, api: Api) -> None:
    container = {"name": "c", "image": HOST, "command": ["cat"], "stdin": True}
    await api.pod("att", node.name, container)
    await pod_until(api, "att", ready)
    session = await node.kubelets[node.name].attach(api.namespace, "att", "", stdin=True, tty=False)
    await session.write(b"hi\n")
    async for stream, data in session:
        assert (stream, data) == (STDOUT, b"hi\n")
        break
    await session.close()


async def test_the_first_who_attaches_ends_the_input_that_is_fed_once(node: Any, api: Api) -> None:
    command = ["sh", "-c", "cat; echo done"]
    await api.pod("once", node.name, {"name": "c", "image": HOST, "command": command, "stdin": True, "stdinOnce": True})
    await pod_until(api, "once", ready)
    session = await node.kubelets[node.name].attach(api.namespace, "once", "", stdin=True, tty=False)
    await session.write(b"hi\n")
    await session.close_stdin()
    assert b"".join([data async for _, data in session]) == b"hi\ndone\n"
    assert await session.wait() == 0
    await session.close()


def test_this_machine_is_asked_what_works() -> None:
    assert detect() in ("bubblewrap", "namespaces", "plain")
    assert os.environ.get("STEERSMAN_NODE") is None


CRASHING = """
import asyncio, sys
from pathlib import Path
from steersman.client import Client
from steersman.client.config import load_config
from steersman_cluster import nodes

async def main(kubeconfig, name, data, mode):
    async with Client(load_config(kubeconfig)) as client:
        handles = await nodes.start(client, "process", names=(name,), data=Path(data), mode=mode)
        print(handles.agent.runtime.mark, flush=True)
        await asyncio.sleep(1000)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
async def test_nothing_outlives_a_node_that_is_killed(api: Api, tmp_path: Path, mode: str) -> None:
    name = f"{api.namespace}-crash"
    node = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CRASHING, str(api.cluster.kubeconfig), name, str(tmp_path), mode),
        stdout=asyncio.subprocess.PIPE,
    )
    assert node.stdout is not None
    mark = (await node.stdout.readline()).decode().strip()
    script = "sleep 1001 & (setsid sleep 1002 &) ; exec sleep 1003"
    await api.pod("stay", name, {"name": "c", "image": HOST, "command": ["sh", "-c", script]})
    await pod_until(api, "stay", ready)

    async def left() -> list[int]:
        return marked(mark)

    await until(left, lambda pids: len(pids) >= 3)
    node.kill()
    await node.wait()
    await until(left, lambda pids: not pids)
    await api.send("DELETE", api.path("pods", "stay") + "?gracePeriodSeconds=0")


@pytest.mark.slow
def test_pods_of_two_clusters_of_one_process_have_addresses_of_their_own() -> None:
    """They share the machine's loopback network, and the ports on it."""
    container = {"name": "c", "image": HOST, "command": ["sleep", "60"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    addresses: list[str] = []
    start = partial(EmbeddedCluster.start, node_kind="process", network="loopback")
    with start() as one, start() as other:
        for cluster in (one, other):
            with cluster.test("default"):
                cluster.apply(pod)
                cluster.wait("pod", "p", lambda made: made.get("status", {}).get("podIP"))
                addresses.append(cluster.get("pod", "p")["status"]["podIP"])
    assert len(set(addresses)) == 2, addresses


@pytest.mark.slow
def test_the_directory_of_a_claim_is_deleted_with_the_claim_and_with_the_cluster() -> None:
    with EmbeddedCluster.start(node_kind="process", network="loopback") as cluster, cluster.test("default"):
        for name in ("deleted", "left"):
            claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
            cluster.apply(
                {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": claim}
            )
            container = {
                "name": "c",
                "image": HOST,
                "command": ["sh", "-c", 'cd "$STEERSMAN_ROOT/data" && echo kept > file && exec sleep 60'],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
            volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
            spec = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 0}
            cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        directories = {}
        for name in ("deleted", "left"):
            bound = cluster.wait("persistentvolumeclaim", name, lambda c: c.get("status", {}).get("phase") == "Bound")
            volume = cluster.get("persistentvolume", bound["spec"]["volumeName"])
            directories[name] = Path(volume["spec"]["hostPath"]["path"])
            cluster.wait("pod", name, lambda p: p.get("status", {}).get("phase") == "Running")
            eventually((directories[name] / "file").exists, within=60)
        cluster.delete("pod", "deleted")
        cluster.delete("persistentvolumeclaim", "deleted")
        cluster.wait("persistentvolume", directories["deleted"].name, "deleted", within=60)
        assert not directories["deleted"].exists()
        assert (directories["left"] / "file").read_text() == "kept\n"
    assert not directories["left"].parent.parent.exists()
