"""Imports of image archives: formats, layers, names, and archives that must be refused."""

import gzip
import os
import tarfile
from pathlib import Path

import pytest

from steersman_cluster.nodes.image_store import ImageArchiveError, ImageStore
from steersman_cluster.nodes.image_store.errors import Limits
from tests.cluster.nodes.image_store.archives import docker_archive, entry, hard_link, layer, oci_layout, symlink

NAME = "example.com/app:1.0"


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "store")


def root_of(store: ImageStore, tmp_path: Path, *layers: bytes) -> Path:
    (image,) = store.add(docker_archive(tmp_path / "image.tar", list(layers), NAME))
    return image.root


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_a_docker_archive_gives_files_and_settings(store: ImageStore, tmp_path: Path) -> None:
    archive = docker_archive(
        tmp_path / "image.tar",
        [layer(entry("etc/"), entry("etc/motd", b"hello", mode=0o640))],
        NAME,
        Entrypoint=["/bin/app"],
        Cmd=["serve"],
        Env=["MODE=fast", "EMPTY="],
        User="1000:50",
        WorkingDir="/srv",
        StopSignal="SIGQUIT",
    )
    store.add(archive)
    found = store.find(NAME)
    assert found is not None
    assert (found.root / "etc/motd").read_bytes() == b"hello"
    assert (found.root / "etc/motd").stat().st_mode & 0o777 == 0o640
    assert found.entrypoint == ("/bin/app",)
    assert found.command == ("serve",)
    assert found.env == {"MODE": "fast", "EMPTY": ""}
    assert (found.user, found.working_dir, found.stop_signal) == ("1000:50", "/srv", "SIGQUIT")


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_an_oci_layout_is_read_with_layers_of_each_compression(
    store: ImageStore, tmp_path: Path, compression: str
) -> None:
    layout = oci_layout(tmp_path / "layout", [layer(entry("a", b"1"))], NAME, compression)
    (image,) = store.add(layout)
    assert (image.root / "a").read_bytes() == b"1"
    assert image.digest.startswith("sha256:")
    assert store.find(f"example.com/app@{image.digest}") == image


def test_an_oci_archive_may_be_compressed_as_a_whole(store: ImageStore, tmp_path: Path) -> None:
    layout = oci_layout(tmp_path / "layout", [layer(entry("a", b"1"))], NAME)
    with tarfile.open(tmp_path / "image.tar.gz", "w:gz") as tar:
        tar.add(layout, ".")
    (image,) = store.add(tmp_path / "image.tar.gz")
    assert files(image.root) == ["a"]


def test_whiteouts_delete_what_lower_layers_have(store: ImageStore, tmp_path: Path) -> None:
    lower = layer(entry("d/"), entry("d/a", b"1"), entry("d/b", b"1"), entry("e/"), entry("e/old", b"1"))
    upper = layer(entry("d/.wh.a"), entry("e/new", b"2"), entry("e/.wh..wh..opq"))
    assert files(root_of(store, tmp_path, lower, upper)) == ["d", "d/b", "e", "e/new"]


def test_hard_links_share_a_file(store: ImageStore, tmp_path: Path) -> None:
    root = root_of(store, tmp_path, layer(entry("a", b"1"), hard_link("b", "a")))
    assert (root / "a").stat().st_ino == (root / "b").stat().st_ino


def test_an_absolute_link_on_the_way_leads_below_the_root_directory(store: ImageStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = root_of(store, tmp_path, layer(symlink("l", str(outside)), entry("l/file", b"1")))
    assert list(outside.iterdir()) == []
    assert (root / str(outside).lstrip("/") / "file").read_bytes() == b"1"


def test_a_file_replaces_a_link_instead_of_following_it(store: ImageStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    root = root_of(store, tmp_path, layer(symlink("l", str(outside))), layer(entry("l", b"theirs")))
    assert outside.read_bytes() == b"mine"
    assert (root / "l").read_bytes() == b"theirs"


def test_modes_of_directories_do_not_follow_a_link_that_came_later(store: ImageStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "b").mkdir(parents=True, mode=0o700)
    lower = layer(entry("a/"), entry("a/b/", mode=0o777))
    root_of(store, tmp_path, lower, layer(entry(".wh.a"), symlink("a", str(outside))))
    assert (outside / "b").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (entry("../evil", b"1"), "leads out of the image"),
        (entry("a/../../evil", b"1"), "leads out of the image"),
        (hard_link("b", "../../etc/passwd"), "leads out of the image"),
        (hard_link("b", "missing"), "is not a file"),
        (entry("d/.wh..."), "not a valid whiteout"),
        (entry("/".join("d" * 300), b"1"), "directories above it"),
    ],
)
def test_an_entry_that_leads_out_of_the_image_is_refused(
    store: ImageStore, tmp_path: Path, bad: tuple[tarfile.TarInfo, bytes], message: str
) -> None:
    with pytest.raises(ImageArchiveError, match=message):
        root_of(store, tmp_path, layer(entry("a/"), bad))
    assert store.list() == []
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["roots"]


