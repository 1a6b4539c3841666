"""The environment, programs and root directory of a container on a process node, in every mode."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from steersman.client import Client, NotFound
from steersman_cluster import nodes
from steersman_cluster.cluster import DevCluster, Options
from steersman_cluster.kubelet import LogOptions
from steersman_cluster.nodes.process.cleanup import marked
from steersman_cluster.nodes.process.sandbox import detect, works

HOST = "steersman.dev/host"
SANDBOXED = [
    pytest.param("bubblewrap", marks=pytest.mark.skipif(not works("bubblewrap"), reason="bubblewrap does not work")),
    pytest.param("namespaces", marks=pytest.mark.skipif(detect() == "plain", reason="no namespaces")),
]
MODES = [*SANDBOXED, "plain"]
SHOW_ENVIRONMENT = "import os; print(*sorted(f'{k}={v}' for k, v in os.environ.items()), sep='\\n')"


class Place:
    """A process node on an embedded cluster without controllers, and a directory below the temporary one."""

    def __init__(self, client: Client, node: nodes.Nodes, directory: Path) -> None:
        self.client = client
        self.node = node
        self.directory = directory

    @property
    def limits(self) -> list[str]:
        """The node's control groups; none where this process may not make them."""
        groups = self.node.agent.runtime._groups  # type: ignore[attr-defined]
        return groups.directories if groups is not None else []

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        import json

        data = None if body is None else json.dumps(body).encode()
        return json.loads((await self.client.raw.request(method, path, body=data)).body)

    async def create(self, plural: str, name: str, **fields: Any) -> Any:
        return await self.send("POST", f"/api/v1/namespaces/default/{plural}", {"metadata": {"name": name}, **fields})

    async def pod(self, name: str, container: dict[str, Any], **spec: Any) -> None:
        fields = {"nodeName": "node-1", "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, **spec}
        await self.create("pods", name, spec={**fields, "containers": [{"name": "c", "image": HOST, **container}]})

    async def status(self, name: str) -> Any:
        try:
            return (await self.send("GET", f"/api/v1/namespaces/default/pods/{name}")).get("status") or {}
        except NotFound:
            return {}

    async def until(self, name: str, holds: Callable[[Any], Any]) -> Any:
        return await until(lambda: self.status(name), holds)

    async def log(self, name: str) -> str:
        kubelet = self.node.kubelets["node-1"]
        return b"".join([chunk async for chunk in kubelet.logs("default", name, "", LogOptions())]).decode()

    async def ran(self, name: str, container: dict[str, Any], **spec: Any) -> str:
        """The output of a Pod that has succeeded."""
        await self.pod(name, container, **spec)
        status = await self.until(name, lambda s: s.get("phase") in ("Succeeded", "Failed"))
        output = await self.log(name)
        assert status["phase"] == "Succeeded", (status["containerStatuses"], output)
        return output

    async def run(self, name: str, *command: str) -> tuple[int, str]:
        kubelet = self.node.kubelets["node-1"]
        session = await kubelet.exec("default", name, "", command, stdin=False, tty=False)
        output = b"".join([data async for _, data in session])
        code = await session.wait()
        await session.close()
        return code, output.decode()


def existing(paths: list[str]) -> list[str]:
    return [path for path in paths if os.path.exists(path)]


async def until(read: Callable[[], Awaitable[Any]], holds: Callable[[Any], Any]) -> Any:
    found: Any = None
    try:
        async with asyncio.timeout(60):
            while True:
                found = await read()
                if holds(found):
                    return found
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"it did not come about: {found}") from None


@pytest.fixture
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def place(tmp_path: Path, mode: str) -> AsyncIterator[Place]:
    options = Options(listen=False, controllers=False, nodes=0)
    images = tmp_path / "images.yaml"
    images.write_text("images: {}\n")
    async with DevCluster.start(options) as cluster, cluster.client() as client:
        place = Place(client, None, tmp_path)  # type: ignore[arg-type]
        await place.create("serviceaccounts", "default")
        data = tmp_path / "data"
        handles = await nodes.start(client, "process", images=images, data=data, mode=mode)  # type: ignore[arg-type]
        place.node = handles
        yield place
        mark = handles.agent.runtime.mark  # type: ignore[attr-defined]
        groups = place.limits
        await handles.close()
        assert marked(mark) == []
        assert existing(groups) == []


