"""Configuration and authentication: which API server, trusted how, reached as whom.

`load_config()` finds it as kubectl does (an explicit file, `$KUBECONFIG` merged, `~/.kube/config`, the Pod's
ServiceAccount) and returns a frozen `Config`. Nothing connects here and nothing blocks the event loop.

What a transport does with a `Config`:

1. Before each request: `headers = await config.auth.headers()` (well under a microsecond when nothing expires), then
   `certificate = config.auth.client_certificate()`. Both return the *same object* until the credentials
   change; when `certificate is not` the one that the connections were built with, build new ones. Call
   `headers` first: it is what obtains or refreshes (exec plugins, rotated files).
2. `config.impersonate.headers()` are pairs to add to every request (a group each is a header each).
3. On 401: `again = await config.auth.headers(refresh=True)` (concurrent callers share one refresh); when `again` and
   `client_certificate()` are both the objects that were refused, give up, else retry once.
4. TLS: `config.tls` (`ca_pem` None = system trust; `server_name` for SNI and verification; `insecure`), ignored for
   `http://` servers. `ssl_context(config.tls, certificate)` builds Python's context; `config.proxy` is final.
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
