"""The storage of the images: a killed build leaves nothing on the host, and unused images are deleted."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from steersman.testing.waiting import eventually
from tests.node.base_image import debian_root
from tests.node.commands import REPOSITORY
from tests.node.image_storage import Buildah, buildah, delete_unused_archives, exclusive

pytestmark = [pytest.mark.node, pytest.mark.gate]

_OWNER = """
import sys
from pathlib import Path
from tests.node.image_storage import buildah

home, root, shared = sys.argv[1:]
tool = buildah(Path(home))
container = tool("from", "scratch").strip()
tool("add", "--quiet", container, root, "/")
tool("run", "--volume", f"{shared}:/shared", container, "--", "sh", "-c", "touch /shared/started; sleep 600")
"""


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Buildah]:
    home = tmp_path / "containers"
    yield buildah(home)
    shutil.rmtree(home)


def _commit(tool: Buildah, directory: Path, name: str, content: str) -> None:
    """Create an image with one file."""
    file = directory / "file"
    file.write_text(content)
    container = tool("from", "scratch").strip()
    tool("add", "--quiet", container, file, "/")
    tool("commit", "--quiet", "--rm", container, name)


def _images(tool: Buildah) -> list[str | None]:
    """Return the first name of each image, or None."""
    found = json.loads(tool("images", "--all", "--json") or "[]") or []
    return [next(iter(image.get("names") or ()), None) for image in found]


def _commands_with(text: str) -> list[str]:
    """Return the processes of this machine whose command line contains a text."""
    found: list[str] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes()
        except OSError:
            continue  # The process has ended.
        if text.encode() in line:
            found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found


def test_a_killed_build_leaves_no_mounts_and_no_processes(storage: Buildah, tmp_path: Path) -> None:
    with exclusive():
        root = debian_root()
    shared = tmp_path / "shared"
    shared.mkdir()
    before = Path("/proc/self/mountinfo").read_text()
    command = [sys.executable, "-c", _OWNER, str(storage.home), str(root), str(shared)]
    with subprocess.Popen(command, cwd=REPOSITORY) as owner:
        try:
            eventually((shared / "started").exists, within=60, what="a command in the container")
            assert Path("/proc/self/mountinfo").read_text() == before
        finally:
            owner.kill()
    eventually(lambda: not _commands_with(str(shared)), within=30, what="the end of the processes")
    assert Path("/proc/self/mountinfo").read_text() == before
    storage.prune()
    assert storage("containers", "--quiet") == ""


def test_an_image_that_has_lost_its_name_is_deleted(storage: Buildah, tmp_path: Path) -> None:
    for tag in ("1", "1", "2"):
        _commit(storage, tmp_path, f"localhost/one:{tag}", f"{tag} {len(_images(storage))}")
    _commit(storage, tmp_path, "localhost/other:1", "other")
    assert sorted(map(str, _images(storage))) == ["None", "localhost/one:1", "localhost/one:2", "localhost/other:1"]
    storage.remove_other_tags("localhost/one:2")
    storage.prune()
    assert sorted(map(str, _images(storage))) == ["localhost/one:2", "localhost/other:1"]


def test_the_images_are_deleted_when_their_layers_exceed_the_limit(storage: Buildah, tmp_path: Path) -> None:
    _commit(storage, tmp_path, "localhost/one:1", "x" * 50_000)
    storage.prune(max_bytes=100_000)
    assert _images(storage) == ["localhost/one:1"]
    storage.prune(max_bytes=40_000)
    assert _images(storage) == []


def test_the_archives_that_were_not_used_for_the_longest_time_are_deleted(tmp_path: Path) -> None:
    for seconds, name in enumerate(("old", "middle", "new")):
        archive = tmp_path / f"{name}.tar"
        archive.write_bytes(b"x" * 400)
        os.utime(archive, (seconds, seconds))
    delete_unused_archives(tmp_path, max_bytes=1000)
    assert sorted(path.stem for path in tmp_path.glob("*.tar")) == ["middle", "new"]
