"""Processes that are started, and those that are not."""

import asyncio
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from steersman_cluster.nodes.process import launcher
from steersman_cluster.nodes.process.processes import children_of, spawn


async def turns(number: int) -> None:
    """Let the loop turn so often."""
    for _ in range(number):
        await asyncio.sleep(0)


@pytest.mark.parametrize("between", [0, 1, 2, 3, 5, 8, 13, 21, 34])
async def test_a_start_that_is_cancelled_again_and_again_leaves_no_process(between: int) -> None:
    before = set(children_of(os.getpid()))
    output: list[bytes] = []
    starting = asyncio.create_task(
        spawn(("sleep", "1000"), os.environ, "/", on_output=lambda _, data: output.append(data), on_exit=lambda _: None)
    )
    while set(children_of(os.getpid())) == before:  # then the process is there, its pipes are not
        await turns(1)
    while not starting.done():
        starting.cancel()
        await turns(1 + between)
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert set(children_of(os.getpid())) == before
    gc.collect()  # reports file descriptors that are left open
    assert not output


async def test_a_command_that_cannot_be_started_says_so() -> None:
    with pytest.raises(FileNotFoundError):
        await spawn(("/no/such/program",), {}, "/", on_output=lambda *_: None, on_exit=lambda _: None)


async def test_a_killed_process_is_recorded_as_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it has ended by the time that the kill comes: only the loop's watcher collects its status."""
    if sys.version_info < (3, 12):
        watcher = asyncio.PidfdChildWatcher()
        watcher.attach_loop(asyncio.get_running_loop())
        monkeypatch.setattr(asyncio, "get_child_watcher", lambda: watcher)
        monkeypatch.setattr("asyncio.unix_events.events.get_child_watcher", lambda: watcher)
    process = await spawn(("sleep", "1000"), os.environ, "/", on_output=lambda *_: None, on_exit=lambda _: None)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - the loop must not see the end
    process.kill()
    assert await process.wait() == (137, 9)


async def test_input_for_a_terminal_that_has_closed_goes_nowhere(tmp_path: Path) -> None:
    process = await spawn(("true",), os.environ, "/", on_output=lambda *_: None, on_exit=lambda _: None, tty=True)
    await process.wait()
    files = [(tmp_path / str(number)).open("wb", buffering=0) for number in range(64)]  # on the numbers now free
    await process.write(b"for the terminal")
    await process.close_stdin()
    for file in files:
        file.close()
    assert [file.name for file in files if os.path.getsize(file.name)] == []  # noqa: ASYNC240


async def test_a_terminal_is_given_all_of_a_long_input() -> None:
    output = bytearray()
    process = await spawn(
        ("sh", "-c", "stty raw -echo; echo begin; head -c 100000 | wc -c"),
        os.environ,
        "/",
        on_output=lambda _, data: output.extend(data),
        on_exit=lambda _: None,
        tty=True,
    )
    while b"begin" not in output:
        await turns(1)
    async with asyncio.timeout(30):
        await process.write(b"x" * 100_000)
        await process.wait()
    assert output.split() == [b"begin", b"100000"]


def test_the_launcher_needs_no_module_that_imports_others() -> None:
    """Its start is a part of each start of a container, and its processes stay as long as the container."""
    directory = os.path.dirname(launcher.__file__)
    bare = "import sys, ctypes"
    script = f"before = set(sys.modules); sys.path.append({directory!r}); import launcher"
    shown = "print(*sorted(set(sys.modules) - before))"
    words = [sys.executable, "-I", "-S", "-c", f"{bare}; {script}; {shown}"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {
        "__future__",
        "errno",
        "fcntl",
        "launcher",
        "marshal",
        "select",
        "struct",
        "termios",
    }


def test_the_launcher_imports_nothing_once_the_image_is_its_root() -> None:
    """There is no standard library there."""
    script = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("launcher", {launcher.__file__!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.modules.pop("warnings", None)
before = set(sys.modules)
request = {{"directory": "/", "terminal": False, "identity": None, "cgroups": []}}
request |= {{"command": ["none"], "env": {{"PATH": "/none:/none/either"}}}}
try:
    module.become(request)
except OSError as problem:
    print(problem.strerror, sorted(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == 'exec: "none": executable file not found in $PATH []\n'
