"""What is published: the source distribution, the metadata, and links that work on a package index."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_BLOB = re.compile(r"https://github\.com/steersman/steersman/(?:blob|tree)/main/([^\s)#]+)")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (made,) = out.glob("*.tar.gz")
    return made


def test_every_link_of_the_readme_is_absolute_and_leads_to_a_file():
    text = (ROOT / "README.md").read_text()
    assert not re.findall(r"\]\((?!https://)[^)]*\)", text)
    defined = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", text, re.MULTILINE))
    assert defined
    assert [path for path in _BLOB.findall(text) if not (ROOT / path).exists()] == []


def test_the_source_distribution_has_what_a_build_needs_and_no_benchmark_data(sdist: Path):
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    for wanted in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "src/steersman/__init__.py"):
        assert wanted in names
    assert [name for name in names if name.startswith(("benchmarks", "tests", "operators"))] == []


def test_the_metadata_names_the_places_that_a_package_index_shows(sdist: Path):
    with tarfile.open(sdist) as archive:
        (info,) = [member for member in archive.getmembers() if member.name.endswith("/PKG-INFO")]
        content = archive.extractfile(info)
        assert content is not None
        metadata = Parser().parsestr(content.read().decode())
    labels = {url.partition(",")[0] for url in metadata.get_all("Project-URL", [])}
    assert labels >= {"Homepage", "Documentation", "Repository", "Issues", "Changelog"}
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_classifiers_name_every_python_from_the_oldest_supported_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r"Python :: 3\.\d+$", c)]
    minors = [int(version.partition(".")[2]) for version in listed]
    oldest = int(project["requires-python"].partition("3.")[2])
    assert minors == list(range(oldest, oldest + len(minors)))
