"""Pods that report over HTTP on their network, and requests to them."""

from collections.abc import Callable
from typing import Any

from steersman.testing import EmbeddedCluster, eventually

PROGRAM = """
import http.server, json, os, socket, ssl, threading, urllib.parse, urllib.request

def answer_datagrams():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("", int(os.environ["UDP_PORT"])))
        while True:
            server.sendto(socket.gethostname().encode(), server.recvfrom(100)[1])

def datagram(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(2)
        client.sendto(b"name", (host, int(port)))
        return client.recvfrom(100)[0].decode()

if "UDP_PORT" in os.environ:
    threading.Thread(target=answer_datagrams, daemon=True).start()

def fetch(url):
    context = None
    if url.startswith("https"):
        account = "/var/run/secrets/kubernetes.io/serviceaccount"
        context = ssl.create_default_context(cafile=f"{account}/ca.crt")
    with urllib.request.urlopen(url, timeout=2, context=context) as answer:
        return json.load(answer)

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        verb, _, rest = urllib.parse.unquote(self.path[1:]).partition("/")
        said = {"host": socket.gethostname(), "client": self.client_address[0]}
        try:
            if verb == "lookup":
                said["found"] = sorted({a[4][0] for a in socket.getaddrinfo(rest, 80, socket.AF_INET)})
            elif verb == "name":
                said["found"] = socket.gethostbyaddr(rest)[0]
            elif verb == "fetch":
                said["found"] = fetch(rest.replace("|", "/"))
            elif verb == "datagram":
                said["found"] = datagram(*rest.split(":"))
            elif verb == "read":
                said["found"] = open("/" + rest).read()
        except OSError as problem:
            said["error"] = repr(problem)
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("", int(os.environ.get("PORT", "80"))), Handler).serve_forever()
"""


def container(**fields: Any) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1}
    return {"name": "web", "image": "web", "readinessProbe": probe, **fields}


def service(name: str, app: str, **spec: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "targetPort": 80}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": app}, "ports": ports, **spec},
    }


def stateful_set(name: str, replicas: int = 3) -> dict[str, Any]:
    labels = {"app": name}
    spec = {"containers": [container()], "terminationGracePeriodSeconds": 0}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def pod(name: str, **spec: Any) -> dict[str, Any]:
    body = {"containers": [container()], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": body}


def is_ready(obj: dict[str, Any]) -> bool:
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def address_of(obj: dict[str, Any]) -> str:
    return obj["status"].get("podIP") or ""


class Pods:
    """Requests to Pods of one test's namespace through the API server's proxy."""

    def __init__(self, cluster: EmbeddedCluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def path(self, plural: str, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/{plural}/{name}"

    def ask(self, name: str, path: str = "", port: int = 80) -> dict[str, Any]:
        return self.cluster.call("GET", f"{self.path('pods', f'{name}:{port}')}/proxy/{path}")

    def found(self, name: str, path: str) -> Any:
        answer = self.ask(name, path)
        assert "found" in answer, answer
        return answer["found"]

    def ready(self, *names: str) -> dict[str, str]:
        """Wait until Pods are ready; return their addresses."""
        for name in names:
            self.cluster.wait("pod", name, is_ready, namespace=self.namespace)
        return {n: self.cluster.call("GET", self.path("pods", n))["status"]["podIP"] for n in names}


def until(read: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    """Wait until a value is as expected; return it."""
    return eventually(read, within=30.0, until=holds)
