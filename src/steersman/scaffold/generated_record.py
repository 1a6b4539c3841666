"""The record of the files that were generated last: the common ancestor of the three-way merge.

The templates belong to the installed version of Steersman, so older ones are not available later. The project therefore
keeps their result in one file that version control stores well: the text of each file as a list of lines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from steersman.scaffold.errors import ScaffoldError
from steersman.scaffold.transaction import PRIVATE

__all__ = ["RECORD", "dump_record", "read_record"]

RECORD: Final = f"{PRIVATE}/base.json"


def dump_record(files: Mapping[str, str]) -> str:
    """Return the text of the record; equal files give equal text."""
    kept = {path: text.split("\n") for path, text in sorted(files.items()) if path != "PROJECT"}
    return json.dumps({"steersman": "what was generated last; see `steersman update`", "files": kept}, indent=1) + "\n"


def read_record(root: Path) -> dict[str, str] | None:
    """Return the recorded files; `None` without a record. Raises `ScaffoldError` if it cannot be read."""
    try:
        data: Any = json.loads((root / RECORD).read_text(encoding="utf-8"))
        return {str(path): "\n".join(lines) for path, lines in data["files"].items()}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ScaffoldError(f"{RECORD} cannot be read: restore it from version control, or delete it", 1) from None
