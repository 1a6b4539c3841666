"""What the API server saw: the audit policy of a test control plane, and its log as values.

The log proves things that no test can see from outside, such as that no write came from a replica that was
not the leader. Events are written synchronously, so what a client has got an answer to is in the log, and a
write's `RequestReceived` event is there even when the API server was killed before it answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

Level = Literal["None", "Metadata", "Request", "RequestResponse"]
Stage = Literal["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"]

WRITES = ("create", "update", "patch", "delete", "deletecollection")
_READS = ("get", "list", "watch")


class UnsupportedError(RuntimeError):
    """The cluster does not support the call; the message names a kind of cluster that does."""


@dataclass(frozen=True)
class AuditPolicy:
    """How much the API server records: `level` for everything, `bodies` with request and response bodies.

    `bodies` names verbs (`create`, `update`, `patch`, `delete`, …). Reads are recorded when answered; writes
    also when received. Health checks are never recorded, nor are the bodies of Secrets and token requests.
    """

    level: Level = "Metadata"
    bodies: tuple[str, ...] = ()

    def text(self) -> str:
        """The policy file as kube-apiserver reads it (JSON is YAML)."""
        rules: list[dict[str, Any]] = [
            {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/version", "/metrics"]},
            {
                "level": "None" if self.level == "None" else "Metadata",
                "resources": [
                    {"group": "", "resources": ["secrets", "serviceaccounts/token"]},
                    {"group": "authentication.k8s.io", "resources": ["tokenreviews"]},
                ],
            },
            {"level": self.level, "verbs": list(_READS), "omitStages": ["RequestReceived", "ResponseStarted"]},
            {"level": self.level},
        ]
        if self.bodies:
            rules.insert(2, {"level": "RequestResponse", "verbs": list(self.bodies)})
        return json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}, indent=2)


@dataclass(frozen=True)
class AuditEvent:
    """One line of the audit log. `code` is 0 while there is no answer yet; `name` is empty for collections."""

    audit_id: str
    stage: Stage
    verb: str
    uri: str
    user: str
    groups: tuple[str, ...]
    impersonated: str
    user_agent: str
    source: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    received: datetime
    at: datetime
    """When this stage was reached."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The whole event; `requestObject` and `responseObject` are here where the policy records them."""

    @property
    def is_write(self) -> bool:
        """Whether the request may change what is stored (or would, without dry run)."""
        return self.verb in WRITES


def read_audit_log(
    path: Path,
    *,
    since: int = 0,
    stage: Stage | None = "ResponseComplete",
    verbs: Sequence[str] | None = None,
    resource: str | None = None,
    namespace: str | None = None,
    user: str | None = None,
    user_agent: str | None = None,
) -> Iterator[AuditEvent]:
    """Yield the events of the log in order, filtered; a last line that is still being written is left out.

    `since` is how many bytes to leave out: what the log's size was. `stage=None` yields every stage.
    `resource` is the plural; `user_agent` is a prefix.
    """
    if not path.exists():
        return
    with path.open("rb") as log:
        log.seek(since)
        for line in log:
            if (event := _parse(line)) is None:
                continue
            if (
                (stage is None or event.stage == stage)
                and (verbs is None or event.verb in verbs)
                and (resource is None or event.resource == resource)
                and (namespace is None or event.namespace == namespace)
                and (user is None or event.user == user)
                and (user_agent is None or event.user_agent.startswith(user_agent))
            ):
                yield event


def mend_audit_log(path: Path) -> None:
    """End the line that a killed API server left half written, so that the next event starts its own line."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("r+b") as log:
        log.seek(-1, 2)
        if log.read(1) != b"\n":
            log.write(b"\n")


def _parse(line: bytes) -> AuditEvent | None:
    try:
        raw: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    ref: dict[str, Any] = raw.get("objectRef") or {}
    user: dict[str, Any] = raw.get("user") or {}
    impersonated: dict[str, Any] = raw.get("impersonatedUser") or {}
    status: dict[str, Any] = raw.get("responseStatus") or {}
    return AuditEvent(
        audit_id=raw["auditID"],
        stage=raw["stage"],
        verb=raw["verb"],
        uri=raw["requestURI"],
        user=user.get("username", ""),
        groups=tuple(user.get("groups") or ()),
        impersonated=impersonated.get("username", ""),
        user_agent=raw.get("userAgent", ""),
        source=",".join(raw.get("sourceIPs") or ()),
        group=ref.get("apiGroup", ""),
        resource=ref.get("resource", ""),
        subresource=ref.get("subresource", ""),
        namespace=ref.get("namespace", ""),
        name=ref.get("name", ""),
        code=status.get("code", 0),
        received=datetime.fromisoformat(raw["requestReceivedTimestamp"]),
        at=datetime.fromisoformat(raw["stageTimestamp"]),
        raw=raw,
    )
