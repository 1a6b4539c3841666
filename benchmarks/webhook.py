"""A mutating Pod webhook beside controller-runtime's: `python -m benchmarks.webhook [ROW...] --runs N --report`.

Both get the same reviews over the same TLS connections from one driver on another core; both add a label and a
container and answer with a JSON patch, and every answer is checked. Runs are interleaved; CPU is each process's own.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import ssl
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import aside
from benchmarks.embedded_load import Ask, Connection, connections
from benchmarks.embedded_servers import Server
from benchmarks.harness import HERE, Bench, BenchmarkError, Peer, build
from benchmarks.rows import OURS, PLAIN, THEIRS, Bar, Numbers, Row, Size
from steersman.pki import Authority

_IN_FLIGHT = 16
_PATH = "/mutate--v1-pod?timeout=10s"
_PEERS = (OURS, PLAIN, THEIRS)
AIOHTTP = "aiohttp"
"""Our route on aiohttp's server and uvloop: not in the report, measured for decision 0006."""


def pod(containers: int, extra: int = 0) -> dict[str, Any]:
    """A Pod as the API server sends it: defaults filled in, with managed fields."""
    made = [
        {
            "name": f"app-{n}",
            "image": "registry.example/app:1",
            "ports": [{"containerPort": 8080 + n, "protocol": "TCP"}],
            "env": [{"name": f"VARIABLE_{i}", "value": f"value-{i}"} for i in range(5)],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
            "readinessProbe": {
                "httpGet": {"path": "/readyz", "port": 8080, "scheme": "HTTP"},
                "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
            },
            "volumeMounts": [{"name": "config", "mountPath": "/etc/app", "readOnly": True}],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }
        for n in range(containers)
    ]  # fmt: skip
    fields = {
        "f:spec": {"f:containers": {f'k:{{"name":"app-{n}"}}': {".": {}, "f:image": {}} for n in range(containers)}}
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "creationTimestamp": None,
            "labels": {"app": "web", "tier": "front"},
            "annotations": {f"example.com/note-{n}": "x" * 1000 for n in range(extra)},
            "managedFields": [{"manager": "bench", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}],
        },
        "spec": {
            "volumes": [{"name": "config", "configMap": {"name": "app", "defaultMode": 420}}],
            "containers": made,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{why}",
                    "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
                }
                for why in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {},
    }  # fmt: skip


def review(obj: Mapping[str, Any], uid: str) -> bytes:
    """Return the review that the API server sends for a create."""
    kind, resource = {"group": "", "version": "v1", "kind": "Pod"}, {"group": "", "version": "v1", "resource": "pods"}
    request = {
        "uid": uid,
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": "web",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {
            "username": "system:serviceaccount:kube-system:replicaset-controller",
            "uid": str(uuid.UUID(int=1)),
            "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
        },
        "object": obj,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}).encode()


def check(answer: bytes, uid: str) -> None:
    """Raise BenchmarkError unless the answer lets the Pod pass with the label and one container more."""
    response = json.loads(answer)["response"]
    if response["uid"] != uid or response["allowed"] is not True:
        raise BenchmarkError(f"answered {answer[:500]!r}")
    patch = json.loads(base64.b64decode(response["patch"]))
    paths = sorted(operation["path"] for operation in patch)
    if len(paths) != 2 or not paths[0].endswith("injected") or not paths[1].startswith("/spec/containers/"):
        raise BenchmarkError(f"not the patch that was to be made: {patch}")


def _load(containers: int, in_flight: int) -> aside.Measure:
    @aside.told
    def measure(_bench: Bench, peer: str, size: Size, _seed: int) -> Numbers:
        with _running(peer) as (process, server):
            return asyncio.run(_measure(process, server, size, containers, in_flight))

    return measure


async def _measure(process: Peer, server: Server, size: Size, containers: int, in_flight: int) -> Numbers:
    uid = str(uuid.UUID(int=7))
    ask = Ask("POST", _PATH, review(pod(containers), uid))
    async with connections(server, in_flight) as made:
        await _all(made, ask, size.events // 5, uid)
        before = process.ask("mark")
        began = time.perf_counter()
        taken = await _all(made, ask, size.events, uid)
        wall = time.perf_counter() - began
        after = process.ask("mark")
    taken.sort()
    return {
        "cpu_us": (after["cpu"] - before["cpu"]) / size.events * 1e6,
        "latency_p50_ms": taken[len(taken) // 2] * 1e3,
        "latency_p99_ms": taken[int(len(taken) * 0.99)] * 1e3,
        "per_s": size.events / wall,
        "rss_mb": after["rss"] / 1e6,
    }


async def _all(made: list[Connection], ask: Ask, count: int, uid: str) -> list[float]:
    """Seconds of each of `count` requests, one at a time on each connection."""
    left, taken = iter(range(count)), list[float]()

    async def work(connection: Connection) -> None:
        for number in left:
            started = time.perf_counter()
            body = await connection.ask(ask)
            taken.append(time.perf_counter() - started)
            if number % 100 == 0:
                check(body, uid)
            elif b'"allowed":true' not in body or b'"patch":' not in body:
                raise BenchmarkError(f"answered {body[:500]!r}")

    async with asyncio.TaskGroup() as group:
        for connection in made:
            group.create_task(work(connection))
    return taken


@contextlib.contextmanager
def _running(peer: str) -> Iterator[tuple[Peer, Server]]:
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as directory:
        authority = Authority.create("bench")
        pair = authority.serving("127.0.0.1", ["127.0.0.1"])
        (Path(directory) / "tls.crt").write_bytes(pair.cert_pem)
        (Path(directory) / "tls.key").write_bytes(pair.key_pem)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        process = Peer(peer, _command(peer, directory, port))
        try:
            process.wait("ready", 30)
            tls = ssl.create_default_context(cadata=authority.cert_pem.decode())
            yield process, Server("127.0.0.1", port, tls, (process.pid,), process)
        finally:
            process.close()


def _command(peer: str, directory: str, port: int) -> list[str]:
    if peer == THEIRS:
        binary = build("peers/go", "go-webhook", "./cmd/webhook")
        return [str(binary), "-cert-dir", directory, "-port", str(port)]
    variant = {PLAIN: ["--asyncio"], AIOHTTP: ["--aiohttp"]}.get(peer, [])
    options = ["--cert-dir", directory, "--port", str(port), *variant]
    return [sys.executable, "-m", "benchmarks.peers.webhook_peer", *options]


_BARS = (Bar("cpu_us", 1.0), Bar("latency_p99_ms", 1.5))

ROWS = (
    Row(
        "small", "A Pod of one container, 16 in flight", _load(1, _IN_FLIGHT), Size(events=20_000), Size(events=500),
        _PEERS, _BARS,
    ),
    Row(
        "large", "A Pod of ten containers, 16 in flight", _load(10, _IN_FLIGHT), Size(events=10_000), Size(events=500),
        _PEERS, _BARS,
    ),
    Row(
        "alone", "A Pod of one container, one at a time", _load(1, 1), Size(events=5_000), Size(events=500),
        _PEERS, _BARS,
    ),
)  # fmt: skip


STUDY = aside.Study("webhook", (__doc__ or "").splitlines()[0], ROWS, page=HERE / "webhook.md")

if __name__ == "__main__":
    sys.exit(aside.main(STUDY))
