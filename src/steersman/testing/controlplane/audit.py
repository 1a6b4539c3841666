"""The audit policy of a test control plane, and its audit log as values.

The log proves facts that a test cannot observe from outside, for example that a replica without the lease wrote
nothing. Events are written synchronously: the log has every call with a response, and the `RequestReceived` event of a
write even if the API server was killed before its response.
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
    """The audit level: `level` for all requests, `bodies` with request and response bodies.

    `bodies` lists verbs (`create`, `update`, `patch`, `delete`, …). Reads are recorded at their response; writes also
    at their arrival. Health checks are never recorded, nor are bodies of Secrets and token requests.
    """

    level: Level = "Metadata"
    bodies: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the policy file for kube-apiserver (as JSON, which is YAML)."""
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
    """One event of the audit log. `code` is 0 before the response; `name` is empty for collections."""

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
    """The time of this stage."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """The complete event, with `requestObject` and `responseObject` if the policy records them."""

    @property
    def is_write(self) -> bool:
        """Return whether the request may change stored objects (a dry run counts, too)."""
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
    """Yield the filtered events of the log in order; an incomplete last line is left out.

    `since` is the number of bytes to skip, such as an earlier size of the log. `stage=None` yields every stage.
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


def complete_last_line(path: Path) -> None:
    """End an incomplete line of a killed API server, so that the next event starts a new line."""
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
