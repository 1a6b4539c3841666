"""Configuration and authentication: the API server, its trusted certificates and the identity.

`load_config()` finds the configuration like kubectl (an explicit file, the merged `$KUBECONFIG`, `~/.kube/config`, the
Pod's ServiceAccount) and returns a frozen `Config`. It opens no connection and does not block the event loop.

How a transport uses a `Config`:

1. Before each request: `headers = await config.auth.headers()` (less than a microsecond while nothing expires), then
   `certificate = config.auth.client_certificate()`. Both return the *same object* until the credentials change. If
   `certificate is not` the one of the current connections, open new ones. Call `headers` first: it obtains and renews
   credentials (exec plugins, rotated files).
2. `config.impersonate.headers()` returns pairs to add to every request (one header per group).
3. After a 401: `again = await config.auth.headers(refresh=True)` (concurrent callers share one refresh). If `again`
   and `client_certificate()` are both the refused objects, raise the error, else retry once.
4. TLS: `config.tls` (`ca_pem` None means the system's trust store; `server_name` is for SNI and verification;
   `insecure`), ignored for `http://` servers. `ssl_context(config.tls, certificate)` builds Python's context.
   `config.proxy` already includes the environment.
"""

from steersman.client.config.base import (
    ANONYMOUS,
    Anonymous,
    Authenticator,
    ClientCertificate,
    Config,
    Impersonation,
    TlsConfig,
)
from steersman.client.config.errors import ConfigError, CredentialError
from steersman.client.config.incluster import in_cluster_config
from steersman.client.config.load import load_config
from steersman.client.config.tls import ssl_context

__all__ = [
    "ANONYMOUS",
    "Anonymous",
    "Authenticator",
    "ClientCertificate",
    "Config",
    "ConfigError",
    "CredentialError",
    "Impersonation",
    "TlsConfig",
    "in_cluster_config",
    "load_config",
    "ssl_context",
]
