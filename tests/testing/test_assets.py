"""`steersman cluster assets`, against a real HTTP server on loopback that also misbehaves."""

from __future__ import annotations

import hashlib
import http.server
import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from steersman.testing.controlplane import assets, assets_command
from steersman.testing.controlplane.assets import AssetsError, Release


@dataclass
class Site:
    """The served bodies by path; responses of `cut` paths end half-way, those of `moved` paths redirect."""

    url: str = ""
    bodies: dict[str, bytes] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    moved: dict[str, str] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    content = Site()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content.requests.append(self.path)
            if self.path in content.moved:
                self.send_response(302)
                self.send_header("Location", content.moved[self.path])
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = content.bodies.get(self.path)
            if body is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if self.path in content.cut else body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    content.url = f"http://127.0.0.1:{server.server_port}"
    yield content
    server.shutdown()
    server.server_close()
    thread.join()


def archive(*extra: tarfile.TarInfo, names: tuple[str, ...] = ("etcd", "kube-apiserver", "kubectl")) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name in names:
            member = tarfile.TarInfo(f"controller-tools/envtest/{name}")
            member.size = len(name)
            tar.addfile(member, io.BytesIO(name.encode()))
        for member in extra:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, 1 if kind == tarfile.REGTYPE else 0
    return info


def release(site: Site, body: bytes, *, sha512: str | None = None) -> Release:
    site.bodies["/envtest.tar.gz"] = body
    digest = sha512 or hashlib.sha512(body).hexdigest()
    return Release("v1.36.0", "linux", "amd64", f"{site.url}/envtest.tar.gz", digest)


def index(site: Site, body: bytes, *versions: str) -> str:
    document = {
        "releases": {
            version: {
                f"envtest-{version}-{os}-amd64.tar.gz": {
                    "hash": hashlib.sha512(body).hexdigest(),
                    "selfLink": f"{site.url}/{version}-{os}.tar.gz",
                }
                for os in ("linux", "darwin")
            }
            for version in versions
        }
    }
    site.bodies["/index.yaml"] = yaml.safe_dump(document).encode()
    for version in versions:
        site.bodies[f"/{version}-linux.tar.gz"] = body
    return f"{site.url}/index.yaml"


def assert_nothing_installed(root: Path) -> None:
    assert assets.installed(root) == ()
    assert [path for path in root.rglob("*") if path.is_file()] == []


def test_a_good_archive_is_installed_with_progress(site: Site, tmp_path: Path) -> None:
    body = archive()
    seen: list[tuple[int, int | None]] = []

    done = assets.install(release(site, body), root=tmp_path, progress=lambda *now: seen.append(now))

    assert sorted(path.name for path in done.directory.iterdir()) == ["etcd", "kube-apiserver", "kubectl"]
    assert (done.directory / "etcd").read_text() == "etcd"
    assert (done.directory / "etcd").stat().st_mode & 0o777 == 0o755
    assert seen[-1] == (len(body), len(body))
    assert assets.installed(tmp_path) == (done,)


def test_what_is_installed_is_not_fetched_again(site: Site, tmp_path: Path) -> None:
    wanted = release(site, archive())
    first = assets.install(wanted, root=tmp_path)

    assert assets.install(wanted, root=tmp_path) == first
    assert site.requests == ["/envtest.tar.gz"]


def test_a_wrong_checksum_installs_nothing(site: Site, tmp_path: Path) -> None:
    with pytest.raises(
        AssetsError, match=r"does not have the checksum of the index: its SHA-512 is [0-9a-f]{16}…, not 0{16}"
    ):
        assets.install(release(site, archive(), sha512="0" * 128), root=tmp_path)
    assert_nothing_installed(tmp_path)


def test_a_body_that_breaks_off_installs_nothing(site: Site, tmp_path: Path) -> None:
    wanted = release(site, archive())
    site.cut.add("/envtest.tar.gz")

    with pytest.raises(AssetsError, match=r"broke off after \d+ of \d+ bytes"):
        assets.install(wanted, root=tmp_path)
    assert_nothing_installed(tmp_path)


def test_a_missing_archive_is_named(site: Site, tmp_path: Path) -> None:
    wanted = release(site, archive())
    del site.bodies["/envtest.tar.gz"]

    with pytest.raises(AssetsError, match=r"/envtest\.tar\.gz answered 404"):
        assets.install(wanted, root=tmp_path)
    assert_nothing_installed(tmp_path)


