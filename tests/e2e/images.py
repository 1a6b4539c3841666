"""The images that the conformance tests name, as root file systems made from Debian packages and built programs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

__all__ = ["IMAGES", "Image", "ImageBuildError", "build", "images_file"]

_APT_SECONDS: Final = 600
_E2E: Final = "registry.k8s.io/e2e-test-images"

_BUSYBOX: Final = ("busybox", "libc6", "netbase")
_AGNHOST: Final = (*_BUSYBOX, "bash", "bind9-dnsutils", "curl", "netcat-openbsd", "iproute2", "libc-bin", "util-linux")

_PASSWD: Final = """\
root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/bin/false
www-data:x:33:33:www-data:/var/www:/bin/false
user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/false
"""
_GROUP: Final = """\
root:x:0:
daemon:x:1:
tty:x:5:
www-data:x:33:
user-defined-in-image:x:1000:
group-defined-in-image:x:50000:user-defined-in-image
nogroup:x:65534:
"""
_NGINX_CONF: Final = """\
user root;
worker_processes 1;
error_log /dev/stderr notice;
pid /tmp/nginx.pid;
events { worker_connections 256; }
http {
    include /etc/nginx/mime.types;
    access_log /dev/stdout;
    server {
        listen 80;
        location / { root /usr/share/nginx/html; index index.html; }
    }
}
"""
_WELCOME: Final = "<html><head><title>Welcome to nginx!</title></head><body><h1>Welcome to nginx!</h1></body></html>\n"


class ImageBuildError(RuntimeError):
    """An image cannot be built on this machine; the message says why."""


@dataclass(frozen=True)
class Image:
    """The content of an image.

    Args:
        packages: The Debian packages that are unpacked, with everything that they depend on.
        programs: Programs by their path in the image; `etcd` is that of the control plane.
        links: Symbolic links by their path in the image.
        files: Texts by their path in the image.
        sources: Directories of the module of Kubernetes whose files are copied to the root.
        setuid: Paths of programs that run as their owner, root.
        command: The entry point.
        args: The default arguments.
    """

    names: tuple[str, ...]
    packages: tuple[str, ...] = ()
    programs: Mapping[str, str] = field(default_factory=dict[str, str])
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    sources: tuple[str, ...] = ()
    setuid: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


def _agnhost(
    *names: str,
    args: tuple[str, ...] = ("pause",),
    sources: tuple[str, ...] = (),
    files: Mapping[str, str] | None = None,
) -> Image:
    return Image(
        names,
        _AGNHOST,
        {"agnhost": "agnhost"},
        {"agnhost-2": "agnhost", "usr/bin/nc": "nc.openbsd"},
        files or {},
        sources=("test/images/agnhost/porter", *sources),
        command=("/agnhost",),
        args=args,
    )


IMAGES: Final[Mapping[str, Image]] = {
    "agnhost": _agnhost(f"{_E2E}/agnhost"),
    # The test of image volumes looks for the distribution that the original is built on.
    "kitten": _agnhost(
        f"{_E2E}/kitten",
        args=("test-webserver",),
        sources=("test/images/kitten/html",),
        files={"etc/os-release": 'NAME="Alpine Linux"\n'},
    ),
    "nautilus": _agnhost(f"{_E2E}/nautilus", args=("test-webserver",), sources=("test/images/nautilus/html",)),
    # The original's ash keeps environment variables whose names are no identifiers, Debian's older one drops them:
    # /bin/sh is busybox, and the sh that a container finds by PATH is bash.
    "busybox": Image(
        (f"{_E2E}/busybox", "busybox"),
        (*_BUSYBOX, "bash"),
        links={"usr/bin/sh": "busybox", "usr/local/bin/sh": "/usr/bin/bash"},
        command=("sh",),
    ),
    "glibc-dns-testing": Image((f"{_E2E}/glibc-dns-testing",), (*_AGNHOST, "coreutils", "hostname"), command=("bash",)),
    "nonewprivs": Image(
        (f"{_E2E}/nonewprivs",),
        _BUSYBOX,
        {"usr/local/bin/nnp": "nnp"},
        setuid=("usr/local/bin/nnp",),
        command=("nnp",),
    ),
    "nginx": Image(
        (f"{_E2E}/nginx", "nginx"),
        (*_BUSYBOX, "nginx-light"),
        files={"etc/nginx/nginx.conf": _NGINX_CONF, "usr/share/nginx/html/index.html": _WELCOME},
        command=("/usr/sbin/nginx", "-g", "daemon off;"),
    ),
    "pause": Image(("registry.k8s.io/pause",), programs={"pause": "pause"}, command=("/pause",)),
    "etcd": Image(
        ("registry.k8s.io/etcd",), _BUSYBOX, {"usr/local/bin/etcd": "etcd"}, command=("/usr/local/bin/etcd",)
    ),
    "sample-apiserver": Image(
        (f"{_E2E}/sample-apiserver",),
        _BUSYBOX,
        {"sample-apiserver": "sample-apiserver"},
        command=("/sample-apiserver",),
    ),
    "resource-consumer": Image(
        (f"{_E2E}/resource-consumer",),
        _BUSYBOX,
        {"consumer": "resource-consumer", "consume-cpu": "consume-cpu"},
        command=("/consumer",),
    ),
}
"""The images by the name of their root directory."""


def images_file(directory: Path) -> Path:
    """Return the images file for the nodes, written into the directory of the root file systems."""
    images = {
        name: {"root": root, "command": list(image.command), "args": list(image.args)}
        for root, image in IMAGES.items()
        for name in image.names
    }
    path = directory / "images.yaml"
    path.write_text(yaml.safe_dump({"images": images}))
    return path


def build(directory: Path, programs: Mapping[str, Path], source: Path) -> None:
    """Make the root file systems that are missing.

    Args:
        directory: Where each image gets a directory of its name.
        programs: The built programs by name.
        source: The directory of Kubernetes' module.

    Raises:
        ImageBuildError: apt is missing, or it does not have the packages.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name, image in IMAGES.items():
            stamp = hashlib.sha256(f"{image!r}{_PASSWD}{_GROUP}".encode()).hexdigest()
            root, mark = directory / name, directory / f".{name}.complete"
            if mark.exists() and mark.read_text() == stamp:
                continue
            mark.unlink(missing_ok=True)
            shutil.rmtree(root, ignore_errors=True)
            _make(root, image, directory / "packages", programs, source)
            mark.write_text(stamp)


