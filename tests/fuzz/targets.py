"""The parsers that read bytes from outside, each with seeds and the words of its language."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from .engine import Run, Target

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default", "labels": {"app": "a"}},
    "spec": {
        "containers": [
            {"name": "c", "image": "i", "env": [{"name": "k", "value": "v"}], "ports": [{"containerPort": 80}]}
        ],
        "tolerations": [{"key": "k", "operator": "Exists"}],
    },
}
JSON_TOKENS = (
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"9" * 400,
    b'"\\ud800"',
    b'"a":',
    b"{}",
    b'"metadata":',
    b'"name":',
    b'"$patch":"replace"',
    b'"$setElementOrder/containers":[',
    b'"$retainKeys":[',
    b"\xff",
)
YAML_TOKENS = (
    b"&a ",
    b"*a",
    b"<<: ",
    b"- ",
    b"? ",
    b": ",
    b"\n",
    b"  ",
    b"---\n",
    b"...\n",
    b"!!binary ",
    b"!!int ",
    b"!!float ",
    b"| ",
    b">-\n",
    b"'",
    b'"',
    b"[*a,*a,*a]",
    b"{",
    b"}",
    b"[",
    b"]",
    b"0x",
    b"1_0",
    b".inf",
    b"\\ud800",
    b"%YAML 1.1\n",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"#",
    b"a: ",
    b"=",
    b"~",
    b"<<: *a\n",
    b"9" * 400,
)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


# The API server, without sockets.


def _serving(make: Callable[[bytes], dict[str, Any]]) -> Callable[[], Run]:
    """A target that sends requests to an API server in the same process; a 500 is a failure."""

    def prepare() -> Run:
        from steersman_cluster.api.requests.messages import Params, Request
        from tests.cluster.api.direct import ADMIN, Direct, Headers

        runner = asyncio.Runner()
        direct = Direct()
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        for path, obj in (("/api/v1/namespaces/default/serviceaccounts", account), (PODS, POD)):
            made = runner.run(direct.ask("POST", path, obj))
            assert made.status == 201, made.body

        def run(data: bytes) -> str:
            asked = make(data)
            headers = Headers({"content-type": "application/json", "user-agent": "fuzz/1", **asked.get("headers", {})})
            query = Params(list(asked.get("query", {}).items()))
            user = None if "authorization" in headers else ADMIN
            request = Request(asked["method"], asked["path"], query, headers, asked.get("body", b""), user)
            answer = runner.run(direct.api.handle(request))
            if answer.status >= 500:
                raise AssertionError(f"{answer.status}: {answer.body[:500]!r}")
            return _shape(answer.status, answer.body)

        return run

    return prepare


def _shape(status: int, body: bytes) -> str:
    """The status and the first words of the message: what tells one answer from another."""
    if status < 400:
        return str(status)
    words = json.loads(body).get("message", "").split()
    return f"{status} " + " ".join("".join(c for c in word if c.isalpha()) for word in words[:12])[:100]


PODS = "/api/v1/namespaces/default/pods"


def _writing(method: str, path: str, kind: str, **query: str) -> Callable[[], Run]:
    def make(data: bytes) -> dict[str, Any]:
        return {
            "method": method,
            "path": path,
            "headers": {"content-type": kind},
            "body": data,
            "query": {"dryRun": "All", **query},
        }

    return _serving(make)


def _selecting(data: bytes) -> dict[str, Any]:
    text = data.decode("utf-8", "replace")
    kind, _, selector = text.partition(":")
    return {"method": "GET", "path": PODS, "query": {"fieldSelector" if kind == "f" else "labelSelector": selector}}


def _identified(data: bytes) -> dict[str, Any]:
    """Without a dot, the input is a part of a token that is encoded; with one, the token itself."""
    if b"\n" in data:
        parts = data.split(b"\n")
        token = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    else:
        token = data
    return {"method": "GET", "path": PODS, "headers": {"authorization": "Bearer " + token.decode("latin-1")}}


# Parsers by themselves.


def _expressions() -> Run:
    from steersman_cluster.cel import ANY, CelError, CompileError, program

    compiled = program._cached

    def run(data: bytes) -> str:
        compiled.cache_clear()
        try:
            value = program.compile(data.decode("utf-8", "replace")[:10_000], {"self": ANY}).evaluate({"self": POD})
        except (CompileError, CelError) as error:
            return " ".join(str(error).split()[:12])[:100]
        return type(value).__name__

    return run


def _kubeconfigs() -> Run:
    from steersman.client.config.errors import ConfigError
    from steersman.client.config.load import load_config

    file = Path(tempfile.mkdtemp()) / "config"

    def run(data: bytes) -> str:
        file.write_bytes(data)
        try:
            return type(load_config(file, env={}, home=file.parent).auth).__name__
        except ConfigError as error:
            return " ".join(str(error).split()[:12])[:100]

    return run


def _protobuf() -> Run:
    from steersman_cluster.protobuf import NotProtobufError, decode

    def run(data: bytes) -> str:
        try:
            return str(decode(data).get("kind"))[:50]
        except NotProtobufError as error:
            return str(error)[:60]

    return run


def _sessions() -> Run:
    from steersman_cluster.spdy import Session, SpdyError

    def run(data: bytes) -> str:
        session = Session()
        try:
            for start in range(0, len(data), 1500):
                events = session.feed(data[start : start + 1500])
                session.pending()
        except SpdyError as error:
            return str(error)[:60]
        return " ".join(type(event).__name__ for event in events[:4]) if data else ""

    return run


class _Line:
    """Stands for the socket of a connection."""

    def __init__(self) -> None:
        self.open = True

    def write(self, data: bytes) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def abort(self) -> None:
        self.open = False

    close = abort

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class _Pool:
    def __init__(self) -> None:
        from steersman.client.transport.connection import receive_buffer

        self.receive_buffer = receive_buffer()

    def release(self, connection: Any) -> None: ...

    def forget(self, connection: Any) -> None: ...


def _looped(work: Callable[[bytes], Awaitable[str]]) -> Run:
    """A target that needs a loop; what the loop catches is a failure too."""
    runner = asyncio.Runner()
    problems: list[BaseException] = []

    def caught(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(found := context.get("exception"), BaseException):
            problems.append(found)

    runner.get_loop().set_exception_handler(caught)

    def run(data: bytes) -> str:
        problems.clear()
        result = runner.run(work(data))  # type: ignore[arg-type]
        if problems:
            raise problems[0]
        return result

    return run


def _answers(connect: Callable[[], Any]) -> Run:
    from steersman.client.errors import ClientError, ConnectionLostError

    async def work(data: bytes) -> str:
        connection = connect()
        connection.begin()
        answer = connection.send_request("GET", "/", (), None, 600.0)
        for start in range(0, len(data), 1500):
            if connection.lost if hasattr(connection, "lost") else not connection.usable and answer.done():
                break
            connection.received(data[start : start + 1500])
            await asyncio.sleep(0)
        if not answer.done():
            connection.abort(ConnectionLostError("the end of the input"))
        await asyncio.sleep(0)
        try:
            response = await answer
        except ClientError as error:
            return str(error)[:80]
        return str(response.status)

    return _looped(work)


def _http1_answers() -> Run:
    from steersman.client.transport.http1 import Http1Connection, Http1Encoder

    encoder = Http1Encoder("api.example")
    return _answers(lambda: Http1Connection(_Pool(), 0, _Line(), None, encoder))  # type: ignore[arg-type]


def _http2_answers() -> Run:
    from steersman.client.transport.http2 import Http2Connection, Http2Encoder

    encoder = Http2Encoder("https", "api.example")
    return _answers(lambda: Http2Connection(_Pool(), 0, _Line(), None, encoder))  # type: ignore[arg-type]


def _http2_beside_the_reference() -> Run:
    from .http2_reference import compare

    async def work(data: bytes) -> str:
        return compare(data)

    return _looped(work)


def _http1_requests() -> Run:
    import ssl

    from steersman.listener import Listener
    from steersman.webhook import http
    from steersman.webhook.http_messages import WebhookRequest, WebhookResponse

    async def echo(request: WebhookRequest) -> WebhookResponse:
        return WebhookResponse(200, b"{}")

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    class Output(_Line):
        said = b""

        def write(self, data: bytes) -> None:
            self.said = self.said or data.partition(b"\r\n")[0]

    async def work(data: bytes) -> str:
        server = http.WebhookServer({"/echo": echo}, None, refuse=lambda code, text: text.encode())  # type: ignore[arg-type]
        output, connection = Output(), http._Connection(server, Listener(tls))
        connection.connection_made(output)
        for start in range(0, len(data), 1500):
            if not output.open:
                break
            connection.data_received(data[start : start + 1500])
            for _ in range(3):
                await asyncio.sleep(0)
        connection.connection_lost(None)
        await asyncio.sleep(0)
        return output.said.decode("latin-1")

    return _looped(work)


# What the inputs look like.


def _kubeconfig_seeds() -> Sequence[bytes]:
    return (
        b"apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
        b"clusters: [{name: a, cluster: {server: 'https://127.0.0.1:6443', insecure-skip-tls-verify: true}}]\n"
        b"users: [{name: a, user: {token: t}}]\n",
        b"current-context: a\ncontexts:\n- name: a\n  context: {cluster: a, user: a, namespace: n}\nclusters:\n"
        b"- name: a\n"
        b"  cluster:\n    server: https://[::1]:6443\n    proxy-url: http://p:1\n    tls-server-name: x\n"
        b"    certificate-authority-data: YQ==\nusers:\n- name: a\n  user:\n    exec:\n"
        b"      apiVersion: client.authentication.k8s.io/v1\n      command: c\n      args: [x]\n"
        b"      env: [{name: N, value: V}]\n      interactiveMode: Never\n",
        b"current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nclusters: [{name: a, cluster: "
        b"{server: 'http://a'}}]\nusers: [{name: a, user: {username: u, password: p, as: b, as-groups: [g]}}]\n",
    )


def _protobuf_seeds() -> Sequence[bytes]:
    from steersman_cluster.protobuf import encode

    return (
        encode(POD),
        encode({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [POD, POD]}),
        encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}}),
    )


def _session_seeds() -> Sequence[bytes]:
    from steersman_cluster.spdy.headers import HeaderWriter

    def control(kind: int, body: bytes, flags: int = 0) -> bytes:
        return bytes((0x80, 3, 0, kind, flags)) + len(body).to_bytes(3, "big") + body

    block = HeaderWriter().write({"streamtype": "error", "port": "80", "requestid": "0"})
    opened = control(1, (1).to_bytes(4, "big") + bytes(6) + block)
    hello = (1).to_bytes(4, "big") + bytes((1,)) + (5).to_bytes(3, "big") + b"hello"
    return opened + hello, control(6, b"\0\0\0\1") * 4, control(3, bytes(8)) + control(7, bytes(8)), opened


def _http2_seeds() -> Sequence[bytes]:
    def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
        return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body

    settings = frame(4, 0, 0, b"\0\3\0\0\0\x64\0\4\0\1\0\0") + frame(4, 1, 0, b"")
    head = frame(1, 4, 1, b"\x88\x0f\x10\x10application/json")
    return (
        settings + head + frame(0, 1, 1, b"{}"),
        settings + frame(1, 0, 1, b"\x88") + frame(9, 4, 1, b"\x00\x01a\x01b") + frame(0, 8, 1, b"\2{}\0\0"),
        settings + frame(6, 0, 0, bytes(8)) * 3 + frame(8, 0, 0, b"\0\0\xff\xff") + frame(3, 0, 1, b"\0\0\0\7"),
        settings + head + frame(7, 0, 0, bytes(3) + b"\1" + bytes(4) + b"bye") + frame(1, 5, 1, b"\x00\x01a\x01b"),
    )


_NESTED = b"a: &a {x: y}\nb: &b {<<: [*a, *a]}\nc: {<<: [*b, *b], d: *a}\n"
_PODS_YAML = b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: b\nspec:\n  containers:\n  - name: c\n    image: i\n"
_PATCH_TOKENS = (
    *JSON_TOKENS,
    b'"op":"copy"',
    b'"op":"move"',
    b'"op":"test"',
    b'"op":"remove"',
    b'"path":"/spec"',
    b'"from":""',
    b"/-",
    b"~0",
    b"~1",
    b"~2",
    b"/0",
    b"/-1",
    b"/99999999999999999999",
    b'{"op":"copy","from":"/spec","path":"/spec/a"},',
)
_HTTP_TOKENS = (
    b"\r\n",
    b"\n",
    b"\r\n\r\n",
    b": ",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"0\r\n\r\n",
    b"5\r\n",
    b"ffffffffffffffff\r\n",
    b";a=b",
    b"Connection: close\r\n",
    b"Connection: upgrade\r\nUpgrade: h2c\r\n",
    b"HTTP/1.0",
    b"Expect: 100-continue\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"\0",
    b" ",
    b"-1",
    b"GET / HTTP/1.1\r\n",
    b"Content-Type: application/json\r\n",
    b"Trailer: a\r\n",
)
_JWT_HEADER = b'{"alg":"ES256","kid":"a"}'
_JWT_CLAIMS = b'{"iss":"https://kubernetes.default.svc","sub":"system:serviceaccount:a:b","exp":9999999999,"aud":["a"]}'

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            "yaml",
            _writing("POST", PODS, "application/yaml", fieldValidation="Strict"),
            (_PODS_YAML, _NESTED, _PODS_YAML + _NESTED, _json({**POD, "metadata": {"name": "b"}})),
            YAML_TOKENS,
        ),
        Target(
            "json",
            _writing("POST", PODS, "application/json"),
            (_json({**POD, "metadata": {"name": "b"}}),),
            JSON_TOKENS,
        ),
        Target(
            "jsonpatch",
            _writing("PATCH", f"{PODS}/a", "application/json-patch+json"),
            (
                b'[{"op":"replace","path":"/metadata/labels/app","value":"b"}]',
                b'[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}},'
                b'{"op":"copy","from":"/metadata/annotations","path":"/metadata/annotations/c"}]',
                b'[{"op":"test","path":"/spec/containers/0/name","value":"c"},{"op":"remove","path":"/spec/tolerations/0"},'
                b'{"op":"move","from":"/metadata/labels","path":"/metadata/annotations"}]',
            ),
            _PATCH_TOKENS,
        ),
        Target(
            "mergepatch",
            _writing("PATCH", f"{PODS}/a", "application/merge-patch+json"),
            (b'{"metadata":{"labels":{"app":null,"b":"c"}}}', b'{"spec":{"tolerations":null}}'),
            JSON_TOKENS,
        ),
        Target(
            "strategic",
            _writing("PATCH", f"{PODS}/a", "application/strategic-merge-patch+json"),
            (
                b'{"spec":{"containers":[{"name":"c","image":"j","env":[{"name":"k","$patch":"delete"}]}]}}',
                b'{"spec":{"$setElementOrder/containers":[{"name":"c"}],"$retainKeys":["containers"]}}',
                b'{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"labels":{"$patch":"replace","x":"y"}}}',
            ),
            JSON_TOKENS,
        ),
        Target(
            "apply",
            _writing("PATCH", f"{PODS}/a", "application/apply-patch+yaml", fieldManager="fuzz", force="true"),
            (_PODS_YAML.replace(b"name: b", b"name: a"), _json(POD)),
            (*YAML_TOKENS, *JSON_TOKENS),
        ),
        Target(
            "selector",
            _serving(_selecting),
            (
                b"l:a=b,c!=d",
                b"l:a in (b,c),!d,e notin (f),g>1",
                b"f:metadata.name=a,spec.nodeName!=b",
                b"f:status.phase==x\\,y",
            ),
            (
                b",",
                b"=",
                b"==",
                b"!=",
                b"!",
                b" in ",
                b" notin ",
                b"(",
                b")",
                b">",
                b"<",
                b"\\",
                b"a.b/c",
                b"\xff",
                b"a" * 300,
            ),
        ),
        Target(
            "jwt",
            _serving(_identified),
            (_JWT_HEADER + b"\n" + _JWT_CLAIMS + b"\n" + b"x" * 64, b"a.b.c", b"abcdef.0123456789abcdef"),
            (*JSON_TOKENS, b".", b"\n", b'"alg":"none"', b"=", b"-_", b"\n" + b"x" * 64, b'"exp":1e400'),
        ),
        Target("protobuf", _protobuf, _protobuf_seeds(), (b"k8s\0", b"\x0a", b"\x12", b"\xff" * 10, b"\x0b", b"\x0c")),
        Target(
            "spdy",
            _sessions,
            _session_seeds(),
            (b"\x80\x03\x00\x01", b"\x80\x03\x00\x06", b"\x00\xff\xff\xff", b"\x78\xbb"),
        ),
        Target(
            "webhook",
            _http1_requests,
            (
                b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
                b"POST /echo?a=b HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
                b"2\r\n{}\r\n0\r\nA: b\r\n\r\n",
            ),
            _HTTP_TOKENS,
        ),
        Target(
            "http1",
            _http1_answers,
            (
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
                b"HTTP/1.1 100 Continue\r\n\r\n"
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            ),
            _HTTP_TOKENS,
        ),
        Target(
            "http2",
            _http2_answers,
            _http2_seeds(),
            tuple(
                b"\0\0\x04" + bytes((kind, flags)) + b"\0\0\0\1" + bytes(4) for kind in range(11) for flags in (0, 5)
            ),
        ),
        Target(
            "http2-reference",
            _http2_beside_the_reference,
            _http2_seeds(),
            tuple(
                bytes((0, 0, size, kind, flags)) + b"\0\0\0" + bytes((stream, *bytes(size)))
                for kind, size in ((0, 1), (1, 1), (2, 5), (3, 4), (4, 0), (4, 6), (6, 8), (7, 8), (8, 4), (9, 1))
                for flags in (0, 5)
                for stream in (0, 1)
            ),
        ),
        Target(
            "kubeconfig",
            _kubeconfigs,
            _kubeconfig_seeds(),
            (*YAML_TOKENS, b"server: ", b"exec: ", b"http://", b"[::", b"@"),
        ),
        Target(
            "cel",
            _expressions,
            (
                b"self.spec.containers.all(c, c.image.startsWith('i') && size(c.name) < 10)",
                b"[1, 2, 3].map(x, x * 2).filter(x, x > 2).exists(x, x == 4) ? 'a' + 'b' : string(1.5)",
                b"self.metadata.name.matches('^a+$') || quantity('1Gi').isGreaterThan(quantity('1Mi'))",
                b"timestamp('2026-01-01T00:00:00Z') + duration('1h') > timestamp('2026-01-01T00:00:00Z')",
                b"{'a': [1u, b'x', null], 'b': -1}['a'][0] == 1u && has(self.kind) && 'a' in {'a': 1}",
                b"'abc'.split('').join('-').replace('-', '').substring(1).lowerAscii().find('[a-z]+') == 'bc'",
            ),
            (
                b"(",
                b")",
                b"[",
                b"]",
                b"+",
                b"*",
                b"/",
                b"%",
                b"-",
                b"!",
                b"&&",
                b"||",
                b"?",
                b":",
                b".",
                b",",
                b"'",
                b'"""',
                b".map(x, ",
                b".all(y, ",
                b"self",
                b".matches('",
                b"(a+)+$",
                b"(a|a)*b",
                b"{1000}",
                b"9223372036854775807",
                b"1e308",
                b"[self]",
                b".flatten()",
                b".sort()",
                b"format([",
                b"ip('::1')",
                b"url('http://a')",
                b"size(",
                b"in",
                b".repeat",
                b".replace('', 'aaaaaaaa')",
                b"optional.of(",
                b"cel.bind(z, ",
                b"lists.range(10000)",
                b".map(x, x + x)",
            ),
        ),
    )
}