def test_links_in_a_circle_are_refused(store: ImageStore, tmp_path: Path) -> None:
    with pytest.raises(ImageArchiveError, match="too many links"):
        root_of(store, tmp_path, layer(symlink("a", "b"), symlink("b", "a"), entry("a/file", b"1")))


def test_an_image_beyond_a_limit_is_refused(tmp_path: Path) -> None:
    archive = docker_archive(tmp_path / "image.tar", [layer(entry("a", bytes(100_000)), entry("b", b"1"))], NAME)
    with pytest.raises(ImageArchiveError, match="larger than the limit"):
        ImageStore(tmp_path / "one", limits=Limits(unpacked_bytes=50_000)).add(archive)
    with pytest.raises(ImageArchiveError, match="more than 1 files"):
        ImageStore(tmp_path / "two", limits=Limits(entries=1)).add(archive)


def test_a_compressed_layer_is_held_to_the_limit_while_it_is_unpacked(tmp_path: Path) -> None:
    layout = oci_layout(tmp_path / "layout", [layer(entry("a", bytes(50_000_000)))], NAME, "zstd")
    with pytest.raises(ImageArchiveError, match="larger than the limit"):
        ImageStore(tmp_path / "store", limits=Limits(unpacked_bytes=1_000_000)).add(layout)


def test_an_extended_header_of_any_size_is_refused(store: ImageStore, tmp_path: Path) -> None:
    info = tarfile.TarInfo("header")
    info.type = tarfile.XHDTYPE
    info.size = 4 << 20
    data = info.tobuf() + bytes(4 << 20) + layer(entry("a", b"1"))
    with pytest.raises(ImageArchiveError, match="too large"):
        root_of(store, tmp_path, data)


def test_a_damaged_layer_is_refused(store: ImageStore, tmp_path: Path) -> None:
    layout = oci_layout(tmp_path / "layout", [layer(entry("a", b"1"))], NAME)
    for blob in (layout / "blobs/sha256").iterdir():
        if blob.read_bytes().startswith(b"\x1f\x8b"):
            blob.write_bytes(gzip.compress(layer(entry("a", b"2"))))
    with pytest.raises(ImageArchiveError, match="damaged"):
        store.add(layout)


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b broken", layer(entry("a", b"1"))])
def test_a_file_that_is_no_image_archive_is_refused(store: ImageStore, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ImageArchiveError, match="is not an image archive"):
        store.add(tmp_path / "file")


def test_an_image_without_a_name_needs_a_tag(store: ImageStore, tmp_path: Path) -> None:
    archive = docker_archive(tmp_path / "image.tar", [layer(entry("a", b"1"))])
    with pytest.raises(ImageArchiveError, match="--tag"):
        store.add(archive)
    assert [image.name for image in store.add(archive, "app")] == ["docker.io/library/app:latest"]


@pytest.mark.parametrize("wanted", ["nginx", "nginx:latest", "docker.io/nginx", "docker.io/library/nginx:latest"])
def test_short_names_are_those_of_docker(store: ImageStore, tmp_path: Path, wanted: str) -> None:
    store.add(docker_archive(tmp_path / "image.tar", [layer(entry("a", b"1"))], "nginx:latest"))
    assert store.find(wanted) is not None
    assert store.find("nginx:1.29") is None


def test_a_short_name_finds_an_image_that_was_built_here(store: ImageStore, tmp_path: Path) -> None:
    store.add(docker_archive(tmp_path / "image.tar", [layer(entry("a", b"1"))], "localhost/app:1.0"))
    assert store.find("app:1.0") is not None


def test_an_image_in_use_is_not_removed(store: ImageStore, tmp_path: Path) -> None:
    (image,) = store.add(docker_archive(tmp_path / "image.tar", [layer(entry("a", b"1"))], NAME))
    node = ImageStore(store.directory)
    node.hold(image)
    with pytest.raises(ImageArchiveError, match="a running cluster uses"):
        store.remove(NAME)
    node.release()
    assert store.remove(NAME) == NAME
    assert not image.root.exists()
    assert store.find(NAME) is None


def test_a_second_import_of_a_name_replaces_the_first(store: ImageStore, tmp_path: Path) -> None:
    store.add(docker_archive(tmp_path / "one.tar", [layer(entry("a", b"1"))], NAME))
    store.add(docker_archive(tmp_path / "two.tar", [layer(entry("a", b"2"))], NAME))
    (image,) = store.list()
    assert (image.root / "a").read_bytes() == b"2"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files their owners")
def test_files_have_the_owners_of_the_layer(store: ImageStore, tmp_path: Path) -> None:
    root = root_of(store, tmp_path, layer(entry("a", b"1", uid=1234, gid=56, mode=0o4755)))
    found = (root / "a").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (1234, 56, 0o4755)
