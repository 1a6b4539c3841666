"""Who asks, and whether they may: certificates, tokens, users, RBAC, impersonation, reviews and the audit log.

`Auth` puts it together for the API server. Nothing here listens or stores; what is stored is read through a `Reader`,
and a decision holds exactly as long as what it was made of.
"""

from steersman.devcluster.auth.attributes import Attributes, forbidden_error
from steersman.devcluster.auth.authenticate import ANONYMOUS, Authenticator, Headers
from steersman.devcluster.auth.bootstrap import BootstrapObject
from steersman.devcluster.auth.bootstrap import objects as bootstrap_objects
from steersman.devcluster.auth.certificates import SERVING_HOSTS
from steersman.devcluster.auth.escalation import check_escalation
from steersman.devcluster.auth.jwt import BadTokenError, SigningKey
from steersman.devcluster.auth.kubeconfig import kubeconfig, write_kubeconfig
from steersman.devcluster.auth.rbac import MASTERS, Authorizer
from steersman.devcluster.auth.reviews import user_info
from steersman.devcluster.auth.rules import aggregate
from steersman.devcluster.auth.service import Auth
from steersman.devcluster.auth.tokens import TokenIssuer, account_groups, account_name

__all__ = [
    "ANONYMOUS",
    "MASTERS",
    "SERVING_HOSTS",
    "Attributes",
    "Auth",
    "Authenticator",
    "Authorizer",
    "BadTokenError",
    "BootstrapObject",
    "Headers",
    "SigningKey",
    "TokenIssuer",
    "account_groups",
    "account_name",
    "aggregate",
    "bootstrap_objects",
    "check_escalation",
    "forbidden_error",
    "kubeconfig",
    "user_info",
    "write_kubeconfig",
]
