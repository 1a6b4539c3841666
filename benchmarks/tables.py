"""Tables for the terminal: Markdown rows, or lists of cells, in aligned columns."""

from __future__ import annotations

from collections.abc import Sequence


def plain(rows: Sequence[str | Sequence[str]]) -> str:
    """Aligned with two spaces between columns; the separator line of a Markdown table is left out."""
    cells = [_cells(row) if isinstance(row, str) else list(row) for row in rows]
    cells = [row for row in cells if not all(cell and not cell.strip("-") for cell in row)]
    if not cells:
        return ""
    widths = [max(len(row[n]) for row in cells if n < len(row)) for n in range(max(map(len, cells)))]
    return "\n".join("  ".join(f"{cell:{widths[n]}}" for n, cell in enumerate(row)).rstrip() for row in cells)


def _cells(line: str) -> list[str]:
    return [cell.strip().strip("*") for cell in line.strip().strip("|").split("|")]
