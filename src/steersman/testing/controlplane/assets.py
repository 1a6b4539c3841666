"""Downloads envtest binaries (etcd, kube-apiserver, kubectl) for users without Go.

The logic of `steersman cluster assets`: reads the published index of releases, chooses the archive of this machine,
verifies its SHA-512 against the index, and unpacks it into the cache that the control plane fixture searches. An
archive with another checksum, an incomplete one, or one with anything but plain files is not installed. The
installation is atomic.
"""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import os
import platform
import re
import shutil
import sys
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import IO, Any, cast

from steersman import documents
from steersman.testing.controlplane.binaries import REQUIRED, cache_root

DEFAULT_INDEX = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
INDEX_VARIABLE = "STEERSMAN_ASSETS_INDEX"

Progress = Callable[[int, int | None], None]
"""Called with the number of received bytes and, if the server sent it, their total."""

_BINARIES = frozenset({"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"})
_ARCHIVE = re.compile(r"envtest-(?P<version>v\d.*?)-(?P<os>[a-z]+)-(?P<arch>[a-z0-9]+)\.tar\.gz")
_CHUNK = 1 << 18
_MAX_INDEX = 16 << 20
_MAX_UNPACKED = 4 << 30
_TIMEOUT = 30.0


class AssetsError(RuntimeError):
    """The download or the cache has a problem; the message names it and the solution."""


@dataclass(frozen=True)
class Release:
    """One archive of the index."""

    version: str
    os: str
    arch: str
    url: str
    sha512: str

    @property
    def name(self) -> str:
        """The directory of its installation, below the cache."""
        return f"envtest-{self.version}-{self.os}-{self.arch}"


@dataclass(frozen=True)
class Installed:
    """One set of binaries in the cache, downloaded or built."""

    name: str
    directory: Path
    """Contains the binaries."""


def this_platform() -> tuple[str, str]:
    """Return the operating system and architecture of this machine, as Go names them."""
    machine = platform.machine().lower()
    names = {"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "powerpc64le": "ppc64le"}
    return sys.platform, names.get(machine, machine)


def fetch_index(url: str | None = None) -> tuple[Release, ...]:
    """Read the index of releases (default: `$STEERSMAN_ASSETS_INDEX`, else controller-tools').

    Raises `AssetsError` if it is unavailable or invalid.
    """
    url = url or os.environ.get(INDEX_VARIABLE) or DEFAULT_INDEX
    with _open(url) as answer:
        content = answer.read(_MAX_INDEX)
    return parse_index(content, url)


def parse_index(content: bytes, url: str) -> tuple[Release, ...]:
    """Read an index document; archives without a platform in their names are skipped."""
    import yaml

    problem = AssetsError(
        f"{url} is not an index of envtest releases (a mapping `releases` of versions to archives with `hash` and "
        f"`selfLink`). Give another with --index or {INDEX_VARIABLE}."
    )
    releases: list[Release] = []
    try:
        document = cast("dict[str, dict[str, dict[str, dict[str, str]]]]", documents.load(content))
        for version, archives in document["releases"].items():
            for file, archive in archives.items():
                if match := _ARCHIVE.fullmatch(file):
                    # Mirrors may use relative links.
                    link = urllib.parse.urljoin(url, str(archive["selfLink"]))
                    digest = str(archive["hash"]).lower()
                    releases.append(Release(str(version), match["os"], match["arch"], link, digest))
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise problem from error
    return tuple(releases)


def pick(
    releases: Iterable[Release], version: str | None = None, *, os: str | None = None, arch: str | None = None
) -> Release:
    """Choose an archive: the newest stable one, or the newest whose version starts with `version` (`1.36`, `v1.36.0`).

    `os` and `arch` default to this machine's. Raises `AssetsError` with the available versions.
    """
    here = this_platform()
    wanted = (os or here[0], arch or here[1])
    fitting = sorted((r for r in releases if (r.os, r.arch) == wanted), key=_order)
    asked = f"v{version.removeprefix('v')}" if version else None
    found = [r for r in fitting if _matches(r.version, asked)]
    if found:
        return found[-1]
    versions = ", ".join(r.version for r in fitting[-10:]) or "no version at all"
    what = asked or "stable version"
    raise AssetsError(f"The index has no {what} for {'/'.join(wanted)}; for that platform it has {versions}.")


def install(release: Release, *, root: Path | None = None, progress: Progress | None = None) -> Installed:
    """Download, verify and unpack an archive into the cache; does nothing if it is already there.

    Raises `AssetsError` if the download fails, the SHA-512 differs, or the archive has unexpected content.
    """
    root = root or cache_root()
    target = Installed(release.name, root / release.name / "bin")
    if target.directory.is_dir():
        return target
    staging = root / ".staging"
    staging.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=staging, prefix=f"{release.name}-") as work:
        archive = Path(work) / "archive.tar.gz"
        _download(release, archive, progress)
        unpacked = Path(work) / release.name
        _unpack(archive, unpacked / "bin", release)
        try:
            unpacked.rename(root / release.name)
        except OSError:
            # Another process installed the same archive first: use that one.
            if not target.directory.is_dir():
                raise
    return target


