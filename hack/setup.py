"""Make the virtual environment that the Makefile uses, from the lock file, with nothing but Python.

Installs exactly what `requirements/dev.txt` pins, hashes checked, then the distributions of this
repository as editable installs.
Runs on the bare interpreter of the machine, so it imports only the standard library.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def fail(message: str) -> None:
    sys.exit(f"setup: {message}")


def pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    try:
        subprocess.run(command, check=True, cwd=ROOT)
    except subprocess.CalledProcessError as problem:
        fail(f"`{' '.join(command)}` failed with exit code {problem.returncode}; its output is above")


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - the machine's interpreter may be older than what we support
        fail(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}; try: make PYTHON=python3.11 demo")
    where = Path(sys.argv[1] if len(sys.argv) > 1 else ".venv").resolve()
    python = where / "bin" / "python"
    if not python.exists():
        print(f"setup: making {where.name}", flush=True)
        try:
            venv.create(where, with_pip=True)
        except (subprocess.CalledProcessError, ImportError, OSError) as problem:
            fail(f"cannot make a virtual environment ({problem}); on Debian and Ubuntu: sudo apt install python3-venv")
    if subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode:  # made by another tool
        subprocess.run([python, "-m", "ensurepip", "--upgrade"], stdout=subprocess.DEVNULL, check=True)
    print("setup: installing the locked dependencies", flush=True)
    pip(python, "--require-hashes", "-r", "requirements/dev.txt")
    pip(python, "--no-deps", "--no-build-isolation", "--editable", ".")
    for project in sorted(ROOT.glob("packages/*/pyproject.toml")):
        pip(python, "--no-deps", "--no-build-isolation", "--editable", str(project.parent))


if __name__ == "__main__":
    main()