def root_with(directory: Path, *programs: str) -> Path:
    """A root directory that holds these programs and their libraries, and nothing else: no shell."""
    for program in programs:
        found = shutil.which(program)
        assert found is not None
        listed = subprocess.run(["ldd", found], capture_output=True, text=True, check=True).stdout
        needed = [word for word in re.findall(r"(/\S+)", listed) if os.path.isfile(word)]
        for source, target in ((found, f"/bin/{program}"), *((path, path) for path in needed)):
            copy = directory / target.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
    return directory


def images(place: Place, **found: Any) -> None:
    (place.directory / "images.yaml").write_text(yaml.safe_dump({"images": found}))


@pytest.mark.parametrize("mode", MODES, indirect=True)
async def test_every_environment_name_reaches_the_container(place: Place) -> None:
    await place.create("configmaps", "settings", data={"data-2": "two", "3rd.key": "three"})
    container = {
        "command": [sys.executable, "-I", "-S", "-c", SHOW_ENVIRONMENT, "$(data-1)"],
        "env": [{"name": "data-1", "value": "one"}, {"name": "says a lot", "value": "$(data-1) and $(data-2)"}],
        "envFrom": [{"configMapRef": {"name": "settings"}}],
    }
    lines = (await place.ran("p", container)).splitlines()
    assert {"data-1=one", "data-2=two", "3rd.key=three", "says a lot=one and two"} <= set(lines)


@pytest.mark.parametrize("mode", MODES, indirect=True)
async def test_the_containers_environment_is_not_that_of_the_nodes_programs(place: Place) -> None:
    """Neither its PATH nor its loader's variables: the programs that make a sandbox are the node's."""
    env = [{"name": "PATH", "value": "/nowhere"}, {"name": "BASH_ENV", "value": "/nowhere"}]
    container = {"command": [sys.executable, "-I", "-S", "-c", SHOW_ENVIRONMENT], "env": env}
    assert "PATH=/nowhere" in (await place.ran("p", container)).splitlines()
    await place.pod("stays", {**container, "command": ["/bin/sleep", "1000"]})
    await place.until("stays", lambda s: s.get("phase") == "Running")
    assert await place.run("stays", "/bin/echo", "inside") == (0, "inside\n")


@pytest.mark.parametrize("mode", SANDBOXED, indirect=True)
async def test_an_image_without_a_shell_runs(place: Place) -> None:
    root_with(place.directory / "rootfs", "env", "sleep")
    images(place, app={"root": "rootfs", "command": ["/bin/env"], "env": {"A": "b"}})
    assert "A=b" in (await place.ran("p", {"image": "app"})).splitlines()
    await place.pod("stays", {"image": "app", "command": ["sleep", "1000"]})
    await place.until("stays", lambda s: s.get("phase") == "Running")
    code, output = await place.run("stays", "env")
    assert (code, "A=b" in output.splitlines()) == (0, True)


@pytest.mark.parametrize("mode", SANDBOXED, indirect=True)
async def test_what_a_container_writes_stays_out_of_its_images_directory(place: Place) -> None:
    root = root_with(place.directory / "rootfs", "touch", "ls", "cat")
    (root / "srv").mkdir()
    (root / "srv" / "data").write_text("of the image\n")
    images(place, app={"root": "rootfs"})
    before = sorted(str(path) for path in root.rglob("*"))
    await place.ran("writes", {"image": "app", "command": ["touch", "/srv/new", "/top"]})
    assert sorted(str(path) for path in root.rglob("*")) == before
    assert await place.ran("looks", {"image": "app", "command": ["ls", "/srv"]}) == "data\n"
    volume = {"volumeMounts": [{"name": "v", "mountPath": "/made/here"}]}
    await place.ran("mounts", {"image": "app", "command": ["ls", "/made/here"], **volume}, volumes=[{"name": "v"}])
    assert sorted(str(path) for path in root.rglob("*")) == before


@pytest.mark.parametrize("mode", SANDBOXED, indirect=True)
@pytest.mark.parametrize("target", ["/srv/new", "/top", "/tmp/new"])
async def test_a_root_that_is_read_only_cannot_be_written_to(place: Place, target: str) -> None:
    root = root_with(place.directory / "rootfs", "touch")
    (root / "srv").mkdir()
    (root / "tmp").mkdir()
    images(place, app={"root": "rootfs"})
    context = {"securityContext": {"readOnlyRootFilesystem": True}}
    await place.pod("p", {"image": "app", "command": ["touch", target], **context})
    status = await place.until("p", lambda s: s.get("phase") in ("Succeeded", "Failed"))
    assert status["phase"] == "Failed"
    assert "Read-only file system" in await place.log("p")
    assert list((root / "srv").iterdir()) == []


