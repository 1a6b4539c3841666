"""One suite for every transport: against a faulty server, over TLS, and against nginx."""

from __future__ import annotations

import asyncio
import datetime
import importlib.util
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from steersman.client.config import ClientCertificate, Config, TlsConfig
from steersman.client.errors import ConnectError, ConnectionLostError, TransportError, TransportTimeoutError
from steersman.client.transport import (
    AiohttpTransport,
    NativeTransport,
    PyreqwestTransport,
    Transport,
    deliver,
    transport_for,
)
from steersman.extras import MissingExtraError


def _beside(file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"steersman_tests_{file}", Path(__file__).with_name(f"{file}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


faulty_module = _beside("faulty_server")
faulty_h2_module = _beside("faulty_h2_server")
FaultyServer = faulty_module.FaultyServer

Make = Callable[[Config], Transport]


class Holds:
    """An authenticator with nothing but a client certificate, which a test may exchange."""

    fresh_until = float("-inf")

    def __init__(self, certificate: ClientCertificate | None = None) -> None:
        self.certificate = certificate

    async def headers(self, *, refresh: bool = False) -> dict[str, str]:
        return {}

    def client_certificate(self) -> ClientCertificate | None:
        return self.certificate


def over_http2(config: Config) -> Transport:
    return NativeTransport(replace(config, tls=faulty_h2_module.tls_of) if config.tls == TlsConfig() else config)


@pytest.fixture(params=[NativeTransport, over_http2, PyreqwestTransport, AiohttpTransport])
async def make(request) -> AsyncIterator[Make]:
    made: list[Transport] = []

    def build(config: Config) -> Transport:
        made.append(request.param(config))
        return made[-1]

    yield build
    for transport in made:
        await transport.close()
    await asyncio.sleep(0)


@pytest.fixture
async def faulty(request, tmp_path) -> AsyncIterator[FaultyServer]:
    kind = getattr(request.node, "callspec", None)
    if kind is not None and kind.params.get("make") is over_http2:
        async with faulty_h2_module.faulty_h2_server(tmp_path) as server:
            yield server
    else:
        async with faulty_module.faulty_server() as server:
            yield server


async def test_status_headers_and_body_come_back(make, faulty):
    transport = make(Config.for_url(faulty.url))
    response = await transport.request("GET", "/ok", headers={"A": "b"}, timeout=5)
    assert (response.status, response.body) == (200, b"ok")
    assert response.headers.get("CONTENT-length") == "2"
    assert response.headers.get("X-None") is None
    assert list(response.headers.get_all("warning")) == ['299 - "a"', '299 - "b"']
    assert list(response.headers.get_all("x-none")) == []
    assert (await transport.request("GET", "/empty", timeout=5)).body == b""


async def test_what_is_sent_is_what_was_asked_for(make, faulty):
    transport = make(Config.for_url(faulty.url + "/prefix"))
    pairs = [("command", "ls -l"), ("command", "a&b=c"), ("label", "x in (ä)")]
    headers = [("Impersonate-Group", "one"), ("Impersonate-Group", "two"), ("Content-Type", "text/plain")]
    await transport.request("PATCH", "/ok", query=pairs, headers=headers, body=b"\x00body", timeout=5)
    head = faulty.heads[0].decode()
    assert head.startswith("PATCH /prefix/ok?command=ls+-l&command=a%26b%3Dc&label=x+in+%28%C3%A4%29 HTTP/1.1")
    lower = head.lower()
    assert "impersonate-group: one\r\n" in lower
    assert "impersonate-group: two\r\n" in lower
    assert lower.count("content-type") == 1
    assert "accept-encoding" not in lower
    assert faulty.bodies[0] == b"\x00body"


async def test_connections_are_used_again(make, faulty):
    transport = make(Config.for_url(faulty.url))
    for _ in range(50):
        await transport.request("GET", "/ok", timeout=5)
    assert faulty.requests("/ok") == 50
    assert faulty.connections == 1


async def test_redirects_are_answers(make, faulty):
    """A credential must not follow a redirect to somewhere else."""
    transport = make(Config.for_url(faulty.url))
    assert (await transport.request("GET", "/redirect", timeout=5)).status == 307


async def test_a_refused_connection_was_never_sent(make):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        transport = make(Config.for_url(f"http://127.0.0.1:{held.getsockname()[1]}"))
        with pytest.raises(ConnectError, match="No server listens at this address"):
            await transport.request("POST", "/x", body=b"{}", timeout=5)
        with pytest.raises(ConnectError):
            async with transport.stream("GET", "/x", connect_timeout=5, idle_timeout=5):
                pass


async def test_an_unknown_host_was_never_sent(make):
    transport = make(Config.for_url("http://no-such-host.invalid"))
    with pytest.raises(ConnectError):
        await transport.request("POST", "/x", body=b"{}", timeout=10)


BROKEN = [
    "/gone-before-the-head",
    "/reset-before-the-head",
    "/reset-in-the-body",
    "/truncated",
    "/truncated-chunks",
    "/bad-chunk-size",
    "/two-lengths",
    "/not-http",
    "/half-a-head",
    "/oversized-header",
    "/never-ending-head",
]


@pytest.mark.parametrize("path", BROKEN)
async def test_a_broken_answer_is_a_lost_connection_and_never_unsent(make, faulty, path):
    """A6: a sent request may have taken effect, so it is never reported as unsent, nor as a response."""
    transport = make(Config.for_url(faulty.url))
    with pytest.raises(ConnectionLostError) as lost:
        await transport.request("POST", path, body=b"{}", timeout=10)
    assert "POST" in str(lost.value)
    assert faulty.requests(path) == 1, "a transport never repeats a request by itself"


@pytest.mark.parametrize("path", ["/slow-head", "/slow-body", "/silent"])
async def test_a_slow_answer_times_out_as_a_whole(make, faulty, path):
    transport = make(Config.for_url(faulty.url))
    started = time.monotonic()
    with pytest.raises(TransportTimeoutError):
        await transport.request("POST", path, body=b"{}", timeout=0.4)
    assert time.monotonic() - started < 10
    assert faulty.requests(path) == 1


@pytest.mark.parametrize("path", ["/smuggled", "/length-and-chunks"])
async def test_a_smuggled_answer_is_never_taken_for_the_next(make, faulty, path):
    transport = make(Config.for_url(faulty.url))
    for _ in range(3):
        try:
            response = await transport.request("GET", path, timeout=5)
        except TransportError:
            continue
        assert response.body == b"ok"
    for _ in range(3):
        try:
            assert (await transport.request("GET", "/ok", timeout=5)).body == b"ok"
        except ConnectionLostError:
            continue


async def test_chunks_of_a_stream_arrive_at_once(make, faulty):
    transport = make(Config.for_url(faulty.url))
    async with transport.stream("GET", "/stream-then-silence", connect_timeout=5, idle_timeout=5) as response:
        assert response.status == 200
        async with asyncio.timeout(2):
            assert await anext(aiter(response.chunks)) == b"0\n"


async def test_a_stream_ends_in_order(make, faulty):
    transport = make(Config.for_url(faulty.url))
    async with transport.stream("GET", "/stream", connect_timeout=5, idle_timeout=5) as response:
        assert b"".join([chunk async for chunk in response.chunks]) == b"0\n1\n2\n"


async def test_a_silent_stream_is_given_up(make, faulty):
    """W7: silence beyond the idle timeout ends a stream."""
    transport = make(Config.for_url(faulty.url))
    async with transport.stream("GET", "/stream-then-silence", connect_timeout=5, idle_timeout=0.5) as response:
        chunks = aiter(response.chunks)
        await anext(chunks)
        with pytest.raises(TransportTimeoutError, match=r"nothing arrived for 0\.5 s"):
            await anext(chunks)


async def test_what_pours_arrives_in_order_and_ends_in_order(make, faulty):
    transport = make(Config.for_url(faulty.url))
    taken: list[bytes] = []
    async with transport.stream("GET", "/stream", connect_timeout=5, idle_timeout=5) as response:
        assert not await deliver(response.chunks, lambda chunk: taken.append(chunk) is not None)
    assert b"".join(taken) == b"0\n1\n2\n"


async def test_who_has_enough_may_have_the_rest_later(make, faulty):
    transport = make(Config.for_url(faulty.url))
    taken: list[bytes] = []

    def one(chunk: bytes) -> bool:
        taken.append(chunk)
        return True

    async with transport.stream("GET", "/stream", connect_timeout=5, idle_timeout=5) as response:
        times = 0
        while await deliver(response.chunks, one):
            times += 1
            assert len(taken) == times
    assert b"".join(taken) == b"0\n1\n2\n"


async def test_what_a_taker_raises_is_raised_where_it_is_awaited(make, faulty):
    transport = make(Config.for_url(faulty.url))

    def picky(chunk: bytes) -> bool:
        raise ValueError(chunk.decode())

    async with transport.stream("GET", "/stream-then-silence", connect_timeout=5, idle_timeout=5) as response:
        with pytest.raises(ValueError, match="0"):
            await deliver(response.chunks, picky)
    assert (await transport.request("GET", "/ok", timeout=5)).body == b"ok"


async def test_what_pours_and_falls_silent_is_given_up(make, faulty):
    """W7: silence beyond the idle timeout ends a stream, however it is read."""
    transport = make(Config.for_url(faulty.url))
    taken: list[bytes] = []
    async with transport.stream("GET", "/stream-then-silence", connect_timeout=5, idle_timeout=0.5) as response:
        with pytest.raises(TransportTimeoutError, match=r"nothing arrived for 0\.5 s"):
            await deliver(response.chunks, lambda chunk: taken.append(chunk) is not None)
    assert taken == [b"0\n"]


async def test_who_waits_for_what_pours_can_be_cancelled(make, faulty):
    transport = make(Config.for_url(faulty.url))
    arrived = asyncio.Event()

    async def read() -> None:
        async with transport.stream("GET", "/stream-then-silence", connect_timeout=5, idle_timeout=30) as response:
            await deliver(response.chunks, lambda _: arrived.set() is not None)

    reading = asyncio.create_task(read())
    await arrived.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_cancelling_a_reader_is_a_cancellation_and_no_timeout(make, faulty):
    transport = make(Config.for_url(faulty.url))
    arrived = asyncio.Event()

    async def read() -> None:
        async with transport.stream("GET", "/stream-then-silence", connect_timeout=5, idle_timeout=30) as response:
            async for _ in response.chunks:
                arrived.set()

    reading = asyncio.create_task(read())
    await arrived.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


@pytest.mark.slow
async def test_a_cancellation_that_meets_an_answer_is_never_lost(make, faulty):
    """R4: a shutdown cancels and waits; a call that suppressed the cancellation would never end."""
    transport = make(Config.for_url(faulty.url))
    ended = 0

    async def ask_for_ever() -> None:
        nonlocal ended
        try:
            while True:
                await transport.request("GET", "/ok", timeout=5)
        finally:
            ended += 1

    for turns in range(150):
        task = asyncio.create_task(ask_for_ever())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=5)
        assert task.cancelled()
    assert ended >= 149  # the first is cancelled before it starts


async def test_many_tasks_share_connections_and_each_gets_its_answer(make, faulty):
    """A connection that is free again may be taken before the task that used it last has woken up."""
    transport = make(Config.for_url(faulty.url))

    async def ask() -> None:
        for _ in range(40):
            assert (await transport.request("GET", "/ok", timeout=5)).body == b"ok"

    async with asyncio.timeout(90):
        await asyncio.gather(*(ask() for _ in range(16)))
    assert faulty.requests("/ok") == 640


async def test_a_slow_reader_makes_the_server_wait_and_gets_everything(make, faulty):
    transport = make(Config.for_url(faulty.url))
    async with transport.stream("GET", "/flood", connect_timeout=5, idle_timeout=5) as response:
        received = 0
        async for chunk in response.chunks:
            received += len(chunk)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    assert received == 8 << 20


@pytest.mark.parametrize("path", ["/truncated", "/truncated-chunks", "/reset-in-the-body", "/bad-chunk-size"])
async def test_a_truncated_stream_does_not_look_whole(make, faulty, path):
    transport = make(Config.for_url(faulty.url))

    async def read() -> None:
        async with transport.stream("GET", path, connect_timeout=5, idle_timeout=5) as response:
            async for _ in response.chunks:
                pass

    with pytest.raises(ConnectionLostError):
        await read()


async def test_a_stream_without_a_head_times_out(make, faulty):
    transport = make(Config.for_url(faulty.url))
    with pytest.raises(TransportTimeoutError):
        async with transport.stream("GET", "/silent", connect_timeout=0.2, idle_timeout=30):
            pass


async def test_a_closed_transport_refuses(make, faulty):
    transport = make(Config.for_url(faulty.url))
    await transport.request("GET", "/ok", timeout=5)
    await transport.close()
    await transport.close()
    with pytest.raises(TransportError):
        await transport.request("GET", "/ok", timeout=5)


async def test_closing_ends_open_streams_with_an_error(make, faulty):
    transport = make(Config.for_url(faulty.url))
    arrived = asyncio.Event()

    async def read() -> None:
        async with transport.stream("GET", "/stream-then-silence", connect_timeout=5, idle_timeout=30) as response:
            async for _ in response.chunks:
                arrived.set()

    reading = asyncio.create_task(read())
    await arrived.wait()
    await transport.close()
    with pytest.raises(TransportError):
        async with asyncio.timeout(3):
            await reading


class Pki:
    """A certificate authority in memory."""

    def __init__(self, name: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.cert = self._sign(self.name, self.key.public_key(), ca=True, names=[])

    @property
    def pem(self) -> bytes:
        return self.cert.public_bytes(serialization.Encoding.PEM)

    def _sign(self, subject, public_key, *, ca: bool, names: list[x509.GeneralName]) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def issue(self, name: str, *alternatives: x509.GeneralName) -> ClientCertificate:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        cert = self._sign(subject, key.public_key(), ca=False, names=list(alternatives))
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return ClientCertificate(cert.public_bytes(serialization.Encoding.PEM), pem)


@pytest.fixture(scope="module")
def ca() -> Pki:
    return Pki("test-ca")


@pytest.fixture
async def tls_server(ca, tmp_path) -> AsyncIterator[str]:
    """Answers with the common name of the client's certificate; its own names `api.internal` only."""
    own = ca.issue("server", x509.DNSName("api.internal"))
    for name, data in (("cert", own.cert_pem), ("key", own.key_pem), ("ca", ca.pem)):
        (tmp_path / name).write_bytes(data)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    context.load_verify_locations(tmp_path / "ca")
    context.verify_mode = ssl.CERT_OPTIONAL
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                peer = writer.get_extra_info("peercert") or {}
                name = b"".join(v.encode() for part in peer.get("subject", ()) for _, v in part) or b"nobody"
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(name), name))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close() if writer.get_extra_info("ssl_object") is None else writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    for task in list(tasks):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_server_is_verified_under_another_name(make, ca, tls_server):
    config = Config(server=tls_server, tls=TlsConfig(ca_pem=ca.pem, server_name="api.internal"), auth=Holds())
    assert (await make(config).request("GET", "/", timeout=5)).body == b"nobody"