def _make(root: Path, image: Image, packages: Path, programs: Mapping[str, Path], source: Path) -> None:
    for path in ("dev", "etc", "proc", "root", "sys", "tmp", "uploads", "var/log/nginx", "var/lib/nginx/body", "home"):
        (root / path).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    if image.packages:
        _unpack(root, _packages(image.packages, packages))
        _link_busybox(root)
    for path, program in image.programs.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(programs[program], root / path)
        (root / path).chmod(0o755)
    for path, target in image.links.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).unlink(missing_ok=True)
        (root / path).symlink_to(target)
    for path, text in {"etc/passwd": _PASSWD, "etc/group": _GROUP, **image.files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).unlink(missing_ok=True)  # the file may be a link
        (root / path).write_text(text)
    for path in image.setuid:
        (root / path).chmod(0o4755)
    for file in (file for directory in image.sources for file in (source / directory).iterdir()):
        if file.is_file():
            shutil.copyfile(file, root / file.name)


def _unpack(root: Path, packages: list[Path]) -> None:
    """Unpack packages into a root directory whose /bin, /sbin and /lib are links, as in Debian's."""
    for link in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / link).mkdir(parents=True, exist_ok=True)
        (root / link).symlink_to(f"usr/{link}")
    unpack = 'dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2"'
    for package in packages:
        _run(["bash", "-o", "pipefail", "-c", unpack, "-", str(package), str(root)])
    for waste in ("usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(root / waste, ignore_errors=True)


def _packages(names: tuple[str, ...], directory: Path) -> list[Path]:
    """Download the packages with all that they depend on, and return their files."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise ImageBuildError("apt-get and dpkg-deb are needed, as on Debian and Ubuntu")
    directory.mkdir(exist_ok=True)
    nothing_installed = ["-o", "Dir::State::status=/dev/null"]
    simulated = _run(["apt-get", *nothing_installed, "install", "--simulate", "--no-install-recommends", *names])
    found = re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+)", simulated, re.MULTILINE)
    if not found:
        raise ImageBuildError(f"apt-get does not have {', '.join(names)}; try: apt-get update")
    patterns = {
        f"{name}={version}": f"{name.split(':')[0]}_{version.replace(':', '%3a')}_*.deb" for name, version in found
    }
    missing = [package for package, pattern in patterns.items() if not list(directory.glob(pattern))]
    if missing:
        _run(["apt-get", "download", "-o", "APT::Sandbox::User=root", *missing], directory)
    return [file for pattern in patterns.values() for file in directory.glob(pattern)]


def _link_busybox(root: Path) -> None:
    """Make links for busybox's programs that no package brings."""
    busybox = root / "usr/bin/busybox"
    for applet in _run([str(shutil.which("chroot")), str(root), "/bin/busybox", "--list"]).split():
        places = [root / "usr/bin" / applet, root / "usr/sbin" / applet]
        if not any(os.path.lexists(place) for place in places):
            (busybox.parent / applet).symlink_to("busybox")


def _run(command: list[str], directory: Path | None = None) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=_APT_SECONDS, check=False)
    if done.returncode:
        raise ImageBuildError(f"`{' '.join(command[:3])}` failed: {done.stderr.strip()[-500:]}")
    return done.stdout