@pytest.mark.parametrize("mode", SANDBOXED, indirect=True)
async def test_a_command_that_the_container_does_not_see_fails_the_pod_with_that_reason(place: Place) -> None:
    program = place.directory / "program"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    await place.pod("p", {"command": [str(program)]})
    status = await place.until("p", lambda s: s.get("phase") == "Failed")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
    assert f'"{program}": no such file or directory' in ended["message"]


@pytest.mark.parametrize("mode", SANDBOXED, indirect=True)
async def test_a_script_whose_interpreter_the_container_does_not_see_fails_the_pod(place: Place) -> None:
    root = root_with(place.directory / "rootfs", "cat")
    (root / "script").write_text("#!/usr/bin/missing -x\n")
    (root / "script").chmod(0o755)
    images(place, app={"root": "rootfs", "command": ["/script"]})
    await place.pod("p", {"image": "app"})
    status = await place.until("p", lambda s: s.get("phase") == "Failed")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert ended["reason"] == "StartError"
    assert '"/script": no such file or directory' in ended["message"]


@pytest.mark.parametrize("mode", MODES, indirect=True)
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/etc/passwd"], '"/etc/passwd": permission denied'),
        (["/usr"], '"/usr": permission denied'),
        (["none-such"], '"none-such": executable file not found in $PATH'),
        (["/bin/true", "x" * 200_000], "argument list too long"),
    ],
)
async def test_a_command_that_cannot_be_run_says_why(place: Place, command: list[str], said: str) -> None:
    await place.pod("p", {"command": command})
    status = await place.until("p", lambda s: s.get("phase") == "Failed")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert ended["reason"] == "StartError"
    assert said in ended["message"]


@pytest.mark.parametrize("mode", MODES, indirect=True)
@pytest.mark.parametrize(
    ("container", "said"),
    [
        ({"command": ["true"], "envFrom": [{"secretRef": {"name": "key"}}]}, "environment variable K"),
        ({"command": ["true", "a\0b"]}, "an argument of the command"),
        ({"command": ["true"], "workingDir": "/a\0b"}, "the working directory"),
    ],
)
async def test_a_value_that_no_process_can_be_given_is_named(place: Place, container: Any, said: str) -> None:
    await place.create("secrets", "key", data={"K": "YQBi"})  # "a", NUL, "b"
    await place.pod("p", container)
    status = await place.until("p", lambda s: s.get("phase") == "Failed")
    assert f"{said} contains a NUL byte" in status["containerStatuses"][0]["state"]["terminated"]["message"]


@pytest.mark.parametrize("mode", SANDBOXED, indirect=True)
async def test_a_working_directory_that_is_missing_fails_the_pod(place: Place) -> None:
    await place.pod("p", {"command": ["true"], "workingDir": "/no/such"})
    status = await place.until("p", lambda s: s.get("phase") == "Failed")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert ended["reason"] == "StartError"
    assert 'chdir to cwd ("/no/such")' in ended["message"]


@pytest.mark.parametrize("mode", SANDBOXED, indirect=True)
async def test_a_working_directory_that_its_image_lacks_is_made(place: Place) -> None:
    root_with(place.directory / "rootfs", "ls")
    images(place, app={"root": "rootfs", "workingDir": "/made/here"})
    assert await place.ran("p", {"image": "app", "command": ["ls", "-d", "/made/here"]}) == "/made/here\n"


@pytest.mark.parametrize("mode", SANDBOXED, indirect=True)
async def test_what_the_images_file_names_below_the_temporary_directory_is_seen(place: Place) -> None:
    script = place.directory / "a tool" / "say.py"
    script.parent.mkdir()
    script.write_text("import beside\n")
    (script.parent / "beside.py").write_text("print('hello')\n")
    images(place, app={"command": [sys.executable, "-S", str(script)]})
    assert await place.ran("p", {"image": "app"}) == "hello\n"
    await place.ran("other", {"command": ["test", "!", "-e", str(place.directory / "data")]})


@pytest.mark.parametrize("mode", SANDBOXED, indirect=True)
async def test_programs_of_the_nodes_path_below_the_temporary_directory_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = place.directory / "programs" / "greet"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    linked = place.directory / "linked"
    linked.symlink_to(program.parent)
    monkeypatch.setenv("PATH", os.pathsep.join((str(linked), os.environ["PATH"])))
    assert await place.ran("p", {"command": ["greet"]}) == "hello\n"
    await place.ran("other", {"command": ["test", "!", "-e", str(program)]})


