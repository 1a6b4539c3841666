"""The command `image`: imports images for process nodes, lists and removes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from steersman_cluster.program import program

if TYPE_CHECKING:
    from steersman_cluster.nodes.image_store import ImageStore

__all__ = ["app"]

_ID_CHARACTERS: Final = 12
_MEGABYTE: Final = 1_000_000

app = typer.Typer(
    name="image",
    help="Images for nodes of the kind `process`. All clusters of this user share them.\n\n"
    f"    docker save example.com/app:1.0 | {program()} image import -",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@app.command("import")
def import_image(
    file: Annotated[Path, typer.Argument(help="Archive or OCI layout directory; `-` is standard input.")],
    tag: Annotated[str, typer.Option("--tag", "-t", help="Name of the image, in place of the archive's own.")] = "",
) -> None:
    """Import the images of a file of `docker save`, `buildah push docker-archive:`, `oci-archive:` or `oci:`.

    Running clusters find them at once.
    """
    if str(file) == "-":
        import shutil
        import sys
        import tempfile

        with tempfile.NamedTemporaryFile(prefix="steersman-image-") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
            found = _store().add(Path(copy.name), tag)
    else:
        found = _store().add(file, tag)
    for image in found:
        typer.echo(f"imported {image.name}")


@app.command("list")
def list_images(
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print them.")] = "text",
) -> None:
    """List the imported images."""
    found = _store().list()
    if output == "json":
        fields = ("name", "id", "digest", "size_bytes")
        typer.echo(json.dumps([{name: getattr(image, name) for name in fields} for image in found], indent=2))
        return
    rows = [("NAME", "ID", "SIZE", "IMPORTED")]
    for image in found:
        imported = datetime.fromtimestamp(image.imported_at, UTC).strftime("%Y-%m-%d %H:%M")
        short = image.id.partition(":")[2][:_ID_CHARACTERS]
        rows.append((image.name, short, f"{image.size_bytes / _MEGABYTE:.1f} MB", imported))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@app.command("remove")
def remove_image(images: Annotated[list[str], typer.Argument(metavar="IMAGE…", help="Names.")]) -> None:
    """Remove imported images. An image that a running cluster uses stays."""
    for image in images:
        typer.echo(f"removed {_store().remove(image)}")


def _store() -> ImageStore:
    from steersman_cluster.detached import image_directory
    from steersman_cluster.nodes.image_store import ImageStore

    return ImageStore(image_directory())
