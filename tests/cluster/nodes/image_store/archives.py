"""Image archives as Docker and buildah write them, made from entries of layers."""

import gzip
import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

import zstandard

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def entry(name: str, content: bytes | None = None, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    """A file, a directory (a name that ends in /), or what `type` and `linkname` say."""
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
    info.mode = 0o755
    info.size = len(content or b"")
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content or b""


def symlink(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.SYMTYPE, linkname=target)


def hard_link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.LNKTYPE, linkname=target)


def layer(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def config_of(layers: list[bytes], **config: Any) -> dict[str, Any]:
    digests = [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in layers]
    return {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": digests},
    }


def docker_archive(path: Path, layers: list[bytes], *names: str, **config: Any) -> Path:
    entries = [entry(f"{number}.tar", data) for number, data in enumerate(layers)]
    manifest = [{"Config": "c.json", "RepoTags": list(names), "Layers": [info.name for info, _ in entries]}]
    entries += [entry("c.json", json.dumps(config_of(layers, **config)).encode())]
    path.write_bytes(layer(*entries, entry("manifest.json", json.dumps(manifest).encode())))
    return path


def oci_layout(path: Path, layers: list[bytes], name: str, compression: str = "gzip", **config: Any) -> Path:
    def blob(data: bytes, **fields: Any) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        (path / "blobs/sha256").mkdir(parents=True, exist_ok=True)
        (path / "blobs/sha256" / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data), **fields}

    pack = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress, "none": bytes}[compression]
    manifest = {
        "schemaVersion": 2,
        "config": blob(json.dumps(config_of(layers, **config)).encode()),
        "layers": [blob(pack(one)) for one in layers],
    }
    annotations = {"org.opencontainers.image.ref.name": name} if name else {}
    index = {"schemaVersion": 2, "manifests": [blob(json.dumps(manifest).encode(), annotations=annotations)]}
    (path / "index.json").write_text(json.dumps(index))
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return path
