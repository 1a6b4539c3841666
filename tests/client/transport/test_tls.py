"""TLS as a function of bytes: the result does not depend on the pieces in which they arrive."""

import contextlib
import ssl
from datetime import timedelta
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steersman.client.transport.tls import TlsClosedError, TlsLayer
from steersman.pki import Authority

AUTHORITY = Authority.create("ca", lifetime=timedelta(days=1))


class Server:
    """The other end, on OpenSSL's own memory buffers."""

    def __init__(self, directory, hosts=("api.example",), version=ssl.TLSVersion.TLSv1_3):
        pair = AUTHORITY.serving("server", hosts)
        (directory / "tls.pem").write_bytes(pair.cert_pem + pair.key_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = context.maximum_version = version
        context.load_cert_chain(directory / "tls.pem")
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)

    def handshake(self, data):
        self.incoming.write(data)
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.outgoing.read()

    def says(self, data):
        self.tls.write(data)
        return self.outgoing.read()

    def hears(self, data):
        self.incoming.write(data)
        return self.tls.read(1 << 20)


def client(name="api.example"):
    context = ssl.create_default_context(cadata=AUTHORITY.cert_pem.decode())
    return TlsLayer(context, name)


def complete_handshake(client, server):
    client.handshake()
    for _ in range(4):
        answer = server.handshake(client.to_send())
        if client.handshake_done:
            return answer  # session tickets, which come with the first data
        client.handshake(answer)
    raise AssertionError("no handshake in four rounds")


def cut(data, sizes):
    for size in cycle(sizes):
        if not data:
            return
        yield data[:size]
        data = data[size:]


@pytest.fixture(scope="module", params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def ends(request, tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("tls"), version=request.param)
    layer = client()
    tickets = complete_handshake(layer, server)
    assert layer.decrypt(tickets) == b""
    return layer, server


@given(
    messages=st.lists(st.binary(min_size=1, max_size=40_000), max_size=4),
    sizes=st.lists(st.integers(1, 20_000), min_size=1),
)
@settings(max_examples=60, deadline=None)
def test_what_a_server_says_is_heard_however_it_is_cut(ends, messages, sizes):
    layer, server = ends
    wire = b"".join(server.says(message) for message in messages)
    heard = [layer.decrypt(piece) for piece in cut(wire, sizes)]
    assert b"".join(heard) == b"".join(messages)


def test_encrypted_data_reaches_the_server(ends):
    layer, server = ends
    assert server.hears(layer.encrypt(b"GET / HTTP/1.1\r\n\r\n")) == b"GET / HTTP/1.1\r\n\r\n"


def test_the_proper_end_is_told_with_what_came_before(tmp_path):
    server, layer = Server(tmp_path), client()
    layer.decrypt(complete_handshake(layer, server))
    wire = server.says(b"last words")
    with pytest.raises(ssl.SSLWantReadError):
        server.tls.unwrap()
    with pytest.raises(TlsClosedError) as ended:
        layer.decrypt(wire + server.outgoing.read())
    assert ended.value.data == b"last words"


def test_a_record_that_was_changed_on_the_way_is_refused(tmp_path):
    server, layer = Server(tmp_path), client()
    layer.decrypt(complete_handshake(layer, server))
    wire = bytearray(server.says(b"replicas: 3"))
    wire[-1] ^= 1
    with pytest.raises(ssl.SSLError):
        layer.decrypt(bytes(wire))
    assert layer.to_send()  # the alert


def test_the_certificate_of_another_name_is_refused(tmp_path):
    server, layer = Server(tmp_path, hosts=("elsewhere.example",)), client()
    layer.handshake()
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        layer.handshake(server.handshake(layer.to_send()))
    assert not layer.handshake_done
    assert layer.to_send()


def test_what_is_no_tls_is_refused(tmp_path):
    layer = client()
    layer.handshake()
    with pytest.raises(ssl.SSLError):
        layer.handshake(b"HTTP/1.1 400 Bad Request\r\n\r\n")
