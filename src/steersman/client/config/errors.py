"""Errors of configuration and credentials.

They name the file, the entry and the field, and what to do. No message contains a credential, and no exception is
chained that could contain one.
"""

from __future__ import annotations

from steersman.client.errors import ClientError


class ConfigError(ClientError):
    """The configuration is invalid. The message names the file, the entry, the field and what to do.

    `load_config` and similar functions raise it before a connection is opened. `.source` is the file or environment
    variable, `.entry` is like `user "admin"`, `.field` is like `client-key-data`; each may be empty.
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

    `Authenticator.headers` raises it. The cause may be temporary (a provider that is not available): retry with
    backoff.
    """
