"""The same rows on every CPython that is found: `python -m benchmarks.pythons [ROW...] --runs N --json F`.

Interpreters from 3.11 on: pyenv's, those on PATH, those unpacked below `interpreters/` of the benchmarks' cache, and
what `--python` names. Each gets a virtual environment of its own from the lock file, wheels only; one that a wheel is
missing for is reported as that. How each was built is said beside the numbers: it often matters more than the version.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks import aside
from benchmarks.harness import ROOT, Bench, BenchmarkError, NotMeasuredError, cache_dir, cores
from benchmarks.rows import Numbers, Row, Size, patches, sync
from benchmarks.verdicts import Results, values

_OLDEST: Final = (3, 11)
_NAME: Final = "python-"
_FREE_THREADED: Final = "Free-threaded CPython"
_LOCKS: Final = (ROOT / "requirements" / "runtime.txt", ROOT / "requirements" / "dev.txt")

_PROBE: Final = """
import json, platform, sys, sysconfig
get = lambda name: str(sysconfig.get_config_var(name) or "")
flags = " ".join(get(name) for name in ("OPT", "PY_CORE_CFLAGS", "PY_CORE_LDFLAGS", "CONFIG_ARGS"))
level = flags.split("-O")[1][:1] if "-O" in flags else "?"
print(json.dumps({
    "implementation": platform.python_implementation(), "version": platform.python_version(),
    "number": list(sys.version_info[:2]), "executable": sys.executable, "level": level,
    "pgo": "-fprofile-use" in flags or "--enable-optimizations" in flags,
    "lto": "-flto" in flags or "--with-lto" in flags,
    "free_threaded": get("Py_GIL_DISABLED") == "1", "shared": "--enable-shared" in flags,
    "compiler": platform.python_compiler(), "vendor": hasattr(sys, "_debian") or "/usr/share/python-wheels" in flags,
}))
"""

_IMPORT: Final = """
import resource, time
start = time.perf_counter()
import steersman
from steersman.k8s import Pod
wall = time.perf_counter() - start
usage = resource.getrusage(resource.RUSAGE_SELF)
rss = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
print(wall * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3, rss / 1e6)
"""


@dataclass(frozen=True)
class Interpreter:
    """A CPython, and how its own records say that it was built."""

    executable: Path
    version: str
    flags: str
    free_threaded: bool

    @property
    def name(self) -> str:
        """The name with the version; `t` means free threading."""
        return f"{_NAME}{self.version}{'t' if self.free_threaded else ''}"


def found(extra: Sequence[Path] = ()) -> list[Interpreter]:
    """The interpreters from 3.11 on, oldest first; of two of one version and build the one named first."""
    candidates = [*extra, *_on_path(), *_of_pyenv(), *_unpacked()]
    known: dict[str, Interpreter] = {}
    for candidate in candidates:
        if (probed := probe(candidate)) is None:
            if candidate in extra:
                raise BenchmarkError(f"{candidate} is no CPython from 3.11 on")
            continue
        name, more = probed.name, 2
        while probed.name in known and known[probed.name].flags != probed.flags:
            probed, more = replace(probed, version=f"{name.removeprefix(_NAME)}#{more}"), more + 1
        known.setdefault(probed.name, probed)
    return sorted(known.values(), key=lambda one: [int(part) for part in re.findall(r"\d+", one.version)])


def _on_path() -> list[Path]:
    directories = [Path(entry) for entry in os.environ.get("PATH", "").split(os.pathsep) if entry]
    return [
        path
        for directory in directories
        if directory.is_dir() and directory.name != "shims"
        for path in sorted(directory.glob("python3.*"))
        if re.fullmatch(r"python3\.\d+t?", path.name) and not (directory.parent / "pyvenv.cfg").exists()
    ]


def _of_pyenv() -> list[Path]:
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return sorted(root.glob("versions/*/bin/python3"))


def _unpacked() -> list[Path]:
    """Packages of a distribution that were unpacked there, never installed (`dpkg-deb -x`): a newer Debian's Python."""
    binaries = (cache_dir() / "interpreters").glob("*/usr/bin/python3.*")
    return sorted(path for path in binaries if re.fullmatch(r"python3\.\d+t?", path.name))