async def test_a_wrong_name_is_never_sent_anything(make, ca, tls_server):
    config = Config(server=tls_server, tls=TlsConfig(ca_pem=ca.pem), auth=Holds())
    with pytest.raises(ConnectError):
        await make(config).request("POST", "/", body=b"secret", timeout=5)


async def test_a_stranger_s_certificate_is_never_trusted(make, tls_server):
    stranger = Pki("stranger")
    config = Config(server=tls_server, tls=TlsConfig(ca_pem=stranger.pem, server_name="api.internal"), auth=Holds())
    with pytest.raises(ConnectError, match="not signed by a trusted CA"):
        await make(config).request("POST", "/", body=b"secret", timeout=5)


async def test_the_server_s_own_certificate_is_a_trust_anchor(make, tls_server, tmp_path):
    own = (tmp_path / "cert").read_bytes()
    config = Config(server=tls_server, tls=TlsConfig(ca_pem=own, server_name="api.internal"), auth=Holds())
    transport = make(config)
    if isinstance(transport, PyreqwestTransport):  # never chosen for such a bundle
        with pytest.raises(ConnectError, match="not signed by a trusted CA"):
            await transport.request("GET", "/", timeout=5)
        return
    assert (await transport.request("GET", "/", timeout=5)).status == 200


