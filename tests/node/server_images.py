"""The images of the database servers and of RocketMQ, built by their own Dockerfiles, and cached as archives.

The Dockerfiles start from public images. Images made from Debian packages stand in for them under the same names, and
their package managers use the sources and caches of this machine.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.node.base_image import PIP, debian_root, digest, wheels
from tests.node.commands import CACHE, REPOSITORY
from tests.node.image_storage import Buildah, buildah, exclusive, is_cached, save_image

PYTHON_OF_SUITE = {"bookworm": "3.11", "trixie": "3.13", "sid": "3.14"}
_APT = Path("/etc/apt/apt.conf.d")
_MAVEN = Path.home() / ".m2"
_JAVA_PACKAGES = ("openjdk-17-jre-headless",)
_MAVEN_PACKAGES = ("maven", *_JAVA_PACKAGES)


@dataclass(frozen=True)
class ServerImage:
    """An image of a server."""

    name: str
    archive: Path

    @property
    def bytes(self) -> int:
        """The size of the archive, which is not compressed."""
        return self.archive.stat().st_size


def database_image(flavor: str, series: str, suite: str) -> ServerImage:
    """Return the image of a database server with the agent.

    Args:
        flavor: `mariadb` or `mysql`.
        series: The version in the name of the image.
        suite: The Debian release of the server's packages.
    """
    project = REPOSITORY / "operators/mysqlcluster"
    file = project / f"images/{flavor}.Dockerfile"
    sources = [file, project / "pyproject.toml", project / "requirements.lock", project / "mysqlcluster"]
    with exclusive():
        packages = wheels(PYTHON_OF_SUITE[suite])
        name = f"docker.io/steersman/{flavor}:{series}"
        archive = CACHE / f"server-{flavor}-{series}-{digest(*sources, *_own(), also=packages.name)}.tar"
        if not is_cached(archive):
            tool = buildah()
            tool.prune()
            _debian(tool, suite)
            pip = CACHE / "pip.conf"
            pip.write_text(PIP)
            mounts = {packages: "/opt/wheels", pip: "/etc/pip.conf", _APT: str(_APT)}
            with tempfile.TemporaryDirectory() as directory:
                context = Path(directory) / "context"
                shutil.copytree(project, context, ignore=shutil.ignore_patterns("tests", "__pycache__"))
                # buildah does not compare the files of mounts, but a changed file runs the installation again.
                with (context / "requirements.lock").open("a") as lock:
                    lock.write(f"# {packages.name}\n")
                _build(tool, context, file, {"VERSION": series}, mounts, "", name)
            save_image(tool, name, archive)
    return ServerImage(name, archive)


def rocketmq_image(server: str, version: str) -> ServerImage:
    """Return the image of a server of RocketMQ: `nameserver`, `broker`, `controller` or `proxy`."""
    directory = REPOSITORY / "operators/rocketmq/images"
    name = f"docker.io/library/rocketmq-{server}:{version}"
    with exclusive():
        archive = CACHE / f"server-rocketmq-{server}-{version}-{digest(directory, *_own())}.tar"
        if not is_cached(archive):
            tool = buildah()  # Nothing is pruned, because the servers share the stage that compiles them.
            arguments = {"VERSION": version}
            for argument, packages in (("JAVA", _JAVA_PACKAGES), ("MAVEN", _MAVEN_PACKAGES)):
                arguments[argument] = _with_packages(tool, argument.lower(), packages)
            _MAVEN.mkdir(exist_ok=True)
            mounts = {_MAVEN: "/root/.m2"}
            _build(tool, directory, directory / "Dockerfile", arguments, mounts, server, name)
            save_image(tool, name, archive)
    return ServerImage(name, archive)


def _own() -> tuple[Path, Path]:
    return Path(__file__), Path(__file__).with_name("base_image.py")


def _build(
    tool: Buildah,
    context: Path,
    file: Path,
    arguments: Mapping[str, str],
    mounts: Mapping[Path, str],
    target: str,
    name: str,
) -> None:
    """Build an image; `mounts` are directories and files of this machine, which the image does not get."""
    words = ["build", "--layers", "--pull-never", "--file", str(file), "--tag", name]
    words += ["--target", target] if target else []
    for argument, value in arguments.items():
        words += ["--build-arg", f"{argument}={value}"]
    for source, path in mounts.items():
        words += ["--volume", f"{source}:{path}"]
    tool(*words, context)


def _debian(tool: Buildah, suite: str) -> str:
    """Return the name of the public image of a Debian release, after creating its stand-in."""
    name = f"docker.io/library/debian:{suite}-slim"
    if not tool.has(name):
        container = tool("from", "scratch").strip()
        tool("add", "--quiet", container, debian_root(suite, ("ca-certificates",)), "/")
        tool("config", "--env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", container)
        tool("commit", "--quiet", "--rm", container, name)
    return name


def _with_packages(tool: Buildah, label: str, packages: tuple[str, ...]) -> str:
    """Return the name of an image of Debian with more packages."""
    name = f"localhost/steersman-{label}:{digest(also=repr(packages))}"
    if not tool.has(name):
        container = tool("from", "--pull-never", _debian(tool, "bookworm")).strip()
        # Packages of Java create links in this directory, which the image lacks like all documentation.
        install = "mkdir -p /usr/share/man/man1 && apt-get update && apt-get install --yes --no-install-recommends"
        script = f"{install} {' '.join(packages)} && rm -rf /var/lib/apt/lists/*"
        tool("run", "--volume", f"{_APT}:{_APT}", container, "--", "sh", "-ec", script)
        tool("commit", "--quiet", "--rm", container, name)
    return name
