"""The metrics of a server: their text, and real servers that are read with the account of the exporter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import aiohttp
import aiomysql
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mysqlcluster.agent.exporter import exposition
from tests.members import SECRETS, Members, bootstrap, members_of, run
from tests.test_monitoring import server_metrics


def test_numbers_and_switches_are_metrics_and_texts_are_not():
    status = [
        {"Variable_name": "Threads_connected", "Value": "3"},
        {"Variable_name": "Rpl_semi_sync_master_status", "Value": "ON"},
        {"Variable_name": "Ssl_cipher", "Value": "TLS_AES_256_GCM_SHA384"},
        {"Variable_name": "odd name", "Value": "1"},
    ]
    families = {each.name: each for each in text_string_to_metric_families(exposition(status, []))}
    values = {name: family.samples[0].value for name, family in families.items()}
    assert values == {
        "mysql_up": 1.0,
        "mysql_global_status_threads_connected": 3.0,
        "mysql_global_status_rpl_semi_sync_master_status": 1.0,
    }


@pytest.fixture(params=["mariadb-10.11", "mysql-9.7"])
def one(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Members]:
    with members_of(tmp_path, 1, server=request.param) as members:
        yield members


async def scraped(members: Members) -> dict[str, float]:
    url = f"http://127.0.0.1:{members.metrics_ports['m-0']}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 200
        text = await answer.text()
    return {each.name: each.samples[0].value for each in text_string_to_metric_families(text) if each.samples}


@pytest.mark.slow
async def test_a_server_is_measured_by_an_account_that_reads_no_data(one: Members):
    async with one.client() as client:
        await bootstrap(client, one)
        found = await scraped(one)
        assert found["mysql_up"] == 1
        assert found["mysql_global_status_threads_connected"] >= 1
        assert found["mysql_global_variables_max_connections"] > 1
        other = "master" if one.flavor == "mysql" else "source"  # each flavor has its own names of semi-synchronous
        assert {name for name in server_metrics() if f"semi_sync_{other}" not in name} <= set(found)
        connection = await aiomysql.connect(
            host="127.0.0.1", port=one.server_ports["m-0"], user="exporter", password=SECRETS["exporter-password"]
        )
        try:
            assert ("app",) not in await run(connection, "SHOW DATABASES")
            with pytest.raises(aiomysql.OperationalError, match="denied"):
                await run(connection, "CREATE TABLE app.other (id INT)")
        finally:
            connection.close()
    one.kill_server("m-0")
    assert (await scraped(one))["mysql_up"] in (0, 1)  # the agent restarts the server