def test_behind_a_proxy_a_bundle_with_a_server_s_own_certificate_is_served_by_openssl(ca):
    leaf = ca.issue("server", x509.DNSName("api.internal")).cert_pem
    for pem, kind in ((ca.pem, PyreqwestTransport), (leaf, AiohttpTransport), (ca.pem + leaf, AiohttpTransport)):
        config = Config(server="https://a.example", tls=TlsConfig(ca_pem=pem), proxy="http://proxy.example:3128")
        assert isinstance(transport_for(config), kind)


async def test_one_of_several_authorities_is_enough(make, ca, tls_server):
    bundle = Pki("old").pem + ca.pem + Pki("new").pem
    config = Config(server=tls_server, tls=TlsConfig(ca_pem=bundle, server_name="api.internal"), auth=Holds())
    assert (await make(config).request("GET", "/", timeout=5)).status == 200


async def test_insecure_means_unverified(make, tls_server):
    config = Config(server=tls_server, tls=TlsConfig(insecure=True), auth=Holds())
    assert (await make(config).request("GET", "/", timeout=5)).status == 200


async def test_a_rotated_client_certificate_is_presented_by_the_next_request(make, ca, tls_server):
    holds = Holds(ca.issue("jane"))
    config = Config(server=tls_server, tls=TlsConfig(ca_pem=ca.pem, server_name="api.internal"), auth=holds)
    transport = make(config)
    assert (await transport.request("GET", "/", timeout=5)).body == b"jane"
    holds.certificate = ca.issue("jane-2")
    assert (await transport.request("GET", "/", timeout=5)).body == b"jane-2"