@pytest.mark.parametrize("mode", MODES, indirect=True)
async def test_an_ephemeral_container_runs_beside_the_others_and_can_be_entered(place: Place) -> None:
    volume = {"volumeMounts": [{"name": "v", "mountPath": "/shared"}]}
    script = "echo here > $STEERSMAN_ROOT/shared/file; exec sleep 1000"
    await place.pod("p", {"command": ["sh", "-c", script], **volume}, volumes=[{"name": "v", "emptyDir": {}}])
    await place.until("p", lambda s: s.get("phase") == "Running")
    made = await place.send("GET", "/api/v1/namespaces/default/pods/p")
    made["spec"]["ephemeralContainers"] = [
        {"name": "debug", "image": HOST, "command": ["sh", "-c", "echo debugging; exec sleep 1000"], **volume}
    ]
    await place.send("PUT", "/api/v1/namespaces/default/pods/p/ephemeralcontainers", made)
    status = await place.until(
        "p", lambda s: "running" in s.get("ephemeralContainerStatuses", [{}])[0].get("state", {})
    )
    assert status["ephemeralContainerStatuses"][0]["ready"] is False
    kubelet = place.node.kubelets["node-1"]
    command = ["sh", "-c", "cat $STEERSMAN_ROOT/shared/file"]
    session = await kubelet.exec("default", "p", "debug", command, stdin=False, tty=False)
    assert b"".join([data async for _, data in session]) == b"here\n"
    await session.close()
    lines = [chunk async for chunk in kubelet.logs("default", "p", "debug", LogOptions())]
    assert b"".join(lines) == b"debugging\n"


