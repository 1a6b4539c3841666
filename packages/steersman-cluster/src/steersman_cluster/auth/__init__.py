"""Authentication and authorization: certificates, tokens, users, RBAC, impersonation, reviews and the audit log.

`Auth` combines them for the API server. This package neither listens nor stores: it reads objects through a `Reader`.
A cached decision is valid until an object changes that it was derived from.
"""

from steersman_cluster.auth.attributes import Attributes, forbidden_error
from steersman_cluster.auth.authentication import ANONYMOUS, Authenticator, Headers
from steersman_cluster.auth.bootstrap import BootstrapObject
from steersman_cluster.auth.bootstrap import objects as bootstrap_objects
from steersman_cluster.auth.certificates import SERVING_HOSTS
from steersman_cluster.auth.escalation import check_escalation
from steersman_cluster.auth.jwt import InvalidTokenError, SigningKey
from steersman_cluster.auth.kubeconfig import kubeconfig, write_kubeconfig
from steersman_cluster.auth.rbac import MASTERS, Authorizer
from steersman_cluster.auth.reviews import user_info
from steersman_cluster.auth.rules import aggregate
from steersman_cluster.auth.service import Auth
from steersman_cluster.auth.tokens import TokenIssuer, account_groups, account_name

__all__ = [
    "ANONYMOUS",
    "MASTERS",
    "SERVING_HOSTS",
    "Attributes",
    "Auth",
    "Authenticator",
    "Authorizer",
    "BootstrapObject",
    "Headers",
    "InvalidTokenError",
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
