"""Metrics over TLS: certificates that change, and permissions of readers that are reviewed again after an interval."""

import asyncio
import ssl

import pytest

from steersman.client import Client
from steersman.client.config import Config
from steersman.client.transport import Response, UnsupportedTransport
from steersman.models import encode
from steersman.operator.endpoints import Certificates, MetricsAuthorizer, metrics_route
from steersman.operator.http_server import Answer, Visit
from steersman.operator.settings import SettingsError
from steersman.pki.self_signed import self_signed
from steersman.telemetry.clock import utc_now


class ReviewServer(UnsupportedTransport):
    """An API server that knows one token, whose user may or may not read metrics."""

    def __init__(self, allowed=True, status=201):
        self.allowed = allowed
        self.status = status
        self.asked = []

    async def request(self, method, path, *, query=(), headers=(), body=None, timeout):
        self.asked.append(path.rpartition("/")[2])
        if path.endswith("tokenreviews"):
            known = b'"token":"good"' in body
            status = {"authenticated": known, "user": {"username": "prometheus", "groups": ["scrapers"]}}
        else:
            assert b'"user":"prometheus"' in body
            assert b'"path":"/metrics"' in body
            status = {"allowed": self.allowed}
        return Response(self.status, body=encode({"kind": "Review", "metadata": {}, "status": status}))


async def authorize(reviewer, authorization):
    refusal = await asyncio.to_thread(reviewer.authorize, authorization, "/metrics")
    return 200 if refusal is None else refusal.status


@pytest.fixture
def moment():
    return [0.0]


def reviewer_for(server, moment):
    client = Client(Config.for_url("http://server"), transport=server)
    return MetricsAuthorizer(client, asyncio.get_running_loop(), clock=lambda: moment[0])


async def test_who_may_is_asked_once_a_minute(moment):
    server = ReviewServer()
    reviewer = reviewer_for(server, moment)
    assert [await authorize(reviewer, "Bearer good") for _ in range(3)] == [200, 200, 200]
    assert server.asked == ["tokenreviews", "subjectaccessreviews"]
    moment[0] = 61.0
    assert await authorize(reviewer, "Bearer good") == 200
    assert len(server.asked) == 4


async def test_who_may_not_is_refused_and_asked_again_soon(moment):
    server = ReviewServer(allowed=False)
    reviewer = reviewer_for(server, moment)
    assert await authorize(reviewer, "Bearer good") == 403
    moment[0], server.allowed = 11.0, True
    assert await authorize(reviewer, "Bearer good") == 200


@pytest.mark.parametrize("authorization", ["", "Basic Zm9v", "Bearer ", "Bearer bad"])
async def test_who_is_nobody_is_refused(moment, authorization):
    assert await authorize(reviewer_for(ReviewServer(), moment), authorization) == 401


async def test_a_server_that_cannot_be_asked_lets_nobody_in(moment):
    assert await authorize(reviewer_for(ReviewServer(status=403), moment), "Bearer good") == 503


async def test_a_guarded_route_is_not_run_for_the_refused(moment):
    ran = []
    guarded = reviewer_for(ReviewServer(), moment).guard(lambda visit: ran.append(visit) or Answer(200, b""))
    answer = await asyncio.to_thread(guarded, Visit("/metrics", "", {}))
    assert answer.status == 401
    assert not ran


def test_metrics_come_in_the_format_that_is_asked_for():
    plain = metrics_route()(Visit("/metrics", "", {}))
    assert plain.content_type.startswith("text/plain")
    openmetrics = metrics_route()(Visit("/metrics", "", {"accept": "application/openmetrics-text; version=1.0.0"}))
    assert openmetrics.content_type.startswith("application/openmetrics-text")
    assert openmetrics.body.endswith(b"# EOF\n")


def write_pair(directory):
    certificate, key = self_signed(utc_now())
    (directory / "tls.crt").write_bytes(certificate)
    (directory / "tls.key").write_bytes(key)


def test_a_renewed_certificate_is_used_for_the_next_connection(tmp_path):
    import os

    write_pair(tmp_path)
    certificates = Certificates(tmp_path)
    first = certificates.context()
    assert certificates.context() is first
    write_pair(tmp_path)
    os.utime(tmp_path / "tls.crt", (1, 1))
    assert certificates.context() is not first


def test_a_broken_renewal_keeps_the_old_certificate(tmp_path):
    import os

    write_pair(tmp_path)
    certificates = Certificates(tmp_path)
    first = certificates.context()
    (tmp_path / "tls.crt").write_text("nonsense")
    os.utime(tmp_path / "tls.crt", (1, 1))
    assert certificates.context() is first


def test_a_directory_without_a_certificate_is_refused_by_name(tmp_path):
    with pytest.raises(SettingsError, match=rf"--metrics-cert-dir {tmp_path}"):
        Certificates(tmp_path)


def test_a_self_signed_certificate_is_made_by_another_process(monkeypatch):
    monkeypatch.setattr("cryptography.x509.CertificateBuilder", None)  # in this process
    assert Certificates(None).context().get_ca_certs() == []


def test_without_a_directory_the_certificate_is_self_signed_and_tls_is_modern():
    assert Certificates(None).context().minimum_version >= ssl.TLSVersion.TLSv1_2