def probe(executable: Path) -> Interpreter | None:
    """Return the facts about an interpreter; None if it is too old, another implementation, or does not start."""
    try:
        done = subprocess.run([executable, "-I", "-c", _PROBE], capture_output=True, text=True, check=True)
        facts = json.loads(done.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None
    if facts["implementation"] != "CPython" or tuple(facts["number"]) < _OLDEST:
        return None
    words = [f"-O{facts['level']}", "PGO" if facts["pgo"] else "no PGO", "LTO" if facts["lto"] else "no LTO"]
    if facts["vendor"] and not facts["pgo"]:
        words = [words[0], "Debian's own build, which keeps PGO and LTO out of its records"]
    words += ["shared library"] if facts["shared"] else []
    words += ["no GIL" if facts["free_threaded"] else "GIL", facts["compiler"]]
    return Interpreter(executable, facts["version"], ", ".join(words), facts["free_threaded"])


def environment(interpreter: Interpreter) -> Path:
    """The Python of a virtual environment with what the lock file says, made once. Raises BenchmarkError."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if uv is None:
        raise BenchmarkError("environments are made by uv: pip install uv")
    locked = _LOCKS[0].read_text() + _block(_LOCKS[1].read_text(), "uvloop")
    digest = hashlib.sha256(f"{interpreter.executable}\n{interpreter.flags}\n{locked}".encode()).hexdigest()[:12]
    home = cache_dir() / "pythons" / f"{interpreter.name}-{digest}"
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        _run([uv, "venv", "--quiet", "--clear", "--no-config", "--python", str(interpreter.executable), str(home)])
        (home / "lock.txt").write_text(locked)
        install = [uv, "pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:"]
        try:
            _run([*install, "--python", str(python), "--requirement", str(home / "lock.txt")])
        except BenchmarkError as error:
            raise NotMeasuredError(f"{interpreter.name}: {error}") from None
        (home / "complete").touch()
    for packages in home.glob("lib/python3*/site-packages"):
        (packages / "steersman-source.pth").write_text(f"{ROOT / 'src'}\n")
    return python


def _block(lock: str, package: str) -> str:
    """The lines of one package in a lock file."""
    found = re.search(rf"^{package}==(?:.*\\\n)*.*\n", lock, re.MULTILINE)
    if found is None:
        raise BenchmarkError(f"the lock file has no {package}")
    return found.group()


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"{Path(command[0]).name} {command[1]} failed: {done.stderr.strip()[-700:]}")


class PythonBench(Bench):
    """The stub server, and our peer on each interpreter; a peer's name is its interpreter's."""

    def __init__(self, interpreters: Mapping[str, Interpreter]) -> None:
        super().__init__()
        self._interpreters = interpreters
        self._ready: dict[str, Path | BenchmarkError] = {}

    def prepare(self, peer: str) -> None:
        """Make its environment."""
        self.python(peer)

    def python(self, name: str) -> Path:
        """The interpreter in its environment, with bytecode compiled."""
        if name not in self._interpreters:
            raise BenchmarkError(f"no interpreter {name!r}; there are {', '.join(self._interpreters)}")
        if name not in self._ready:
            try:
                python = environment(self._interpreters[name])
                _run([str(python), "-c", "import benchmarks.peers.steersman_peer, steersman.k8s.core_v1"])
                self._ready[name] = python
            except BenchmarkError as error:
                self._ready[name] = error
        ready = self._ready[name]
        if isinstance(ready, BenchmarkError):
            raise ready
        return ready

    def _command(self, name: str, kind: str, mode: str) -> list[str]:
        return [
            str(self.python(name)), "-m", "benchmarks.peers.steersman_peer",
            "--kubeconfig", str(self.stub.kubeconfig), "--kind", kind, "--mode", mode,
        ]  # fmt: skip


def imports(bench: Bench, peer: str, _size: Size, _seed: int) -> Numbers:
    """`import steersman` and the Pod type in a fresh interpreter (bytecode compiled before)."""
    assert isinstance(bench, PythonBench)
    done = subprocess.run(
        [str(bench.python(peer)), "-c", _IMPORT], cwd=ROOT, capture_output=True, text=True, check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, cores()[1]),
    )  # fmt: skip
    if done.returncode:
        raise BenchmarkError(done.stderr[-1500:])
    wall, cpu, rss = map(float, done.stdout.split())
    return {"wall_ms": wall, "cpu_ms": cpu, "rss_mb": rss}


ROWS: Sequence[Row] = (
    Row("python-import", "`import steersman` and the Pod type", imports, Size(), Size(), ()),
    Row(
        "python-sync", "Initial sync, 50,000 custom resources of 1.2 KB", sync,
        Size("widgets", 50_000), Size("widgets", 5_000), (),
    ),
    Row(
        "python-patch", "Update handled with one status PATCH, as fast as they come", patches,
        Size("widgets", 10_000, 10_000), Size("widgets", 500, 500), (),
    ),
)  # fmt: skip
"""Their peers are the interpreters found when the study runs."""


def study(interpreters: Sequence[Interpreter]) -> aside.Study:
    """The rows for these interpreters."""
    known = {one.name: one for one in interpreters}

    def facts() -> dict[str, str]:
        said = {name: one.flags for name, one in known.items()}
        if not any(one.free_threaded for one in interpreters):
            said[_FREE_THREADED] = "none found"
        return said

    rows = [replace(row, peers=tuple(known)) for row in ROWS]
    return aside.Study("pythons", (__doc__ or "").splitlines()[0], rows, lambda: PythonBench(known), facts)


def words(results: Results) -> Iterator[str]:
    """Return the numbers in sentences: the fastest interpreter for an update beside the others, and their builds."""
    row = ROWS[-1]
    medians = {
        peer: statistics.median(numbers)
        for peer in results["rows"].get(row.name, {})
        if (numbers := values(results, row.name, peer, "cpu_us"))
    }
    if len(medians) > 1:
        best, *others = sorted(medians, key=lambda peer: medians[peer])
        beside = ", ".join(f"{medians[other] / medians[best]:.2f} on {_plain(other)}" for other in others)
        yield f"{_plain(best)} takes the least CPU for an update: for its 1.00 it is {beside}."
    built: dict[str, list[str]] = {}
    for name, fact in results["machine"].items():
        if name.startswith(_NAME):
            built.setdefault(fact, []).append(name.removeprefix(_NAME))
    for flags, versions in built.items():
        *first, last = versions
        yield f"CPython {', '.join(first)}{' and ' if first else ''}{last}: {flags}."
    if said := results["machine"].get(_FREE_THREADED):
        yield f"{_FREE_THREADED}: {said}."


def _plain(name: str) -> str:
    return f"CPython {name.removeprefix(_NAME)}"


def main(argv: list[str] | None = None) -> int:
    """See `aside.main`; `--python PATH`, any number of times, names further interpreters."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--python", type=Path, action="append", default=[])
    options, rest = parser.parse_known_args(argv)
    try:
        return aside.main(study(found(options.python)), rest)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