def installed(root: Path | None = None) -> tuple[Installed, ...]:
    """Return the sets of binaries in the cache, by name."""
    root = root or cache_root()
    return tuple(
        Installed(directory.parent.name, directory)
        for directory in sorted(root.glob("*/bin"))
        if not directory.parent.is_symlink() and not directory.parent.name.startswith(".")
    )


def remove(name: str, *, root: Path | None = None) -> Installed:
    """Remove a set of binaries from the cache; raises `AssetsError` if there is none with this name."""
    there = installed(root)
    for one in there:
        if one.name == name:
            shutil.rmtree(one.directory.parent)
            return one
    names = ", ".join(one.name for one in there) or "nothing"
    raise AssetsError(f"The cache has no {name}; it has {names}.")


def _download(release: Release, path: Path, progress: Progress | None) -> None:
    digest = hashlib.sha512()
    received = 0
    with _open(release.url) as answer, path.open("wb") as file:
        length = answer.headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else None
        while chunk := _read(answer, release.url):
            file.write(chunk)
            digest.update(chunk)
            received += len(chunk)
            if progress is not None:
                progress(received, total)
    if total is not None and received < total:
        raise AssetsError(f"{release.url} broke off after {received} of {total} bytes. Try again.")
    if digest.hexdigest() != release.sha512:
        raise AssetsError(
            f"{release.url} does not have the checksum of the index: its SHA-512 is {digest.hexdigest()[:16]}…, not "
            f"{release.sha512[:16]}…. Nothing was installed. A proxy may have changed it, or the index is out of date."
        )


def _unpack(archive: Path, target: Path, release: Release) -> None:
    target.mkdir(parents=True)
    left = _MAX_UNPACKED
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                if not (member.isfile() or member.isdir()) or not _is_inside(member.name):
                    raise AssetsError(
                        f"{release.url} holds {member.name!r}, which is not a regular file "
                        "inside the archive. Nothing was installed."
                    )
                left -= member.size
                if left < 0:
                    raise AssetsError(f"{release.url} unpacks to more than {_MAX_UNPACKED >> 30} GiB.")
                name = Path(member.name).name
                source = tar.extractfile(member)
                # Only the binaries, by their own names: their directories in the archive do not matter.
                if source is not None and name in _BINARIES:
                    with (target / name).open("xb") as file:
                        shutil.copyfileobj(source, file)
                    (target / name).chmod(0o755)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise AssetsError(f"{release.url} cannot be unpacked: {error}. Nothing was installed.") from error
    if missing := [name for name in REQUIRED if not (target / name).is_file()]:
        raise AssetsError(f"{release.url} lacks {', '.join(missing)}. Nothing was installed.")


def _is_inside(name: str) -> bool:
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts


def _matches(version: str, asked: str | None) -> bool:
    if asked is None:
        return "-" not in version
    return version == asked or (version.startswith(f"{asked}.") and "-" not in version)


def _order(release: Release) -> tuple[tuple[int, ...], bool, str]:
    numbers, _, suffix = release.version.removeprefix("v").partition("-")
    return tuple(int(part) for part in re.findall(r"\d+", numbers)), not suffix, suffix


def _check_url(url: str) -> None:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or "")):
        return
    raise AssetsError(f"{url} is not an https:// address (plain http:// is accepted from this machine only).")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        _check_url(newurl)
        return super().redirect_request(req, fp, code, msg, cast("Any", headers), newurl)


@contextmanager
def _open(url: str) -> Generator[http.client.HTTPResponse]:
    _check_url(url)
    opener = urllib.request.build_opener(_Redirects())
    try:
        answer = cast("http.client.HTTPResponse", opener.open(url, timeout=_TIMEOUT))
    except urllib.error.HTTPError as error:
        error.close()
        raise AssetsError(f"{url} answered {error.code} {error.reason}.") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise AssetsError(
            f"{url} cannot be reached: {reason}. Check the network connection and the proxy settings."
        ) from error
    with answer:
        yield answer


def _read(answer: http.client.HTTPResponse, url: str) -> bytes:
    try:
        return answer.read(_CHUNK)
    except http.client.IncompleteRead as error:
        return error.partial
    except (OSError, http.client.HTTPException) as error:
        raise AssetsError(f"{url} broke off: {error}. Try again.") from error
