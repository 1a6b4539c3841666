"""Volumes of process nodes: tmpfs of medium Memory, and size limits."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steersman_cluster.nodes.process import tmpfs_keeper
from steersman_cluster.nodes.process.memory_volumes import MemoryVolumes, size_of
from steersman_cluster.nodes.process.volume_sizes import eviction_of, limited_volumes, used_bytes
from tests.cluster.nodes.test_containers import ROOT, SANDBOXED, Place, images, mode, place, root_with, until

__all__ = ["mode", "place"]

SANDBOXES = pytest.mark.parametrize("mode", SANDBOXED, indirect=True)
MOUNT = [{"name": "v", "mountPath": "/test-volume"}]


def in_memory(**fields: Any) -> dict[str, Any]:
    return {"name": "v", "emptyDir": {"medium": "Memory", **fields}}


def shell(script: str, **fields: Any) -> dict[str, Any]:
    return {"command": ["/bin/sh", "-c", script], "volumeMounts": MOUNT, **fields}


def machine_mounts() -> list[str]:
    return [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]


@SANDBOXES
async def test_a_volume_of_medium_memory_is_a_tmpfs_that_the_machine_does_not_see(place: Place) -> None:
    script = "stat -f -c %T /test-volume; stat -c %A /test-volume; echo here > /test-volume/f; cat /test-volume/f"
    before = machine_mounts()
    output = await place.ran("p", shell(script), volumes=[in_memory()])
    assert output == "tmpfs\ndrwxrwxrwx\nhere\n"
    assert machine_mounts() == before
    assert list((place.directory / "data/pods").glob("*/volumes/v/*")) == []


@SANDBOXES
async def test_containers_and_commands_of_a_pod_share_its_volume_of_medium_memory(place: Place) -> None:
    first = {"name": "first", "image": "steersman.dev/host", **shell("echo shared > /test-volume/f")}
    await place.pod("p", shell("exec sleep 1000"), volumes=[in_memory()], initContainers=[first])
    await place.until("p", lambda s: s.get("phase") == "Running")
    assert await place.run("p", "/bin/cat", "/test-volume/f") == (0, "shared\n")


@SANDBOXES
async def test_a_program_that_an_init_container_wrote_to_memory_runs(place: Place) -> None:
    script = "printf '#!/bin/sh\\necho made\\n' > /test-volume/tool; chmod 755 /test-volume/tool"
    first = {"name": "first", "image": "steersman.dev/host", **shell(script)}
    container = {"command": ["/test-volume/tool"], "volumeMounts": MOUNT}
    assert await place.ran("p", container, volumes=[in_memory()], initContainers=[first]) == "made\n"


@SANDBOXES
async def test_a_sub_path_of_a_volume_of_medium_memory_is_made_in_memory(place: Place) -> None:
    mounts = [{"name": "v", "mountPath": "/part", "subPath": "a/b"}, *MOUNT]
    container = {**shell("stat -f -c %T /part; echo x > /part/f; cat /test-volume/a/b/f"), "volumeMounts": mounts}
    assert await place.ran("p", container, volumes=[in_memory()]) == "tmpfs\nx\n"


@SANDBOXES
async def test_a_volume_of_medium_memory_survives_its_containers_and_ends_with_its_pod(place: Place) -> None:
    script = "test -e /test-volume/f && exit 0; echo x > /test-volume/f; exit 1"
    await place.ran("p", shell(script), volumes=[in_memory()], restartPolicy="OnFailure")
    memory: MemoryVolumes = place.node.agent.runtime._memory  # type: ignore[attr-defined]
    (directory,) = (place.directory / "data/pods").glob("*/volumes/v")
    assert (memory.visible(directory) / "f").read_text() == "x\n"
    await place.send("DELETE", "/api/v1/namespaces/default/pods/p")
    await place.until("p", lambda status: not status)

    async def there() -> bool:
        return memory.visible(directory).exists()

    await until(there, lambda found: not found)


@SANDBOXES
async def test_a_volume_of_medium_memory_is_full_at_its_size_limit(place: Place) -> None:
    script = "head -c 900000 /dev/zero > /test-volume/a && ! head -c 900000 /dev/zero > /test-volume/b 2>/dev/null"
    await place.ran("p", shell(script), volumes=[in_memory(sizeLimit="1Mi")])


@ROOT
@pytest.mark.parametrize("mode", ["namespaces"], indirect=True)
async def test_users_of_the_pods_group_write_to_its_volume_of_medium_memory(place: Place) -> None:
    script = (
        "umask 022; echo x > /test-volume/f; chmod 644 /test-volume/f; stat -c '%a %u %g' /test-volume /test-volume/f"
    )
    container = shell(script, securityContext={"runAsUser": 1001})
    output = await place.ran("p", container, volumes=[in_memory()], securityContext={"fsGroup": 123})
    assert output == "2777 0 123\n644 1001 123\n"


@SANDBOXES
async def test_an_image_of_its_own_sees_the_volume_of_medium_memory(place: Place) -> None:
    root_with(place.directory / "rootfs", "sh", "stat")
    images(place, app={"root": "rootfs"})
    container = {"image": "app", "command": ["sh", "-c", "stat -f -c %T /test-volume"], "volumeMounts": MOUNT}
    assert await place.ran("p", container, volumes=[in_memory()]) == "tmpfs\n"


@pytest.mark.parametrize("mode", ["plain"], indirect=True)
async def test_a_node_without_namespaces_keeps_volumes_of_medium_memory_on_disk(place: Place) -> None:
    container = {"command": ["/bin/sh", "-c", "echo x > $STEERSMAN_ROOT/test-volume/f"], "volumeMounts": MOUNT}
    await place.ran("p", container, volumes=[in_memory()])
    (file,) = (place.directory / "data/pods").glob("*/volumes/v/f")
    assert file.read_text() == "x\n"


@pytest.mark.parametrize("mode", ["plain"], indirect=True)
async def test_a_pod_whose_volume_exceeds_its_limit_is_evicted_with_the_words_of_a_kubelet(place: Place) -> None:
    script = "head -c 200000 /dev/zero > $STEERSMAN_ROOT/test-volume/f; echo full; exec sleep 1000"
    container = {"command": ["/bin/sh", "-c", script], "volumeMounts": MOUNT}
    small = {"command": ["/bin/sleep", "1000"], "volumeMounts": MOUNT}
    for name, fields in (("full", container), ("small", small)):
        await place.pod(name, fields, volumes=[{"name": "v", "emptyDir": {"sizeLimit": "100k"}}])
        await place.until(name, lambda s: s.get("phase") == "Running")
    await until(lambda: place.log("full"), lambda log: "full" in log)
    await place.node.agent.runtime.measurements.check_volume_sizes()  # type: ignore[attr-defined]
    status = await place.until("full", lambda s: s.get("phase") == "Failed")
    assert (status["reason"], status["message"]) == (
        "Evicted",
        'Usage of EmptyDir volume "v" exceeds the limit "100k". ',
    )
    assert (await place.status("small"))["phase"] == "Running"


def test_the_size_of_a_volume_in_memory_is_the_least_of_three_limits() -> None:
    allocatable = {"memory": "1Gi"}
    limited = {"resources": {"limits": {"memory": "100Mi"}}}
    assert size_of(in_memory(), {"containers": [{}]}, allocatable) == 1 << 30
    assert size_of(in_memory(), {"containers": [limited, limited]}, allocatable) == 200 << 20
    assert size_of(in_memory(), {"containers": [limited, {}]}, allocatable) == 1 << 30
    assert size_of(in_memory(sizeLimit="64Mi"), {"containers": [limited]}, allocatable) == 64 << 20
    assert size_of(in_memory(sizeLimit="4Gi"), {"containers": [{}]}, allocatable) == 1 << 30
    assert size_of(in_memory(), {"containers": [{}]}, {}) is None


def test_only_volumes_on_disk_with_a_positive_limit_are_judged() -> None:
    volumes = [
        {"name": "a", "emptyDir": {"sizeLimit": "1Mi"}},
        {"name": "b", "emptyDir": {"sizeLimit": "0"}},
        {"name": "c", "emptyDir": {}},
        {**in_memory(sizeLimit="1Mi"), "name": "d"},
        {"name": "e", "configMap": {"name": "e"}},
    ]
    limits = limited_volumes({"spec": {"volumes": volumes}})
    assert limits == {"a": "1Mi"}
    assert eviction_of(limits, {"a": 1 << 20}) is None
    assert eviction_of(limits, {}) is None
    assert eviction_of(limits, {"a": (1 << 20) + 1}) is not None


def test_usage_counts_each_file_once_and_follows_no_link(tmp_path: Path) -> None:
    directory = tmp_path / "volume"
    (directory / "sub").mkdir(parents=True)
    (directory / "sub/f").write_bytes(b"x" * 100_000)
    once = used_bytes(directory)
    assert once >= 100_000
    os.link(directory / "sub/f", directory / "again")
    (tmp_path / "outside").write_bytes(b"x" * 1_000_000)
    (directory / "link").symlink_to(tmp_path / "outside")
    assert used_bytes(directory) < once + 50_000
    assert used_bytes(tmp_path / "missing") == 0


@pytest.mark.skipif(not SANDBOXED or "namespaces" not in str(SANDBOXED), reason="no namespaces")
def test_the_holder_of_volumes_ends_when_its_node_is_killed(tmp_path: Path) -> None:
    code = f"""
import asyncio, os, sys
from pathlib import Path
from steersman_cluster.nodes.process.memory_volumes import MemoryVolumes
async def main():
    volumes = MemoryVolumes()
    await volumes.mount(Path({str(tmp_path)!r}), size=1 << 20, mode=0o777)
    print(volumes._process.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        keeper = int(node.stdout.readline())
        file = os.pidfd_open(keeper)
        node.send_signal(signal.SIGKILL)
    assert select.select([file], [], [], 30)[0], "the program still runs"
    os.close(file)


def test_an_order_that_fails_is_answered_with_its_error() -> None:
    answer = tmpfs_keeper.respond_to('{"what": "mount", "path": "/no/such/directory", "options": "mode=777"}')
    assert answer["errno"] in (1, 2)
