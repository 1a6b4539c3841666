"""A peer that resets a connection before it is secured leaves no socket open; one left open fails the test."""

import gc
import socket
import ssl
import struct
from contextlib import contextmanager

import pytest

from steersman.operator.endpoints import Certificates
from steersman.operator.webhooks import handshake
from steersman.pki import Authority
from steersman.pki.sockets import ClosingSocket
from steersman.testing.cluster_http import ApiSession, client_context

RESET = struct.pack("ii", 1, 0)  # SO_LINGER of no seconds: closing sends RST


@pytest.fixture
def pair():
    """A client's and a server's socket, connected."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        server, _ = listening.accept()
    with client, server:
        yield client, server


def reset(one):
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    one.close()


@contextmanager
def resetting(monkeypatch):
    """A server that resets every connection, which its clients notice as soon as they have it."""
    connect = socket.create_connection
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def connect_in_vain(*args, **kwargs):
            client = connect(*args, **kwargs)
            reset(listening.accept()[0])
            return client

        monkeypatch.setattr(socket, "create_connection", connect_in_vain)
        yield listening.getsockname()


@pytest.mark.parametrize("server_side", [False, True])
def test_a_socket_that_cannot_be_secured_is_closed(pair, server_side):
    ours, theirs = reversed(pair) if server_side else pair
    context = Certificates(None).context() if server_side else ssl.create_default_context()
    assert context.sslsocket_class is (ClosingSocket if server_side else ssl.SSLSocket)
    context.sslsocket_class = ClosingSocket
    reset(theirs)

    with pytest.raises(ConnectionResetError, match="the peer closed the connection"):
        context.wrap_socket(ours, server_side=server_side, server_hostname=None if server_side else "localhost")
    gc.collect()


def test_the_fixtures_session_and_the_webhooks_probe_close_what_is_reset(monkeypatch):
    authority = Authority.create("nobody")
    with resetting(monkeypatch) as (host, port):
        with ApiSession(host, port, client_context(authority.cert_pem)) as session, pytest.raises(ConnectionResetError):
            session.call("GET", "/version")
        assert "the peer closed the connection" in (handshake(host, port) or "")
    gc.collect()