@pytest.mark.parametrize("mode", MODES, indirect=True)
async def test_a_crash_shows_the_end_of_its_log_where_the_container_asks_for_it(place: Place) -> None:
    script = "echo starting; echo 'KeyError: DATABASE' >&2; exit 3"
    command = {"command": ["sh", "-c", script], "terminationMessagePolicy": "FallbackToLogsOnError"}
    await place.pod("crash", command, restartPolicy="Always")
    status = await place.until("crash", lambda s: "CrashLoopBackOff" in str(s))
    (container,) = status["containerStatuses"]
    ended = container["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (3, "Error")
    assert sorted(ended["message"].splitlines()) == ["KeyError: DATABASE", "starting"]
    await place.pod("plain", {"command": ["sh", "-c", script]})
    status = await place.until("plain", lambda s: s.get("phase") == "Failed")
    assert "message" not in status["containerStatuses"][0]["state"]["terminated"]


@pytest.mark.parametrize("mode", ["plain"], indirect=True)
async def test_a_termination_message_is_the_end_of_its_file(place: Place) -> None:
    script = "head -c 10000000 /dev/zero | tr '\\0' a > $STEERSMAN_ROOT/dev/termination-log; exit 1"
    await place.pod("p", {"command": ["sh", "-c", script]})
    status = await place.until("p", lambda s: s.get("phase") == "Failed")
    assert status["containerStatuses"][0]["state"]["terminated"]["message"] == "a" * 4096


@pytest.mark.slow
@pytest.mark.parametrize("mode", SANDBOXED)
def test_a_node_that_runs_from_below_the_temporary_directory_shows_containers_its_interpreter(
    tmp_path: Path, mode: str
) -> None:
    """As in a clone there: the interpreter of the virtual environment and its imports."""
    import venv

    home = tmp_path / "a clone"
    venv.create(home / ".venv", with_pip=False, symlinks=True)
    package = home / "src" / "app_of_the_clone"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("print('imported')\n")
    site = next((home / ".venv" / "lib").glob("python3*/site-packages"))
    (site / "here.pth").write_text(f"{home / 'src'}\n" + "\n".join(path for path in sys.path if path) + "\n")
    script = home / "run.py"
    script.write_text(f"""
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from tests.cluster.nodes.test_containers import place, Place

async def main():
    making = place.__wrapped__(Path({str(tmp_path)!r}), {mode!r})
    async for here in making:
        print(await here.ran("p", {{"command": [sys.executable, "-c", "import app_of_the_clone"]}}))

asyncio.run(main())
""")
    done = subprocess.run(
        [home / ".venv" / "bin" / "python", script], capture_output=True, text=True, timeout=120, check=False, cwd="/"
    )
    assert done.stdout.strip() == "imported", done.stderr


ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can choose the users of containers")
SHOW_IDENTITY = """
import os, re
status = open("/proc/self/status").read()
print(os.getuid(), os.getgid(), sorted(os.getgroups()))
print(re.search("CapBnd:\\s*(\\w+)", status)[1].lstrip("0") or "0", re.search("NoNewPrivs:\\s*(\\d)", status)[1])
"""


@ROOT
@pytest.mark.parametrize("mode", ["namespaces", "plain"], indirect=True)
async def test_a_container_and_its_commands_run_as_its_user_with_its_capabilities(place: Place) -> None:
    context = {
        "runAsUser": 1234,
        "runAsGroup": 2345,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
    }
    # The machine's own Python: the one of the tests may be out of reach for other users.
    show = ["/usr/bin/python3", "-I", "-S", "-c", SHOW_IDENTITY]
    if not os.access(show[0], os.X_OK):
        pytest.skip(f"no {show[0]}")
    pod = {"securityContext": {"supplementalGroups": [7]}}
    await place.pod("p", {"command": ["/bin/sleep", "1000"], "securityContext": context}, **pod)
    await place.until("p", lambda s: s.get("phase") == "Running")
    expected = "1234 2345 [7, 2345]\n1 1\n"
    assert await place.run("p", *show) == (0, expected)
    assert await place.ran("q", {"command": show, "securityContext": context}, **pod) == expected


@ROOT
@pytest.mark.parametrize("mode", ["namespaces", "plain"], indirect=True)
async def test_the_default_seccomp_profile_filters_the_system_calls_of_a_container_and_its_commands(
    place: Place,
) -> None:
    if not existing(["/proc/sys/kernel/seccomp/actions_avail"]):
        pytest.skip("the kernel has no seccomp filters")
    attempt = "unshare --user true 2>/dev/null && echo allowed || echo denied"
    command = ["/bin/sh", "-c", f"grep ^Seccomp: /proc/self/status; {attempt}; echo x | cat"]
    profile = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
    assert await place.ran("free", {"command": ["/bin/grep", "^Seccomp:", "/proc/self/status"]}) == "Seccomp:\t0\n"
    assert await place.ran("bound", {"command": command}, **profile) == "Seccomp:\t2\ndenied\nx\n"
    await place.pod("p", {"command": ["/bin/sleep", "1000"]}, **profile)
    await place.until("p", lambda s: s.get("phase") == "Running")
    assert await place.run("p", *command) == (0, "Seccomp:\t2\ndenied\nx\n")


@ROOT
@pytest.mark.parametrize("mode", ["namespaces"], indirect=True)
async def test_volumes_belong_to_the_group_of_the_pod(place: Place) -> None:
    await place.create("secrets", "key", data={"key": "c2VjcmV0"})
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "key", "defaultMode": 0o400}}]
    mounts = [{"name": "v", "mountPath": "/v"}, {"name": "s", "mountPath": "/s"}]
    command = ["/bin/sh", "-c", "cat /s/key && echo x > /v/new && stat -c ' %u %g' /v/new"]
    container = {"command": command, "volumeMounts": mounts, "securityContext": {"runAsUser": 1234}}
    context = {"fsGroup": 4321}
    assert await place.ran("p", container, volumes=volumes, securityContext=context) == "secret 1234 4321\n"


