"""Errors of configuration and credentials.

They name the file, the entry and the field, and say what to do. They never carry a secret: no value of a
credential is ever part of a message, and no underlying exception is chained that could show one.
"""

from __future__ import annotations

from steersman.client.errors import ClientError


class ConfigError(ClientError):
    """The configuration cannot be used: which file, which entry, which field, and the way out.

    Raised by `load_config` and friends, before any connection is made. `.source` is the file or environment
    variable, `.entry` e.g. `user "admin"`, `.field` e.g. `client-key-data`; each may be empty.
    """

    def __init__(self, problem: str, *, source: str = "", entry: str = "", field: str = "", hint: str = "") -> None:
        self.problem = problem
        self.source = source
        self.entry = entry
        self.field = field
        self.hint = hint
        place = ", ".join(part for part in (source, entry, field) if part)
        super().__init__(
            f"{place}: {problem}{f'; {hint}' if hint else ''}" if place else problem + (f"; {hint}" if hint else "")
        )


class CredentialError(ConfigError):
    """Credentials could not be obtained at run time: an exec plugin, a token file or an identity provider failed.

    Raised by `Authenticator.headers`. It may be passing (a provider that is down): retry with backoff.
    """
