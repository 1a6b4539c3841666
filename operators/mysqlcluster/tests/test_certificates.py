"""The rotation of certificates: its steps as a pure function, with simulated servers, and on real servers."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import aiomysql
import pytest
from cryptography import x509
from msgspec.structs import replace
from steersman import Key, MergePatch
from steersman.k8s import Secret
from steersman.testing import simulated

from mysqlcluster import certificate_rotation, names
from mysqlcluster.agent.tls import certificate_revision
from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLCluster
from mysqlcluster.certificate_rotation import (
    OVERLAP,
    ROTATE_CERTIFICATES,
    CertificateChange,
    next_change,
    renewal_reason,
)
from mysqlcluster.certificates import VALIDITY, certificate_data
from tests.members import ROOT, SECRETS, Members, bootstrap, members_of, run, until

from .test_controller import running

KEY = Key("shop", "db")
HOSTS = names.dns_names(KEY)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def applied(data: Mapping[str, bytes], change: CertificateChange) -> dict[str, bytes]:
    return {key: value for key, value in {**data, **change.data}.items() if value is not None}


def changed(notes: Mapping[str, str], change: CertificateChange) -> dict[str, str]:
    return {key: value for key, value in {**notes, **change.annotations}.items() if value is not None}


def revision(data: Mapping[str, bytes]) -> str:
    return certificate_revision(data["ca.crt"], data["tls.crt"])


def steps(data: Mapping[str, bytes]) -> list[dict[str, bytes]]:
    """Return the content of the Secret after each step of a rotation."""
    found, notes, now = [dict(data)], {}, NOW
    for _ in range(3):
        change = next_change(
            found[-1], notes, "january", [revision(found[-1])] * 3, now, certificate_data(KEY.name, HOSTS, now)
        )
        assert change is not None
        found.append(applied(found[-1], change))
        notes, now = changed(notes, change), now + OVERLAP
    assert change.completed
    assert (
        next_change(found[-1], notes, "january", [revision(found[-1])] * 3, now, certificate_data(KEY.name, HOSTS, now))
        is None
    )
    return found


def test_the_new_authority_is_trusted_before_it_is_used_and_the_former_one_ends_last():
    before, trust, serve, after = steps(certificate_data(KEY.name, HOSTS, NOW))
    assert (trust["tls.crt"], serve["tls.crt"]) == (before["tls.crt"], after["tls.crt"])
    assert trust["ca.crt"] == serve["ca.crt"] == before["ca.crt"] + after["ca.crt"]
    assert before["ca.crt"] not in after["ca.crt"]
    assert set(after) == set(before)
    issuer = x509.load_pem_x509_certificate(after["ca.crt"])
    x509.load_pem_x509_certificate(after["tls.crt"]).verify_directly_issued_by(issuer)


def test_a_step_waits_for_every_member_and_for_the_overlap():
    data = certificate_data(KEY.name, HOSTS, NOW)
    begun = next_change(data, {}, "january", [], NOW, certificate_data(KEY.name, HOSTS, NOW))
    assert begun is not None
    content, notes = applied(data, begun), changed({}, begun)
    both, late = [revision(content)] * 2, NOW + OVERLAP
    assert next_change(content, notes, "january", [*both, revision(data)], late, {}) is None
    assert next_change(content, notes, "january", [*both, ""], late, {}) is None
    assert next_change(content, notes, "january", both, late - timedelta(seconds=1), {}) is None
    assert next_change(content, notes, "january", both, late, {}) is not None


def test_a_certificate_is_renewed_before_it_expires():
    data = certificate_data(KEY.name, HOSTS, NOW)
    assert not renewal_reason(data, {}, "", NOW + VALIDITY - timedelta(days=31))
    assert "expires" in renewal_reason(data, {}, "", NOW + VALIDITY - timedelta(days=29))


def test_another_process_creates_the_certificates_of_an_operator():
    script = (
        "import asyncio, sys\nfrom datetime import UTC, datetime\nfrom steersman import Key\n"
        "from mysqlcluster.certificate_process import create_certificates\n"
        "made = asyncio.run(create_certificates(Key('shop', 'db'), datetime.now(UTC)))\n"
        "print(*sorted(made), 'cryptography' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert output.split() == ["ca.crt", "tls.crt", "tls.key", "False"]


@simulated(seed=12)
async def test_an_annotation_replaces_the_certificates_step_by_step(simulation):
    servers = await running(simulation)

    async def content() -> Mapping[str, bytes]:
        return (await simulation.client.get(Secret, names.tls_name("db"), namespace="default")).data

    before = await content()
    short = timedelta(seconds=30)  # an hour of virtual time has thousands of reconciles
    patch = MergePatch({"metadata": {"annotations": {ROTATE_CERTIFICATES: "january"}}})
    await simulation.client.patch(MySQLCluster, "db", patch, namespace="default")
    with mock.patch.object(certificate_rotation, "OVERLAP", short):
        for _ in range(3):
            await simulation.passes(seconds=5)
            used = revision(await content())
            servers.members = {name: replace(each, tls_revision=used) for name, each in servers.members.items()}
            await simulation.passes(seconds=short.total_seconds() + 5)
    after = await content()
    assert set(after) == set(before)
    assert not {after[key] for key in after} & {before[key] for key in before}


# On real servers.


@pytest.fixture(params=["mariadb-10.11", "mysql-9.7"])
def server(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def one(server: str, tmp_path: Path) -> Iterator[Members]:
    data = certificate_data(KEY.name, HOSTS, datetime.now(UTC))
    with members_of(tmp_path, 1, server=server, certificates=data) as members:
        yield members


async def write_until(stop: asyncio.Event, members: Members, authorities: Path, written: list[int]) -> None:
    """Write a row on a new connection each time, which verifies the certificate of the server."""
    while not stop.is_set():
        async with connected(members, authorities) as connection:
            written.append(len(written) + 1)
            await run(connection, "INSERT INTO items VALUES (%s)", written[-1])


def connected(members: Members, authorities: Path) -> Any:
    return aiomysql.connect(
        host="localhost",
        port=members.server_ports["m-0"],
        user="app",
        password=SECRETS["application-password"],
        db="app",
        autocommit=True,
        ssl=ssl.create_default_context(cafile=str(authorities)),
    )


@pytest.mark.slow
async def test_servers_and_agents_use_each_certificate_without_a_failed_write(one: Members, tmp_path: Path):
    assert one.tls is not None
    first = {name: (one.tls / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")}
    contents = steps(first)
    # Clients read the authorities of a step before the next one.
    authorities = tmp_path / "authorities.pem"
    authorities.write_bytes(contents[1]["ca.crt"])
    written: list[int] = []
    stop = asyncio.Event()
    async with one.client() as client:
        await bootstrap(client, one)
        starts = (await client.state("m-0")).starts
        async with connected(one, authorities) as connection:
            await run(connection, "CREATE TABLE items (id BIGINT PRIMARY KEY)")
            async with asyncio.TaskGroup() as group:
                group.create_task(write_until(stop, one, authorities, written))
                for content in contents[1:]:
                    one.write_certificates(content)
                    wanted = revision(content)
                    await until(client, "m-0", lambda state, wanted=wanted: state.tls_revision == wanted)
                    reached = len(written) + 10
                    while len(written) < reached:  # noqa: ASYNC110 - real processes have no event
                        await asyncio.sleep(0.02)
                stop.set()
            # The connection of the first certificate is still open.
            ((count,),) = await run(connection, "SELECT COUNT(*) FROM items")
            assert count == len(written)
        assert (await client.state("m-0")).starts == starts
    served = await asyncio.to_thread(ssl.get_server_certificate, ("localhost", one.agent_ports["m-0"]))
    assert served.strip() == contents[-1]["tls.crt"].decode().strip()
    authorities.write_bytes(contents[-1]["ca.crt"])
    async with connected(one, authorities) as connection:  # the server has the new certificate too
        assert await run(connection, "SELECT 1") == [(1,)]