@ROOT
@pytest.mark.parametrize("mode", ["namespaces"], indirect=True)
async def test_a_container_that_may_not_be_root_is_not_started(place: Place) -> None:
    await place.pod("p", {"command": ["/bin/true"], "securityContext": {"runAsNonRoot": True}})
    status = await place.until("p", lambda s: (s.get("containerStatuses") or [{}])[0].get("state", {}).get("waiting"))
    waiting = status["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert "image will run as root" in waiting["message"]


@pytest.mark.parametrize("mode", ["namespaces"], indirect=True)
@pytest.mark.skipif(not works("namespaces", "/tmp"), reason="no writable layers above directories here")
async def test_an_image_is_not_copied_where_the_kernel_has_layers(place: Place) -> None:
    root = root_with(place.directory / "rootfs", "sh", "cat")
    images(place, app={"root": "rootfs", "workingDir": "/work/here"})
    command = ["sh", "-c", "echo changed > /lib64/new; echo own > file; read x < file; echo $x"]
    assert await place.ran("p", {"image": "app", "command": command}) == "own\n"
    assert not (root / "lib64/new").exists()
    assert not (root / "work").exists()
    (home,) = (place.directory / "data/pods").glob("*/containers/c")
    assert not (home / "rootfs").exists()
    assert (home / "layer/upper/lib64/new").read_text() == "changed\n"


@pytest.mark.parametrize("mode", ["namespaces"], indirect=True)
@pytest.mark.skipif(not works("namespaces", "/tmp"), reason="no writable layers above directories here")
async def test_the_entries_of_an_images_root_can_be_moved_and_removed(place: Place) -> None:
    root = root_with(place.directory / "rootfs", "sh", "mv", "rm", "cat")
    (root / "file").write_text("of the image\n")
    (root / "gone").mkdir()
    (root / "srv" / "sub").mkdir(parents=True)
    (root / "srv" / "sub" / "data").write_text("below\n")
    images(place, app={"root": "rootfs"})
    command = ["sh", "-c", "mv /file /moved && rm -r /gone && cat /moved /srv/sub/data"]
    mounts = [{"name": "v", "mountPath": path} for path in ("/srv/new", "/srv/sub/new")]
    container = {"image": "app", "command": command, "volumeMounts": mounts}
    assert await place.ran("p", container, volumes=[{"name": "v"}]) == "of the image\nbelow\n"
    assert (root / "file").exists()
    assert (root / "gone").exists()


@ROOT
@pytest.mark.parametrize("mode", ["namespaces", "plain"], indirect=True)
async def test_a_container_that_uses_more_memory_than_its_limit_is_killed_with_that_reason(place: Place) -> None:
    if not place.limits:
        pytest.skip("this process may not make control groups")
    code = "held = bytearray(200 << 20)\nprint(sum(held[::4096]))"
    limits = {"resources": {"limits": {"memory": "48Mi"}}}
    await place.pod("p", {"command": [sys.executable, "-I", "-S", "-c", code], **limits})
    status = await place.until("p", lambda s: s.get("phase") == "Failed")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
    fits = [sys.executable, "-I", "-S", "-c", "print(len(bytearray(8 << 20)))"]
    assert await place.ran("q", {"command": fits, **limits}) == f"{8 << 20}\n"


@pytest.mark.parametrize("mode", SANDBOXED, indirect=True)
async def test_an_image_is_a_volume_that_cannot_be_written_to(place: Place) -> None:
    root = root_with(place.directory / "rootfs", "sh", "cat")
    (root / "srv").mkdir()
    (root / "srv" / "data").write_text("of the image\n")
    (root / "link").symlink_to("/etc")
    images(place, app={"root": "rootfs"}, command={"command": ["true"]})
    volumes = [{"name": "v", "image": {"reference": "app"}}]
    command = ["/bin/sh", "-c", "cat /v/srv/data /srv-only/data; (echo x > /v/new) 2> /dev/null || echo refused"]
    mounts = [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/srv-only", "subPath": "srv"}]
    output = await place.ran("p", {"command": command, "volumeMounts": mounts}, volumes=volumes)
    assert output == "of the image\nof the image\nrefused\n"
    assert not (root / "new").exists()
    for sub in ("missing", "link"):
        container = {"command": command, "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": sub}]}
        await place.pod(sub, container, volumes=volumes)
        status = await place.until(sub, lambda s: "not a directory of the image volume" in str(s))
        assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError"


@ROOT
@pytest.mark.parametrize("mode", ["namespaces"], indirect=True)
async def test_a_pod_sets_kernel_parameters_of_its_own(place: Place) -> None:
    show = ["/bin/cat", "/proc/sys/kernel/shm_rmid_forced"]
    context = {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}
    assert await place.ran("p", {"command": show}, securityContext=context) == "1\n"
    assert await place.ran("q", {"command": show}) == "0\n"


@pytest.mark.parametrize("mode", ["plain"], indirect=True)
async def test_a_pod_that_its_node_does_not_admit_fails(place: Place) -> None:
    context = {"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}
    await place.pod("unsafe", {"command": ["/bin/true"]}, securityContext=context)
    status = await place.until("unsafe", lambda s: s.get("phase") == "Failed")
    assert status["reason"] == "SysctlForbidden"
    ports = [{"containerPort": 80, "hostPort": 18080}]
    await place.pod("first", {"command": ["/bin/sleep", "1000"], "ports": ports})
    await place.until("first", lambda s: s.get("phase") == "Running")
    await place.pod("second", {"command": ["/bin/true"], "ports": ports})
    status = await place.until("second", lambda s: s.get("phase") == "Failed")
    assert status["reason"] == "NodePorts"
    assert status["message"].startswith("Pod was rejected: Predicate NodePorts failed")
