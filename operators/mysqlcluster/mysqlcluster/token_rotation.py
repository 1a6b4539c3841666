"""The rotation of the token of the agents: the next content of the Secret, as a pure function.

| step | sent (`agent-token`) | also accepted |
|---|---|---|
| `Accept` | the former token | the new one (`agent-token-next`) |
| `Use` | the new token | the former one (`agent-token-former`) |
| end | the new token | none |

The operator, the agents and the archiver send one token and accept all tokens of the Secret that they see. A step lasts
until all of them have seen it, so that none sends a token that another one does not accept.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from mysqlcluster.credentials import FORMER_TOKEN, NEXT_TOKEN, TOKEN, TOKEN_BYTES, token_revision

__all__ = ["OVERLAP", "ROTATE_TOKEN", "TokenChange", "is_rotating", "next_change"]

ROTATE_TOKEN = "database.example.com/rotate-agent-token"
"""Annotation of a cluster: a new value requests a new token of the agents."""
STEP_AT = "database.example.com/agent-token-step-at"
"""Annotation of the Secret: the time of the last step."""
OVERLAP = timedelta(minutes=1)
"""Shortest time of a step, in which requests in progress end."""


class TokenChange(NamedTuple):
    """One write of the Secret; `None` removes a key."""

    data: Mapping[str, bytes | None]
    annotations: Mapping[str, str | None]
    reason: str
    completed: bool = False


def is_rotating(data: Mapping[str, bytes]) -> bool:
    """Return whether a rotation is in progress."""
    return NEXT_TOKEN in data or FORMER_TOKEN in data


def next_change(
    data: Mapping[str, bytes], annotations: Mapping[str, str], request: str, revisions: Sequence[str], now: datetime
) -> TokenChange | None:
    """Return the next change of the Secret; `None` if there is none now.

    Args:
        data: The content of the Secret.
        annotations: The annotations of the Secret.
        request: The value of the cluster's annotation; empty without one.
        revisions: The revisions of the tokens that the agents and the archiver accept; empty texts if unknown.
        now: The time.
    """
    if not is_rotating(data):
        if not request or annotations.get(ROTATE_TOKEN, "") == request:
            return None
        fresh = secrets.token_urlsafe(TOKEN_BYTES).encode()
        notes = {STEP_AT: now.isoformat(), ROTATE_TOKEN: request}
        return TokenChange({NEXT_TOKEN: fresh}, notes, f"the annotation {ROTATE_TOKEN} is {request!r}")
    begun = annotations.get(STEP_AT)
    overlaps = begun is not None and now - datetime.fromisoformat(begun) < OVERLAP
    if overlaps or any(each != token_revision(data) for each in revisions):
        return None
    if NEXT_TOKEN in data:
        content = {TOKEN: data[NEXT_TOKEN], NEXT_TOKEN: None, FORMER_TOKEN: data[TOKEN]}
        return TokenChange(content, {STEP_AT: now.isoformat()}, "all agents accept the new token")
    return TokenChange({FORMER_TOKEN: None}, {STEP_AT: None}, "all agents send the new token", completed=True)
