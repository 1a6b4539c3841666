"""What a failure to connect means, and the way out: the same words whatever the transport."""

from __future__ import annotations

__all__ = ["explained"]

_OTHER_NAME = "It is the certificate of another name: check the server URL and tls-server-name"
_UNTRUSTED = "The server's certificate is not signed by a CA that is trusted: check certificate-authority-data"
_NOBODY = "Nobody listens there: is the API server running, and the server URL right?"


def explained(problem: Exception | str) -> str:
    """The problem's own words, and a hint where there is one. Libraries and OpenSSL tell only by their texts."""
    text = str(problem) or type(problem).__name__
    said = text.lower()
    if "hostname mismatch" in said or "ip address mismatch" in said or "not valid for name" in said:
        return f"{text}. {_OTHER_NAME}"
    if "certificate verify failed" in said or "invalid peer certificate" in said or "unknownissuer" in said:
        return f"{text}. {_UNTRUSTED}"
    if "refused" in said or "connect call failed" in said:
        return f"{text}. {_NOBODY}"
    return text
