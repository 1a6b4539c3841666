"""Follows a page of the documentation literally: writes its files, runs its commands, compares what they print.

    python hack/walk.py PAGE [--clean] [--record FILE]

A block with a title that begins with `file: ` is written as that file. Lines of console blocks that begin with `$ ` are
commands of one shell, and here-documents end as in a shell; the other lines are what the last command prints. `…`
stands for any text, and a line `…` for any lines. The title of a console block says how it is run:

- `not run: REASON`: not at all.
- `exit code N`: its last command ends with this code instead of 0.
- `first terminal`: it runs until the end of the page, and is an error if it fails before a later command.
- `second terminal`: each command is repeated until it prints what the page shows, for at most a minute.

`--clean` walks in a virtual environment without anything but what the page installs; packages of this project are
taken from `dist/` (`make wheels`). Otherwise commands that install are left out. `--record` writes the transcript.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

__all__ = ["Command", "File", "Outcome", "WalkError", "differs", "environment", "steps", "transcript", "walk"]

ROOT: Final = Path(__file__).resolve().parent.parent
_COMMAND_SECONDS: Final = 900
_REPEAT_SECONDS: Final = 60.0
_CLONED: Final = "https://github.com/steersman/steersman"
"""The repository that pages clone; a walk clones this one."""
_BLOCK: Final = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]*)")?\n(?P<text>.*?)^```', re.MULTILINE | re.DOTALL
)
_INSTALLS: Final = re.compile(r"(python3? -m venv|pip install|\. \.venv/bin/activate)")
_HERE_DOCUMENT: Final = re.compile(r"<<-?\s*'?(\w+)'?")


class WalkError(Exception):
    """A command of a page failed; the message has the command and its output."""


@dataclass(frozen=True)
class File:
    """A file that the reader writes."""

    path: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command that the reader enters, and the lines that the page shows after it."""

    text: str
    expected: tuple[str, ...] = ()
    terminal: Literal["", "first", "second"] = ""
    code: int = 0
    """The exit code that the page announces."""


@dataclass(frozen=True)
class Outcome:
    """A command with its output and exit code."""

    command: Command
    output: str
    code: int


def steps(page: str) -> tuple[File | Command, ...]:
    """Return what a page tells its reader to do, in order."""
    found: list[File | Command] = []
    for block in _BLOCK.finditer(page):
        title = block["title"] or ""
        if title.startswith("file: "):
            found.append(File(title.removeprefix("file: "), block["text"]))
        elif block["language"] == "console" and not title.startswith("not run"):
            first = title.partition(" terminal")[0]
            terminal = first if first in ("first", "second") else ""
            commands = [replace(command, terminal=terminal) for command in _commands(block["text"].splitlines())]
            if title.startswith("exit code "):
                commands[-1] = replace(commands[-1], code=int(title.removeprefix("exit code ")))
            found += commands
    return tuple(found)


def _commands(lines: Sequence[str]) -> Iterator[Command]:
    rest = list(lines)
    while rest:
        text = rest.pop(0)
        if not text.startswith("$ "):
            raise WalkError(f"a console block begins with output: {text!r}")
        text = text[2:]
        if end := _HERE_DOCUMENT.search(text):
            while rest and rest[0] != end[1]:
                text += "\n" + rest.pop(0)
            text += "\n" + rest.pop(0)
        expected: list[str] = []
        while rest and not rest[0].startswith("$ "):
            expected.append(rest.pop(0))
        yield Command(text, tuple(expected))


def differs(expected: Sequence[str], output: str) -> str:
    """Return the first expected line that the output does not have in its place, or an empty text."""
    lines = [line.rstrip() for line in output.splitlines()]
    place, anywhere = 0, False
    for line in expected:
        if line.strip() == "…":
            anywhere = True
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in re.sub(r" +", " ", line.rstrip()).split("…")))
        while place < len(lines):
            fits = pattern.fullmatch(re.sub(r" +", " ", lines[place]))
            place += 1
            if fits:
                anywhere = False
                break
            if not anywhere:
                return line
        else:
            return line
    return ""


def environment(home: Path, *, clean: bool, wheels: Path = ROOT / "dist") -> dict[str, str]:
    """Return the variables of a user whose home directory is empty.

    Args:
        home: The home directory.
        clean: Whether the user has nothing but what a page installs.
        wheels: Where pip finds the packages of this project, if `clean`.
    """
    names = ("LANG", "LC_ALL", "GOFLAGS", "GOPROXY", "GOMODCACHE", "GOCACHE", "TERM")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    user = Path.home()
    kept = {"GOCACHE": f"{user}/.cache/go-build", "GOMODCACHE": f"{user}/go/pkg/mod"} | kept
    kept |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.file://{ROOT}.insteadOf", "GIT_CONFIG_VALUE_0": _CLONED}
    path = os.environ["PATH"]
    if clean:
        own = str(Path(sys.prefix) / "bin")
        path = os.pathsep.join(entry for entry in path.split(os.pathsep) if entry != own)
        kept["PIP_FIND_LINKS"] = str(wheels)
    else:
        # Fixed ports could be in use by others.
        kept |= {"STEERSMAN_METRICS_BIND_ADDRESS": "0", "STEERSMAN_HEALTH_PROBE_BIND_ADDRESS": "0"}
        path = f"{Path(sys.executable).parent}{os.pathsep}{path}"
    return {**kept, "PATH": path, "HOME": str(home), "XDG_RUNTIME_DIR": str(home), "NO_COLOR": "1", "COLUMNS": "120"}


