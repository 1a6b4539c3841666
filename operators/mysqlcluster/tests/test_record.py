"""The record of an agent: it is replaced atomically, also on a full volume; servers start again when there is space."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from mysqlcluster.agent import process
from mysqlcluster.agent.process import ServerProcess, write_if_different
from mysqlcluster.agent.record import RESERVED_BYTES, Record, load_record, reserve_of, save_record
from mysqlcluster.agent.reserve import RESERVED_BYTES as SPACE_BYTES
from mysqlcluster.agent.reserve import SpaceReserve
from mysqlcluster.engines import Layout, ServerOptions
from mysqlcluster.observation import Role
from tests.volumes import limited_volumes

LONG = Record(
    epoch=2**63, role=Role.REPLICA, initialized=True, complete=True, has_relay_log=True, starts=2**31,
    accounts_revision="f" * 64, data_version="10.11.14-MariaDB-0+deb12u2-log",
)  # fmt: skip


def test_a_saved_record_is_loaded(tmp_path: Path):
    file = tmp_path / "agent.json"
    assert load_record(file) == Record()
    for record in (Record(epoch=1), LONG, Record(epoch=3)):
        save_record(file, record)
        assert load_record(file) == record


def test_a_record_uses_the_space_that_the_previous_one_has_reserved(tmp_path: Path):
    file = tmp_path / "agent.json"
    save_record(file, Record(epoch=1))
    reserve = reserve_of(file)
    reserved = reserve.stat()
    assert reserved.st_size == RESERVED_BYTES
    save_record(file, LONG)
    assert (file.stat().st_ino, file.stat().st_size) == (reserved.st_ino, RESERVED_BYTES)
    assert reserve.stat().st_size == RESERVED_BYTES


def test_a_damaged_record_is_an_error(tmp_path: Path):
    file = tmp_path / "agent.json"
    file.write_bytes(bytes(RESERVED_BYTES))
    with pytest.raises(ValueError, match="not the record of an agent"):
        load_record(file)


def test_a_full_volume_has_space_for_records_and_for_unchanged_files(tmp_path: Path):
    with limited_volumes(tmp_path, ["m-0"], 1) as volumes:
        directory = volumes["m-0"].directory
        file, configuration = directory / "agent.json", directory / "server.cnf"
        write_if_different(configuration, "unchanged")
        save_record(file, Record(epoch=1))
        volumes["m-0"].fill()
        for epoch in range(2, 30):
            save_record(file, Record(epoch=epoch))
            assert load_record(file).epoch == epoch
        write_if_different(configuration, "unchanged")
        reserve_of(file).unlink()
        volumes["m-0"].fill()
        with pytest.raises(OSError, match="No space left"):
            save_record(file, Record(epoch=30))
        assert load_record(file).epoch == 29


def test_the_reserve_is_released_only_on_a_full_volume(tmp_path: Path):
    with limited_volumes(tmp_path, ["m-0"], 100) as volumes:
        volume, reserve = volumes["m-0"], SpaceReserve(volumes["m-0"].directory)
        file = volume.directory / "space.reserve"
        reserve.hold()
        reserve.release_if_full()
        assert file.stat().st_blocks * 512 >= SPACE_BYTES
        volume.fill()
        reserve.release_if_full()
        assert not file.exists()
        reserve.hold()
        assert not file.exists(), "the space is for the server"
        volume.clear()
        reserve.hold()
        assert file.exists()


class Shell:
    """An engine whose server ends at once."""

    def configuration(self, layout: Layout, options: ServerOptions) -> str:
        return ""

    def server_command(self, layout: Layout) -> list[str]:
        return ["/bin/sh", "-c", "exit 0"]

    def environment(self, layout: Layout) -> dict[str, str]:
        return {}


async def test_a_server_that_could_not_start_because_of_a_full_volume_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(process, "RESTART_SECONDS", (0.01,))
    starts, enough = 0, asyncio.Event()

    def on_start() -> None:
        nonlocal starts
        starts += 1
        if starts in (2, 3):
            raise OSError(errno.ENOSPC, "No space left on device")
        if starts == 5:
            enough.set()

    engine: Any = Shell()
    server = ServerProcess(
        engine, Layout(Path("/"), tmp_path), ServerOptions(server_id=1, name="m-0"), on_start=on_start
    )
    await server.start()
    async with asyncio.timeout(30):
        await enough.wait()
    await server.stop(kill=True)
    assert not server.running
