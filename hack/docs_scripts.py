"""Gets the scripts of the documentation site from npm, with their hashes checked, so that it needs no network.

    python hack/docs_scripts.py DIRECTORY

Without npm it writes nothing and says so: the site then shows diagrams as text, and searches only if it is served.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final, NamedTuple


class Script(NamedTuple):
    """A file of an npm package, and the hash of the package."""

    package: str
    member: str
    sha512: str


SCRIPTS: Final = {
    "mermaid.min.js": Script(
        "mermaid@11.17.2",
        "package/dist/mermaid.min.js",
        "V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg==",
    ),
    "iframe-worker.js": Script(
        "iframe-worker@1.0.4",
        "package/shim/index.js",
        "roeaaI+Lg1LJNfgpCjoRe/+WzEjy9+Z08LoEvu85MCPbBjwm+qXz8Ag5U05lHa6V1CysZyGzE0SOkAtSUA5q7Q==",
    ),
}
"""The scripts by the name of their file: diagrams, and the search of a site that is opened from a disk."""


def main() -> None:
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    npm = shutil.which("npm")
    for name, script in SCRIPTS.items():
        if npm is None:
            print(f"docs: npm is missing: the site has no {name}")
        elif content := fetched(npm, script):
            (target / name).write_bytes(content)


def fetched(npm: str, script: Script) -> bytes | None:
    """Return the script, or `None` with a message if npm cannot get the package."""
    with tempfile.TemporaryDirectory() as directory:
        command = [npm, "pack", "--silent", "--pack-destination", directory, script.package]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"docs: `npm pack {script.package}` failed: {done.stderr.strip()[-200:]}")
            return None
        archive = next(Path(directory).glob("*.tgz"))
        if base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() != script.sha512:
            sys.exit(f"docs: {script.package} has another hash than hack/docs_scripts.py expects")
        with tarfile.open(archive) as package:
            member = package.extractfile(script.member)
            assert member is not None, script.member
            return member.read()


if __name__ == "__main__":
    main()
