"""The controllers of cert-manager on the node, and the renewal of certificates."""

from __future__ import annotations

from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path

from steersman.testing.real_node import RealNode
from steersman.testing.waiting import eventually
from tests.node.programs import module_directory, start_program, tool

CERTIFICATE = "certificates.cert-manager.io"

_MODULE = ("github.com/cert-manager/cert-manager", "v1.21.0")


class CertManager:
    """cert-manager's controllers and CA injector, without its admission webhook."""

    def __init__(self, node: RealNode, directory: Path) -> None:
        self._node = node
        self._definitions = module_directory(*_MODULE) / "deploy" / "crds"
        for path in sorted(self._definitions.glob("*.yaml")):
            node.kubectl("apply", "--server-side", "-f", str(path))
        eventually(lambda: node.kind(CERTIFICATE), within=30, what="the kinds of cert-manager")
        self._program = start_program(node, "cert-manager", [tool("cert-manager")], directory)

    def close(self) -> None:
        """End the controllers, and delete their kinds."""
        self._program.kill()
        for path in sorted(self._definitions.glob("*.yaml")):
            self._node.kubectl("delete", "-f", str(path), "--ignore-not-found", timeout=120)

    def renew(self, namespace: str, name: str) -> None:
        """Renew a Certificate before it expires, as `cmctl renew` does, and wait for the new one in its Secret."""
        found = self._node.wait(CERTIFICATE, name, "Ready", namespace=namespace, within=60)
        secret = found["spec"]["secretName"]
        before = self.secret(namespace, secret)["tls.crt"]
        issuing = {
            "type": "Issuing",
            "status": "True",
            "reason": "ManuallyTriggered",
            "message": "Certificate re-issuance manually triggered",
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "observedGeneration": found["metadata"]["generation"],
        }
        conditions = [one for one in found["status"]["conditions"] if one["type"] != "Issuing"]
        self._node.patch(
            CERTIFICATE, name, {"status": {"conditions": [*conditions, issuing]}},
            namespace=namespace, subresource="status",
        )  # fmt: skip
        eventually(
            lambda: self.secret(namespace, secret)["tls.crt"] != before, within=90, what=f"a new certificate {name}"
        )

    def secret(self, namespace: str, name: str) -> dict[str, bytes]:
        """Return the content of a Secret."""
        found = self._node.get("secret", name, namespace=namespace)
        assert found is not None, f"there is no Secret {name}"
        return {key: b64decode(value) for key, value in found["data"].items()}