@pytest.mark.parametrize(
    "bad",
    [
        member("../etcd"),
        member("a/../../etcd"),
        member("/etc/passwd"),
        member("controller-tools/link", tarfile.SYMTYPE, "/etc/passwd"),
        member("controller-tools/hard", tarfile.LNKTYPE, "controller-tools/envtest/etcd"),
        member("controller-tools/device", tarfile.CHRTYPE),
    ],
    ids=lambda bad: bad.name,
)
def test_an_archive_with_anything_but_plain_files_inside_it_is_refused(
    bad: tarfile.TarInfo, site: Site, tmp_path: Path
) -> None:
    root = tmp_path / "cache"

    with pytest.raises(AssetsError, match="not a regular file inside the archive"):
        assets.install(release(site, archive(bad)), root=root)
    assert_nothing_installed(tmp_path)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"not an archive", "cannot be unpacked"),
        (archive()[:70], "cannot be unpacked"),
        (archive(names=("etcd",)), "lacks kube-apiserver"),
    ],
    ids=["garbage", "damaged", "incomplete"],
)
def test_an_archive_that_is_not_whole_is_refused(body: bytes, message: str, site: Site, tmp_path: Path) -> None:
    with pytest.raises(AssetsError, match=message):
        assets.install(release(site, body), root=tmp_path)
    assert_nothing_installed(tmp_path)


def test_the_newest_stable_version_is_picked_and_a_prefix_narrows_it(site: Site) -> None:
    url = index(site, b"", "v1.9.0", "v1.36.0", "v1.36.10", "v1.36.9", "v1.37.0-alpha.1")
    releases = assets.fetch_index(url)

    def picked(version: str | None) -> str:
        return assets.pick(releases, version, os="linux", arch="amd64").version

    assert picked(None) == "v1.36.10"
    assert picked("1.9") == "v1.9.0"
    assert picked("v1.36.9") == "v1.36.9"
    assert picked("v1.37.0-alpha.1") == "v1.37.0-alpha.1"


def test_a_version_or_platform_that_is_not_there_lists_what_is(site: Site) -> None:
    releases = assets.fetch_index(index(site, b"", "v1.35.0", "v1.36.0"))

    with pytest.raises(AssetsError, match=r"no v1\.20 for linux/amd64; .* v1\.35\.0, v1\.36\.0"):
        assets.pick(releases, "1.20", os="linux", arch="amd64")
    with pytest.raises(AssetsError, match=r"for linux/sparc; .* no version at all"):
        assets.pick(releases, os="linux", arch="sparc")


@pytest.mark.parametrize("content", [b"<html>log in</html>", b"releases: [1]", b"releases: {v1: {a: b}}", b"a: [b"])
def test_an_index_that_is_something_else_is_an_error(content: bytes) -> None:
    if content == b"releases: {v1: {a: b}}":
        content = b"releases: {v1: {envtest-v1-linux-amd64.tar.gz: b}}"
    with pytest.raises(AssetsError, match="is not an index of envtest releases"):
        assets.parse_index(content, "https://example.com/index.yaml")


def test_an_index_out_of_reach_is_named() -> None:
    with pytest.raises(AssetsError, match=r"http://127\.0\.0\.1:1/index.* cannot be reached"):
        assets.fetch_index("http://127.0.0.1:1/index")


@pytest.mark.parametrize("url", ["http://example.com/index.yaml", "file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_only_tls_is_trusted_beyond_this_machine(url: str) -> None:
    with pytest.raises(AssetsError, match="is not an https:// address"):
        assets.fetch_index(url)


def test_a_redirect_away_from_tls_is_not_followed(site: Site) -> None:
    site.moved["/index.yaml"] = "http://example.com/index.yaml"

    with pytest.raises(AssetsError, match=r"http://example\.com/index\.yaml is not an https:// address"):
        assets.fetch_index(f"{site.url}/index.yaml")


def test_the_command_installs_lists_and_removes(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("STEERSMAN_CONTROLPLANE", "KUBEBUILDER_ASSETS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(assets.INDEX_VARIABLE, index(site, archive(), "v1.36.0"))
    run = CliRunner()
    app = assets_command.app
    name = "envtest-v1.36.0-linux-amd64"

    offered = run.invoke(app, ["list", "--remote", "--os", "linux", "--arch", "amd64"])
    installed = run.invoke(app, ["install", "1.36", "--os", "linux", "--arch", "amd64"])
    used = run.invoke(app, ["path"])
    listed = run.invoke(app, ["list"])
    removed = run.invoke(app, ["remove", name])
    after = run.invoke(app, ["path"])

    directory = str(tmp_path / "steersman/controlplane" / name / "bin")
    assert offered.stdout == "v1.36.0\n"
    assert installed.stdout == used.stdout == f"{directory}\n"
    assert "100 %" in installed.stderr
    assert listed.stdout == f"{name}\t{directory}\n"
    assert removed.exit_code == 0
    assert after.exit_code == 1
    assert "There are no control plane binaries" in after.stderr


def test_the_command_tells_errors_in_one_line(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    done = CliRunner().invoke(assets_command.app, ["install", "--index", f"{site.url}/none.yaml"])

    assert done.exit_code == 1
    assert done.stderr == f"steersman: {site.url}/none.yaml answered 404 Not Found.\n"
