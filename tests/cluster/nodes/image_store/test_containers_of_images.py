"""Containers that run from imported images on a process node."""

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steersman_cluster import nodes
from steersman_cluster.cluster import DevCluster, Options
from steersman_cluster.nodes.image_store import ImageStore
from steersman_cluster.nodes.process.sandbox import detect
from tests.cluster.nodes.image_store.archives import docker_archive, entry, layer
from tests.cluster.nodes.test_containers import Place, root_with

pytestmark = pytest.mark.skipif(detect() == "plain", reason="images need a sandbox")
NAME = "example.com/shell:1"
PASSWD = b"root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n"
GROUP = b"root:x:0:\napp:x:1000:\nextra:x:77:app\n"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    options = Options(listen=False, controllers=False, nodes=0)
    async with DevCluster.start(options) as cluster, cluster.client() as client:
        place = Place(client, None, tmp_path)  # type: ignore[arg-type]
        await place.create("serviceaccounts", "default")
        stores = [tmp_path / "store"]
        async with await nodes.start(client, "process", data=tmp_path / "data", stores=stores) as handles:
            place.node = handles
            yield place


def packed(directory: Path) -> bytes:
    """A layer of a root directory with a shell and `id`, and nothing else."""
    root = root_with(directory / "root", "sh", "id", "cat")
    with tarfile.open(directory / "layer.tar", "w") as tar:
        tar.add(root, "")
    return (directory / "layer.tar").read_bytes()


async def test_a_container_runs_from_an_imported_image_with_its_settings(place: Place) -> None:
    users = layer(entry("etc/"), entry("etc/passwd", PASSWD, mode=0o644), entry("etc/group", GROUP, mode=0o644))
    archive = docker_archive(
        place.directory / "image.tar",
        [packed(place.directory), users],
        NAME,
        Entrypoint=["/bin/sh", "-c", 'echo "$MODE $PWD $0 $(id -u):$(id -G)"'],
        Cmd=["argument"],
        Env=["MODE=fast", "PATH=/bin"],
        User="app",
        WorkingDir="/srv",
    )
    ImageStore(place.directory / "store").add(archive)
    output = await place.ran("web", {"image": NAME})
    who = "1000:1000 77" if os.geteuid() == 0 else output.split(maxsplit=3)[3].strip()
    assert output == f"fast /srv argument {who}\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root chooses users")
async def test_a_user_that_has_only_a_name_cannot_be_verified_as_non_root(place: Place) -> None:
    users = layer(entry("etc/"), entry("etc/passwd", PASSWD, mode=0o644))
    layers = [packed(place.directory), users]
    archive = docker_archive(place.directory / "image.tar", layers, NAME, User="app", Cmd=["/bin/sh"])
    ImageStore(place.directory / "store").add(archive)
    await place.pod("web", {"image": NAME}, securityContext={"runAsNonRoot": True})
    status = await place.until("web", lambda s: _waiting(s) not in ("", "ContainerCreating"))
    assert _waiting(status) == "CreateContainerConfigError"
    assert "non-numeric user (app)" in status["containerStatuses"][0]["state"]["waiting"]["message"]


def _waiting(status: dict[str, list[dict[str, dict[str, dict[str, str]]]]]) -> str:
    found = status.get("containerStatuses") or [{"state": {}}]
    return found[0]["state"].get("waiting", {}).get("reason", "")


async def test_an_image_that_is_imported_later_starts_the_container(place: Place) -> None:
    await place.pod("web", {"image": NAME, "command": ["/bin/sh", "-c", "exit 0"]})
    status = await place.until("web", lambda s: "Pull" in _waiting(s))
    assert "image import" in json.dumps(status)
    store = ImageStore(place.directory / "store")
    store.add(docker_archive(place.directory / "image.tar", [packed(place.directory)], NAME))
    await place.until("web", lambda s: s.get("phase") == "Succeeded")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("buildah") is None, reason="buildah is not installed")
@pytest.mark.skipif(os.geteuid() != 0, reason="buildah builds without namespaces as root only")
@pytest.mark.parametrize("transport", ["docker-archive:{0}/image.tar:" + NAME, "oci-archive:{0}/image.tar:" + NAME])
async def test_an_image_of_buildah_runs(place: Place, transport: str) -> None:
    storage = ["--root", str(place.directory / "storage"), "--runroot", str(place.directory / "run")]
    storage += ["--storage-driver", "vfs"]
    policy = place.directory / "policy.json"
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')

    def buildah(*words: str) -> str:
        done = subprocess.run(["buildah", *storage, *words], capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    root = root_with(place.directory / "root", "sh")
    container = buildah("from", "--signature-policy", str(policy), "scratch")
    buildah("copy", container, str(root), "/")
    buildah("config", "--entrypoint", '["/bin/sh", "-c"]', "--cmd", '"echo built"', "--env", "A=b", container)
    buildah("commit", "--signature-policy", str(policy), container, NAME)
    buildah("push", "--signature-policy", str(policy), NAME, transport.format(place.directory))
    (image,) = ImageStore(place.directory / "store").add(place.directory / "image.tar")
    assert image.name == NAME
    assert await place.ran("built", {"image": NAME}) == "built\n"