async def test_a_stream_outlives_the_rotation_of_its_certificate(make, ca, faulty):
    holds = Holds()
    transport = make(Config(server=faulty.url, auth=holds))
    async with transport.stream("GET", "/stream-then-silence", connect_timeout=5, idle_timeout=0.5) as response:
        chunks = aiter(response.chunks)
        await anext(chunks)
        holds.certificate = ca.issue("jane")
        assert (await transport.request("GET", "/ok", timeout=5)).body == b"ok"
        with pytest.raises(TransportTimeoutError):
            await anext(chunks)


async def test_a_broken_client_certificate_says_so_without_quoting_it(make, ca, tls_server):
    secret = b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
    config = Config(
        server=tls_server,
        tls=TlsConfig(ca_pem=ca.pem, server_name="api.internal"),
        auth=Holds(ClientCertificate(ca.pem, secret)),
    )
    with pytest.raises(Exception, match=r"(?i)certificate|PEM|key") as refused:
        await make(config).request("GET", "/", timeout=5)
    assert "c2VjcmV0" not in str(refused.value)


def test_the_transport_is_chosen_by_what_the_configuration_needs():
    named = TlsConfig(server_name="api.internal")
    proxy = "http://proxy.example:3128"
    assert isinstance(transport_for(Config.for_url("http://127.0.0.1:8001")), NativeTransport)
    assert isinstance(transport_for(Config(server="https://api.example:6443", tls=named)), NativeTransport)
    assert isinstance(transport_for(Config(server="https://api.example:6443", proxy=proxy)), PyreqwestTransport)
    assert isinstance(transport_for(Config(server="https://a.example", tls=named, proxy=proxy)), AiohttpTransport)


