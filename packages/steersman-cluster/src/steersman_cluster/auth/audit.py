"""The audit log: requests with their user, impersonated user and outcome, as `audit.k8s.io/v1` Events.

A `Log` keeps events in memory, appends them to a file as JSON lines, or both. Without a log no events are built.
Bodies are recorded only where the policy requires them; `Policy.at` never records those of Secrets and tokens.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast
from uuid import uuid4

from steersman_cluster.auth.attributes import Attributes
from steersman_cluster.auth.audit_policy import Decision, Level, Policy
from steersman_cluster.auth.reviews import user_info
from steersman_cluster.json_access import get_object
from steersman_cluster.objects import Object
from steersman_cluster.strategy import User

__all__ = ["Entry", "Log"]

_DEFAULT_KEPT = 100_000


class Log:
    """The destination of audit events. Not thread-safe: it belongs to the event loop of the API server.

    Args:
        policy: The rules for recording; by default the metadata of all requests.
        path: A file that events are appended to, mode 0600, one per line.
        keep: The number of latest events in memory: by default 100,000 without a file, and none with one.
        now: Returns the time in seconds since the epoch.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        path: Path | None = None,
        keep: int | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        self.policy = policy or Policy.at(Level.METADATA)
        self._now = now
        default = _DEFAULT_KEPT if path is None else 0
        self._events: deque[Object] = deque(maxlen=default if keep is None else keep)
        self._file: IO[str] | None = None
        if path is not None:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._file = os.fdopen(descriptor, "w", buffering=1, encoding="utf-8")

    def close(self) -> None:
        """Close the file; events in memory stay."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def begin(
        self,
        user: User,
        attributes: Attributes,
        *,
        uri: str,
        acting_as: User | None = None,
        source: Sequence[str] = (),
        user_agent: str = "",
    ) -> Entry | None:
        """Open the entry of a request; return `None` if the policy records nothing of it.

        Args:
            user: The sender of the request; rules of the policy can select users.
            attributes: The attributes of the request.
            uri: The path of the request with its query.
            acting_as: The impersonated user; the sender without impersonation.
            source: The addresses of the client and of proxies.
            user_agent: The header User-Agent.
        """
        decision = self.policy.decide(user, attributes)
        if decision.level is Level.NONE:
            return None
        received = self._time()
        event: Object = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": decision.level.text,
            "auditID": str(uuid4()),
            "stage": "RequestReceived",
            "requestURI": uri,
            "verb": attributes.verb,
            "user": user_info(user),
        }
        if acting_as is not None and acting_as is not user:
            event["impersonatedUser"] = user_info(acting_as)
        if source:
            event["sourceIPs"] = list(source)
        if user_agent:
            event["userAgent"] = user_agent[:1024]
        if attributes.is_resource:
            event["objectRef"] = _reference(attributes)
        event["requestReceivedTimestamp"] = received
        entry = Entry(self, decision, event)
        entry.stage("RequestReceived", received)
        return entry

    def events(
        self,
        *,
        user: str | None = None,
        verb: str | None = None,
        resource: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        stage: str | None = "ResponseComplete",
    ) -> list[Object]:
        """Return the events in memory that match, oldest first.

        Args:
            user: The effective user, after impersonation.
            verb: The verb of the request.
            resource: A resource or subresource, such as `pods/status`.
            namespace: The namespace of the object.
            name: The name of the object.
            stage: The stage of the event; `None` for all.
        """
        return [
            event
            for event in self._events
            if (stage is None or event["stage"] == stage)
            and (user is None or _acting(event) == user)
            and (verb is None or event["verb"] == verb)
            and (resource is None or _resource(event) == resource)
            and (namespace is None or get_object(event, "objectRef").get("namespace", "") == namespace)
            and (name is None or get_object(event, "objectRef").get("name", "") == name)
        ]

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._events))

    def clear(self) -> None:
        """Forget the events in memory."""
        self._events.clear()

    def _time(self) -> str:
        moment = datetime.now(UTC) if self._now is None else datetime.fromtimestamp(self._now(), UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def record(self, event: Object) -> None:
        """Take a finished event."""
        self._events.append(event)
        if self._file is not None:
            self._file.write(json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n")


class Entry:
    """The entry of one request, from its arrival to its answer."""

    __slots__ = ("_annotations", "_decision", "_event", "_log")

    def __init__(self, log: Log, decision: Decision, event: Object) -> None:
        self._log = log
        self._decision = decision
        self._event = event
        self._annotations: dict[str, str] = {}

    @property
    def audit_id(self) -> str:
        """The id of the request in the log, and the value of the `Audit-Id` response header."""
        return self._event["auditID"]

    @property
    def wants_request(self) -> bool:
        """Return whether the request's object is recorded."""
        return self._decision.level >= Level.REQUEST

    @property
    def wants_response(self) -> bool:
        """Return whether the answer's object is recorded."""
        return self._decision.level >= Level.REQUEST_RESPONSE

    def annotate(self, annotations: Mapping[str, str]) -> None:
        """Add annotations; the first value of a key stays."""
        for key, value in annotations.items():
            self._annotations.setdefault(key, value)

    def authorized(self, decision: tuple[bool, str]) -> None:
        """Record the decision of the authorizer: whether the request is allowed, and the reason."""
        allowed, reason = decision
        verdict = "allow" if allowed else "forbid"
        self.annotate({"authorization.k8s.io/decision": verdict, "authorization.k8s.io/reason": reason})

    def request(self, obj: Any) -> None:
        """Record the object (or patch) that was sent; ignored below level Request."""
        if self.wants_request and obj is not None:
            self._event["requestObject"] = self._shown(obj)

    def named(self, name: str) -> None:
        """Record the name that a created object came to have."""
        if name and "objectRef" in self._event:
            self._event["objectRef"]["name"] = name

    def started(self, code: int) -> None:
        """Record that a long answer (watch, logs, exec) began."""
        self._event["responseStatus"] = {"metadata": {}, "code": code}
        self.stage("ResponseStarted", self._log._time())  # pyright: ignore[reportPrivateUsage]

    def complete(self, code: int, body: Object | None = None) -> None:
        """Record the end of a request; `body` is the answer's object, of which a Status is always recorded."""
        status: Object = {"metadata": {}}
        if body is not None and body.get("kind") == "Status":
            status.update({key: body[key] for key in ("status", "message", "reason", "details") if body.get(key)})
        status["code"] = code
        self._event["responseStatus"] = status
        if self.wants_response and body is not None:
            self._event["responseObject"] = self._shown(body)
        self.stage("ResponseComplete", self._log._time())  # pyright: ignore[reportPrivateUsage]

    def stage(self, stage: str, now: str) -> None:
        """Record a stage, unless the policy leaves it out."""
        if stage in self._decision.omitted:
            return
        event = {**self._event, "stage": stage, "stageTimestamp": now}
        if reference := get_object(event, "objectRef"):
            event["objectRef"] = dict(reference)
        if self._annotations:
            event["annotations"] = dict(self._annotations)
        self._log.record(event)

    def _shown(self, obj: Any) -> Any:
        # A copy, because the object may change later and the record must not.
        copied: Any = json.loads(json.dumps(obj))
        if self._decision.omits_managed_fields and isinstance(copied, dict):
            get_object(cast(Object, copied), "metadata").pop("managedFields", None)
            return cast(Object, copied)
        return copied


def _reference(attributes: Attributes) -> Object:
    reference: Object = {
        "resource": attributes.resource,
        "namespace": attributes.namespace,
        "name": attributes.name,
        "apiGroup": attributes.group,
        "apiVersion": attributes.version,
        "subresource": attributes.subresource,
    }
    return {key: value for key, value in reference.items() if value}


def _acting(event: Object) -> str:
    return str((get_object(event, "impersonatedUser") or get_object(event, "user")).get("username") or "")


def _resource(event: Object) -> str:
    reference = get_object(event, "objectRef")
    resource, subresource = str(reference.get("resource") or ""), reference.get("subresource")
    return f"{resource}/{subresource}" if subresource else resource
