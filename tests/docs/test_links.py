"""Every page of the documentation is in the navigation, and every link leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = tuple(sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")))
_LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\((?P<inline>[^)\s]+)\)|^\[[^\]]+\]: (?P<reference>\S+)", re.MULTILINE)
_FENCE: Final = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)


def targets(page: Path) -> list[str]:
    text = _FENCE.sub("", page.read_text())
    return [found["inline"] or found["reference"] for found in _LINK.finditer(text)]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as Python-Markdown names them."""
    found: set[str] = set()
    for title in _HEADING.findall(_FENCE.sub("", page.read_text())):
        words = re.sub(r"[^\w\s-]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)).strip().lower()
        found.add(re.sub(r"[-\s]+", "-", words))
    return found


def navigation(entry: Any) -> Iterator[str]:
    """The pages of an entry of `nav`."""
    match entry:
        case str():
            yield entry
        case dict():
            for inner in entry.values():
                yield from navigation(inner)
        case list():
            for inner in entry:
                yield from navigation(inner)


def settings() -> dict[str, Any]:
    class Loader(yaml.SafeLoader):
        """Knows the tags of mkdocs, which name Python objects."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda _loader, name, _node: name)
    return yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    here = DOCS / page
    for target in targets(here):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (here.parent / path).resolve() if path else here
        assert there.exists(), f"{page}: {target} does not exist"
        if anchor and there.suffix == ".md" and "reference/api" not in str(there):
            assert anchor in anchors(there), f"{page}: {target}: there is no such heading"


def test_every_page_is_in_the_navigation() -> None:
    """Those of decisions are added when the site is built."""
    listed = set(navigation(settings()["nav"]))
    assert listed == {page for page in PAGES if not page.startswith("decisions/0")}
