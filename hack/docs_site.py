"""Hooks of the documentation site: links out of docs/ lead to the repository, figures lose their markers, and each name
of the reference of the API has an example from code that the tests run.

The site loads nothing from the network: scripts that the theme expects there are served from the site.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))

import api_examples

__all__ = [
    "on_config",
    "on_page_content",
    "on_page_markdown",
    "on_post_build",
    "on_post_page",
    "on_post_template",
    "outside",
]

_LINK: Final = re.compile(r"(\]\(|^\[[^\]]+\]: )(\.\./[^)\s]+)", re.MULTILINE)
_FIGURE: Final = re.compile(r"<!-- figure: [\w-]+ -->(.*?)<!-- end -->", re.DOTALL)
_API: Final = "reference/api.md"
_ENTRY: Final = re.compile(r"^::: (\S+)$", re.MULTILINE)
_SCRIPTS: Final = Path(sys.prefix) / "scripts"
"""Where `hack/docs_scripts.py` puts the scripts from npm, if there is npm."""
_PLACE: Final = "assets/javascripts"
_SHIM: Final = re.compile(r'<script src="https://unpkg.com/iframe-worker/shim"></script>')
_REPOSITORY_FACTS: Final = ' data-md-component="source"'


def outside(page: str, target: str) -> str | None:
    """Return the path below the repository's root that a page's relative link leads to, or `None` within docs/.

    Args:
        page: The path of the page below docs/.
        target: The link.
    """
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if path.startswith("docs/") else path


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Rewrite a page before it is rendered."""

    def rewritten(found: re.Match[str]) -> str:
        path = outside(page.file.src_uri, found[2])
        if path is None:
            return found[0]
        kind = "blob" if posixpath.splitext(path.partition("#")[0])[1] else "tree"
        return f"{found[1]}{config.repo_url}/{kind}/main/{path}"

    if page.file.src_uri == _API:
        markdown = _with_examples(markdown, config.repo_url)
    return _FIGURE.sub(r"\1", _LINK.sub(rewritten, markdown))


def _with_examples(markdown: str, repository: str) -> str:
    """Add the example of each entry of the reference, with a link to its file."""
    found = api_examples.examples()

    def entry(match: re.Match[str]) -> str:
        example = found.get(match[1])
        if example is None:
            return match[0]
        link = f"[{example.file}]({repository}/blob/main/{example.file})"
        return f"{match[0]}\n\nExample, from {link}:\n\n```python\n{example.code}\n```\n"

    return _ENTRY.sub(entry, markdown)


def on_config(config: Any, **_: Any) -> None:
    """List all decisions in the navigation, so that a new one needs no entry."""
    decisions = next(entry["Decisions"] for entry in config.nav if "Decisions" in entry)
    directory = Path(config.docs_dir) / "decisions"
    decisions += [f"decisions/{file.name}" for file in sorted(directory.glob("[0-9]*.md"))]


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Add mermaid to pages with diagrams; the theme uses it instead of one from the network."""
    return html + _tag("mermaid.min.js", page.url) if 'class="mermaid"' in html else html


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Make a page load nothing from the network: neither the theme's shim nor the stars of the repository."""
    return _local(output, page.url)


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
    """Do the same for pages without Markdown, such as 404.html."""
    return _local(output_content, template_name)


def on_post_build(config: Any, **_: Any) -> None:
    """Copy the scripts into the site."""
    target = Path(config.site_dir) / _PLACE
    target.mkdir(parents=True, exist_ok=True)
    for script in _SCRIPTS.glob("*.js"):
        (target / script.name).write_bytes(script.read_bytes())


def _local(html: str, url: str) -> str:
    return _SHIM.sub(_tag("iframe-worker.js", url), html).replace(_REPOSITORY_FACTS, "")


def _tag(script: str, url: str) -> str:
    """Return the element that loads a script on the page at `url`, or nothing if the script is missing."""
    if not (_SCRIPTS / script).exists():
        return ""
    return f'<script src="{posixpath.relpath(f"{_PLACE}/{script}", posixpath.dirname(url) or ".")}"></script>'
