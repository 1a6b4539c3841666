"""`python -m mysqlcluster.agent SETTINGS.json` runs the agent of one member."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from steersman.logs import configure, get_logger

from mysqlcluster.agent.api import AgentServer
from mysqlcluster.agent.exporter import Exporter
from mysqlcluster.agent.member import Member
from mysqlcluster.agent.settings import AgentSettings, SettingsError, load_settings, read_secrets
from mysqlcluster.agent.tls import Certificates
from mysqlcluster.engines import engine_of

_log = get_logger("mysqlcluster.agent")


async def run(settings: AgentSettings) -> None:
    """Run until SIGTERM or SIGINT."""
    secrets_directory = Path(settings.secrets_directory)
    certificates = Certificates(settings.tls_directory)
    member = Member(settings, engine_of(settings.flavor), lambda: read_secrets(secrets_directory), certificates)
    server = AgentServer(member, lambda: read_secrets(secrets_directory).accepted, certificates.server)
    exporter = Exporter(settings, lambda: read_secrets(secrets_directory), certificates)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    port = await server.start(settings.address, settings.agent_port)
    _log.info("agent_started", member=settings.member, port=port)
    try:
        await exporter.start()
        await member.open()
        await stop.wait()
    finally:
        await exporter.close()
        await server.close()
        await member.close()


def main() -> None:
    """Run the agent with the settings file of the command line."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m mysqlcluster.agent SETTINGS.json")
    configure()
    try:
        settings = load_settings(Path(sys.argv[1]), AgentSettings)
        read_secrets(Path(settings.secrets_directory))
        asyncio.run(run(settings))
    except (SettingsError, ValueError) as problem:
        sys.exit(f"agent: {problem}")
    except OSError as problem:
        sys.exit(f"agent: {problem}")


if __name__ == "__main__":
    main()
