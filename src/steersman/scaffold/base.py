"""What was generated last, recorded in the project: the common ancestor that a three-way merge needs.

The templates come with the installed Steersman, and those of older ones are gone when a newer one is installed; so the
project keeps their result, in one file that version control stores well: each file's text as a list of lines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from steersman.scaffold.change import PRIVATE
from steersman.scaffold.errors import ScaffoldError

__all__ = ["BASE", "dump_base", "read_base"]

BASE: Final = f"{PRIVATE}/base.json"


def dump_base(files: Mapping[str, str]) -> str:
    """The text of the record; stable."""
    kept = {path: text.split("\n") for path, text in sorted(files.items()) if path != "PROJECT"}
    return json.dumps({"steersman": "what was generated last; see `steersman update`", "files": kept}, indent=1) + "\n"


def read_base(root: Path) -> dict[str, str] | None:
    """What was recorded; `None` when nothing was. Raises `ScaffoldError` for what cannot be read."""
    try:
        data: Any = json.loads((root / BASE).read_text(encoding="utf-8"))
        return {str(path): "\n".join(lines) for path, lines in data["files"].items()}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ScaffoldError(f"{BASE} cannot be read: restore it from version control, or delete it", 1) from None