def walk(
    page: Path, directory: Path, variables: Mapping[str, str], *, clean: bool = False, before: str = ""
) -> Iterator[Outcome]:
    """Follow a page in a directory, and yield the outcome of each command.

    Args:
        page: The page.
        directory: Where the shell starts.
        variables: The environment of the shell.
        clean: Whether commands that install are run, too.
        before: Commands that are entered before the first one of the page: what the page takes for granted.

    Raises:
        WalkError: A command failed, or printed something else than the page shows.
    """
    shell = subprocess.Popen(
        ["bash", "--noprofile", "--norc"],
        cwd=directory,
        env=dict(variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    first: list[Path] = []
    """Logs of the first terminals."""
    try:
        for step in steps(page.read_text()):
            if isinstance(step, Command) and before:
                _run(shell, Command(before))
                before = ""
            if isinstance(step, File):
                path = directory / step.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(step.text)
            elif clean or not _INSTALLS.search(step.text):
                match step.terminal:
                    case "first":
                        first.append(Path(variables["HOME"]) / f"first-terminal-{len(first)}.log")
                        yield _started(shell, step, first[-1])
                    case "second":
                        yield _repeated(shell, step, first)
                    case _:
                        yield _run(shell, step)
    finally:
        _stop_clusters(directory, variables)
        _end(shell)


def _end(shell: subprocess.Popen[str]) -> None:
    """End the shell and everything that it has started in the background."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(shell.pid, number)
            shell.wait(timeout=15)
    for stream in (shell.stdin, shell.stdout):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()


def _stop_clusters(directory: Path, variables: Mapping[str, str]) -> None:
    """Stop the detached clusters that a page has started and not stopped."""
    for kubeconfig in Path(variables["HOME"]).glob(".local/state/steersman/clusters/*/kubeconfig"):
        command = [sys.executable, "-m", "steersman_cluster", "stop", kubeconfig.parent.name]
        subprocess.run(command, cwd=directory, env=dict(variables), capture_output=True, timeout=60, check=False)


def _started(shell: subprocess.Popen[str], command: Command, log: Path) -> Outcome:
    """Run a command in the background; if it fails, its exit code is in the file beside its log."""
    code = shlex.quote(str(log.with_suffix(".code")))
    background = f"{{ ( {command.text} ) >{shlex.quote(str(log))} 2>&1 || echo $? >{code}; }} &"
    return replace(_run(shell, Command(background)), command=command)


def _repeated(shell: subprocess.Popen[str], command: Command, first: Sequence[Path]) -> Outcome:
    deadline = time.monotonic() + _REPEAT_SECONDS
    while True:
        for log in first:
            if (code := log.with_suffix(".code")).exists():
                raise WalkError(f"a command in the first terminal ended with {code.read_text()}{log.read_text()}")
        try:
            return _run(shell, command)
        except WalkError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _run(shell: subprocess.Popen[str], command: Command) -> Outcome:
    assert shell.stdin is not None
    assert shell.stdout is not None
    end = "--walk-ended--"
    # A command in the background keeps its output away from the one that is compared.
    background = command.text.endswith(" &") and not command.text.startswith("{")
    text = f"( {command.text.removesuffix(' &')} ) >/dev/null 2>&1 &" if background else command.text
    shell.stdin.write(f"{text}\nprintf '\\n{end}%s\\n' $?\n")
    shell.stdin.flush()
    timer = signal.signal(signal.SIGALRM, _late)
    signal.alarm(_COMMAND_SECONDS)
    output: list[str] = []
    try:
        for line in shell.stdout:
            if line.startswith(end):
                break
            output.append(line)
        else:
            raise WalkError(f"$ {command.text}\nthe shell has ended:\n{''.join(output)}")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, timer)
    outcome = Outcome(command, "".join(output).rstrip("\n"), int(line.removeprefix(end)))
    refused = any(line.lower().startswith(("error", "the ")) for line in command.expected)
    if outcome.code != command.code and not refused:
        raise WalkError(f"$ {command.text}\nended with exit code {outcome.code}:\n{outcome.output}")
    if missing := differs(command.expected, outcome.output):
        raise WalkError(f"$ {command.text}\nthe page shows\n{missing}\nbut the output is\n{outcome.output}")
    return outcome


def _late(*_: object) -> None:
    raise WalkError(f"a command takes more than {_COMMAND_SECONDS} s")


def transcript(outcomes: Iterable[Outcome], home: Path) -> Iterator[str]:
    """Yield each command with its output, without the name of the home directory."""
    for outcome in outcomes:
        shown = f"$ {outcome.command.text}\n{outcome.output}".rstrip().replace(str(home), "/home/reader")
        yield re.sub(r"[ \t]+$", "", shown, flags=re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description="Follow a page of the documentation literally.")
    parser.add_argument("page", type=Path)
    parser.add_argument("--clean", action="store_true", help="without anything but what the page installs")
    parser.add_argument("--record", type=Path, help="write the commands and their output to this file")
    options = parser.parse_args()
    told: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        place = home / "work"
        place.mkdir()
        try:
            outcomes = walk(options.page, place, environment(home, clean=options.clean), clean=options.clean)
            for shown in transcript(outcomes, home):
                print(shown, flush=True)
                told.append(shown)
        except WalkError as problem:
            sys.exit(f"walk: {options.page}: {problem}")
    if options.record:
        options.record.write_text("\n".join(told) + "\n")


if __name__ == "__main__":
    main()