def test_a_proxy_without_the_extra_names_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyreqwest", None)
    config = Config(server="https://api.example:6443", proxy="http://jane:secret@proxy.example:3128")
    with pytest.raises(MissingExtraError) as refused:
        transport_for(config)
    assert "pip install 'steersman[proxy]'" in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/x y", ()),
        ("/x\r\nInjected: 1", ()),
        ("/ok", (("A", "b\r\nInjected: 1"),)),
        ("/ok", (("A\n", "b"),)),
        ("/ok", (("A", "\u2028"),)),
    ],
)
async def test_nothing_can_be_smuggled_into_a_request(faulty, path, headers):
    transport = NativeTransport(Config.for_url(faulty.url))
    with pytest.raises(TransportError, match=r"percent-encoded|control character"):
        await transport.request("GET", path, headers=headers, timeout=5)
    assert not faulty.heads
    await transport.close()


async def test_an_answer_that_nobody_asked_for_ends_the_connection(faulty):
    transport = NativeTransport(Config.for_url(faulty.url))
    assert (await transport.request("GET", "/smuggled", timeout=5)).body == b"ok"
    assert (await transport.request("GET", "/ok", timeout=5)).body == b"ok"
    assert faulty.connections == 2
    await transport.close()


@pytest.fixture
def nginx(tmp_path: Path, ca: Pki) -> Iterator[str]:
    binary = shutil.which("nginx") or ("/usr/sbin/nginx" if Path("/usr/sbin/nginx").exists() else None)
    if binary is None:
        pytest.skip("nginx is not installed: apt-get install nginx-light")
    own = ca.issue("nginx", x509.DNSName("localhost"))
    (tmp_path / "cert.pem").write_bytes(own.cert_pem)
    (tmp_path / "key.pem").write_bytes(own.key_pem)
    (tmp_path / "big").write_bytes(b"0123456789abcdef" * 200_000)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "nginx.conf").write_text(
        f"""
        user root; daemon off; worker_processes 1; pid {tmp_path}/pid; error_log {tmp_path}/error.log;
        events {{ worker_connections 64; }}
        http {{
          access_log off; client_max_body_size 8m; keepalive_requests 3;
          client_body_temp_path {tmp_path}/body; proxy_temp_path {tmp_path}/proxy;
          fastcgi_temp_path {tmp_path}/f; uwsgi_temp_path {tmp_path}/u; scgi_temp_path {tmp_path}/s;
          server {{
            listen 127.0.0.1:{port} ssl http2; server_name localhost; root {tmp_path};
            ssl_certificate {tmp_path}/cert.pem; ssl_certificate_key {tmp_path}/key.pem;
            location = /ok {{ return 200 "ok"; }}
            location = /late {{ return 429 "busy"; add_header Retry-After 7 always; }}
            location = /gateway {{ proxy_pass http://127.0.0.1:1; }}
          }}
        }}"""
    )
    process = subprocess.Popen([binary, "-c", str(tmp_path / "nginx.conf"), "-p", str(tmp_path)])
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield f"https://localhost:{port}"
    finally:
        process.terminate()
        process.wait(5)


