"""The variable `authorizer` of policies and match conditions, which checks permissions of the writer.

    authorizer.group('apps').resource('deployments').namespace('a').check('delete').allowed()

All values are frozen. `check` evaluates RBAC when it is called.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from msgspec import structs

from steersman_cluster.auth.attributes import Attributes
from steersman_cluster.auth.rbac import Authorizer
from steersman_cluster.auth.tokens import account_groups, account_name
from steersman_cluster.strategy import User

__all__ = ["Access"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of `check`: whether RBAC allows the request, with the reason."""

    is_allowed: bool
    why: str

    def allowed(self) -> bool:
        return self.is_allowed

    def reason(self) -> str:
        return self.why

    def errored(self) -> bool:
        return False

    def error(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Check:
    """A path or resource whose permission can be checked."""

    authorizer: Authorizer
    user: User
    asked: Attributes

    def subresource(self, subresource: str) -> Self:
        return replace(self, asked=structs.replace(self.asked, subresource=subresource))

    def namespace(self, namespace: str) -> Self:
        return replace(self, asked=structs.replace(self.asked, namespace=namespace))

    def name(self, name: str) -> Self:
        return replace(self, asked=structs.replace(self.asked, name=name))

    def field_selector(self, selector: str) -> Self:
        """RBAC does not look at selectors."""
        return self

    def label_selector(self, selector: str) -> Self:
        """RBAC does not look at selectors."""
        return self

    def check(self, verb: str) -> Decision:
        return Decision(*self.authorizer.authorize(self.user, structs.replace(self.asked, verb=verb)))


@dataclass(frozen=True, slots=True)
class Group:
    """An API group that a resource is asked about in."""

    authorizer: Authorizer
    user: User
    group: str

    def resource(self, resource: str) -> Check:
        return Check(self.authorizer, self.user, Attributes("", self.group, "*", resource))


@dataclass(frozen=True, slots=True)
class Access:
    """The variable itself: what a user may do."""

    authorizer: Authorizer
    user: User

    def path(self, path: str) -> Check:
        """Return the check for a path that is not a resource."""
        return Check(self.authorizer, self.user, Attributes("", path=path))

    def group(self, group: str) -> Group:
        """Return the checks for the resources of a group."""
        return Group(self.authorizer, self.user, group)

    def service_account(self, namespace: str, name: str) -> Access:
        """Return the checks for a ServiceAccount instead of the user."""
        groups = (*account_groups(namespace), "system:authenticated")
        return Access(self.authorizer, User(account_name(namespace, name), groups=groups))
