"""Creates a directory with the jars of RocketMQ by Maven, and returns the commands that start its servers.

    python hack/rocketmq.py 5.5.0          prints the directory, which is created if it is missing

`images/pom.xml` lists the jars. They are stored in the cache directory of the user.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

MAVEN_SECONDS = 600
ARTIFACTS = ("rocketmq-namesrv", "rocketmq-broker", "rocketmq-controller", "rocketmq-proxy", "rocketmq-tools")
IMAGES = Path(__file__).resolve().parents[1] / "images"
"""The sources of the servers' images: the list of jars and the start scripts."""
MEMORY = (
    "-Xms128m",
    "-Xmx192m",
    "-Xmn64m",
    "-Xss512k",
    "-XX:MaxDirectMemorySize=128m",
    "-XX:MaxMetaspaceSize=128m",
    "-XX:ReservedCodeCacheSize=64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
)
MODULES = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
NO_TLS = "-Dtls.server.mode=disabled"
"""Without this option each server generates TLS keys when it starts, which takes seconds."""
SMALL_BROKER = {
    "mappedFileSizeCommitLog": "16777216",
    "mappedFileSizeConsumeQueue": "60000",
    "timerWheelEnable": "false",
    "brokerIP1": "127.0.0.1",
}
"""Settings of a broker that needs little disk and memory and listens on loopback."""


class ServerFilesError(RuntimeError):
    """The jars of RocketMQ are not available on this machine; the message says why."""


def make(version: str) -> Path:
    """Return the directory of the jars of one version, which is created if it is missing.

    Raises:
        ServerFilesError: Maven or Java is missing, Maven fails, or the version is not of the form 5.5.0.
    """
    if re.fullmatch(r"\d+\.\d+\.\d+", version) is None:
        raise ServerFilesError(f"the version {version!r} is not valid: use three numbers, as in 5.5.0")
    if shutil.which("java") is None:
        raise ServerFilesError("java is not installed; RocketMQ needs Java 17")
    # Pods of process nodes run as another user, which cannot read the home directory of root.
    home = Path("/var/cache") if os.geteuid() == 0 else Path.home() / ".cache"
    base = Path(os.environ.get("XDG_CACHE_HOME") or home) / "steersman" / "rocketmq" / version
    base.mkdir(parents=True, exist_ok=True)
    with open(base / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((base / "lib" / f"{artifact}-{version}.jar").exists() for artifact in ARTIFACTS):
            _copy_jars(base, version)
    return base / "lib"


def _copy_jars(base: Path, version: str) -> None:
    if shutil.which("mvn") is None:
        raise ServerFilesError("mvn is not installed; Maven fetches the jars of RocketMQ")
    fresh = base / "lib.new"
    shutil.rmtree(fresh, ignore_errors=True)
    command = ["mvn", "-q", "-B", "-f", str(IMAGES / "pom.xml"), f"-Drocketmq.version={version}"]
    try:
        done = subprocess.run(
            [*command, "dependency:copy-dependencies", f"-DoutputDirectory={fresh}"],
            capture_output=True,
            text=True,
            timeout=MAVEN_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise ServerFilesError(f"Maven did not finish within {MAVEN_SECONDS} seconds") from error
    if done.returncode:
        raise ServerFilesError(f"Maven has no jars of RocketMQ {version}: {(done.stdout + done.stderr).strip()[-500:]}")
    shutil.rmtree(base / "lib", ignore_errors=True)
    fresh.rename(base / "lib")


def image(version: str) -> dict[str, object]:
    """Return the entry of an images file of process nodes: the start scripts of an image, with small JVMs.

    Raises:
        ServerFilesError: the jars are not available.
    """
    path = os.pathsep.join((str(Path(shutil.which("java") or "java").parent), "/usr/sbin:/usr/bin:/sbin:/bin"))
    variables = {
        "PATH": path,
        "ROCKETMQ_HOME": "/tmp",
        "ROCKETMQ_LIB": str(make(version)),
        "JAVA_OPT": " ".join(MEMORY),
    }
    return {"workingDir": str(IMAGES / "bin"), "env": variables}


def properties(values: Mapping[str, object]) -> str:
    """Return the text of a server's configuration file."""
    return "".join(f"{name}={value}\n" for name, value in values.items())


def name_server(jars: Path, directory: Path, port: int) -> list[str]:
    """Write the configuration of a name server to `directory`, and return its command."""
    settings = {"listenPort": port, "bindAddress": "127.0.0.1", "kvConfigPath": directory / "kvConfig.json"}
    return _command(jars, directory, "org.apache.rocketmq.namesrv.NamesrvStartup", settings)


def broker(jars: Path, directory: Path, port: int, settings: Mapping[str, object]) -> list[str]:
    """Write the configuration of a broker to `directory`, and return its command.

    Args:
        jars: the directory that `make` returns.
        directory: the directory for the configuration, the store and the logs.
        port: the port of the broker, which uses `port` minus two for its fast remoting server.
        settings: settings of this broker, at least `namesrvAddr`, `brokerName` and `haListenPort`.
    """
    store = {"storePathRootDir": directory / "store", "storePathCommitLog": directory / "store/commitlog"}
    base = {**SMALL_BROKER, "listenPort": port, "bindAddress": "127.0.0.1", **store}
    return _command(jars, directory, "org.apache.rocketmq.broker.BrokerStartup", {**base, **settings})


def _command(jars: Path, directory: Path, main_class: str, settings: Mapping[str, object]) -> list[str]:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "server.conf").write_text(properties(settings))
    places = (f"-Duser.home={directory}", f"-Drocketmq.home.dir={directory}", f"-Djava.io.tmpdir={directory}")
    flags = (*MEMORY, *MODULES, NO_TLS, *places)
    return ["java", *flags, "-cp", f"{jars}/*", main_class, "-c", str(directory / "server.conf")]


def main() -> None:
    """Print the directory of the jars of one version."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="a release that has all server artifacts, such as 5.5.0")
    try:
        print(make(parser.parse_args().version))
    except ServerFilesError as problem:
        sys.exit(f"rocketmq: {problem}")


if __name__ == "__main__":
    main()
