"""Hints that explain why a connection failed; the same for all transports."""

from __future__ import annotations

__all__ = ["with_hint"]

_OTHER_NAME = "The certificate is for another name: check the server URL and tls-server-name"
_UNTRUSTED = "The server's certificate is not signed by a trusted CA: check certificate-authority-data"
_REFUSED = "No server listens at this address: check that the API server runs and that the server URL is right"


def with_hint(problem: Exception | str) -> str:
    """Return the message of an error with a hint. Libraries distinguish the causes only by their messages."""
    text = str(problem) or type(problem).__name__
    said = text.lower()
    if "hostname mismatch" in said or "ip address mismatch" in said or "not valid for name" in said:
        return f"{text}. {_OTHER_NAME}"
    if "certificate verify failed" in said or "invalid peer certificate" in said or "unknownissuer" in said:
        return f"{text}. {_UNTRUSTED}"
    if "refused" in said or "connect call failed" in said:
        return f"{text}. {_REFUSED}"
    return text
