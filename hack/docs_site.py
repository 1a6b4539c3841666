"""Hooks of the documentation site: links that leave docs/ point to the repository, figures lose their markers."""

from __future__ import annotations

import posixpath
import re
from typing import Any, Final

__all__ = ["on_page_markdown", "outside"]

_LINK: Final = re.compile(r"(\]\(|^\[[^\]]+\]: )(\.\./[^)\s]+)", re.MULTILINE)
_FIGURE: Final = re.compile(r"<!-- figure: [\w-]+ -->(.*?)<!-- end -->", re.DOTALL)


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

    return _FIGURE.sub(r"\1", _LINK.sub(rewritten, markdown))
