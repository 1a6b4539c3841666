"""Writes an image of one program as an archive, without a container tool.

Source: OCI image layout and image manifest specifications, version 1.0.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any, Final

__all__ = ["program_image"]

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_DIRECTORY: Final = "usr/local/bin"
_VENDOR: Final = "application/vnd.oci.image"


def program_image(program: Path, image: str, archive: Path) -> None:
    """Write an image that contains only a static program, which is its entry point.

    Args:
        program: The program; it is `/usr/local/bin/NAME` in the image, on the PATH.
        image: The full name of the image, with registry and tag.
        archive: The tar file to write.
    """
    layer = _tar({f"{_DIRECTORY}/{program.name}": program.read_bytes()}, mode=0o755)
    platform_ = {"architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux"}
    config = _json(
        {
            **platform_,
            "config": {"Entrypoint": [f"/{_DIRECTORY}/{program.name}"], "Env": [f"PATH=/{_DIRECTORY}"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_VENDOR}.manifest.v1+json",
            "config": _descriptor("config.v1+json", config),
            "layers": [_descriptor("layer.v1.tar", layer)],
        }
    )
    names = {"io.containerd.image.name": image, "org.opencontainers.image.ref.name": image.rpartition(":")[2]}
    index = _json(
        {
            "schemaVersion": 2,
            "manifests": [{**_descriptor("manifest.v1+json", manifest), "platform": platform_, "annotations": names}],
        }
    )
    blobs = {f"blobs/sha256/{_digest(blob).partition(':')[2]}": blob for blob in (layer, config, manifest)}
    archive.write_bytes(
        _tar({"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": index, **blobs}, mode=0o644)
    )


def _descriptor(kind: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": f"{_VENDOR}.{kind}", "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _tar(files: dict[str, bytes], *, mode: int) -> bytes:
    """Return an archive that depends only on the files, so that equal programs have equal digests."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        parents = {parent for name in files for parent in PurePosixPath(name).parents if parent.name}
        for parent in sorted(parents):
            directory = tarfile.TarInfo(str(parent))
            directory.type, directory.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(directory)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    return output.getvalue()