@pytest.mark.parametrize(
    "kind",
    [NativeTransport, partial(NativeTransport, http2=False), PyreqwestTransport, AiohttpTransport],
    ids=["http2", "http1", "pyreqwest", "aiohttp"],
)
async def test_nginx(kind, nginx, ca):
    transport: Transport = kind(Config(server=nginx, tls=TlsConfig(ca_pem=ca.pem), auth=Holds()))
    try:
        # nginx closes each connection after three requests: that must never show.
        answers = await asyncio.gather(*(transport.request("GET", "/ok", timeout=10) for _ in range(40)))
        assert {(a.status, a.body) for a in answers} == {(200, b"ok")}
        for _ in range(20):
            assert (await transport.request("GET", "/ok", timeout=10)).status == 200
        assert len((await transport.request("GET", "/big", timeout=20)).body) == 3_200_000
        late = await transport.request("PUT", "/late", body=b"x" * 3_000_000, timeout=20)
        assert (late.status, late.headers.get("retry-after")) == (429, "7")
        assert (await transport.request("GET", "/gateway", timeout=10)).status == 502
        async with transport.stream("GET", "/big", connect_timeout=5, idle_timeout=5) as response:
            assert sum([len(chunk) async for chunk in response.chunks]) == 3_200_000
    finally:
        await transport.close()
