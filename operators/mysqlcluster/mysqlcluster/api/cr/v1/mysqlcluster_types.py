"""The kind MySQLCluster of cr.mysqloperator.grtl.github.com: the same database cluster with fewer fields."""

from typing import Annotated

from steersman import Column, Ge, Le, Resource, Scale
from steersman.models import Model
from steersman.models.markers import MaxLength

from mysqlcluster.api.database.v1alpha1.mysqlcluster_types import MySQLClusterStatus


class MySQLClusterSpec(Model):
    """The desired state of a database cluster."""

    secret: Annotated[str, MaxLength(253)] = ""
    """Secret with the passwords of the accounts. If it is empty, the operator generates one."""
    from_backup: Annotated[str, MaxLength(253)] = ""
    """MySQLBackup from which a new cluster is restored."""
    port: Annotated[int, Ge(1), Le(65535)] = 3306
    """TCP port of the server and of the Services."""
    replicas: Annotated[int, Ge(1), Le(9)] = 1
    """Number of members."""
    storage: Annotated[str, MaxLength(32)] = "1Gi"
    """Size of the volume of each member, such as 1Gi."""
    image: Annotated[str, MaxLength(1024)] = ""
    """Container image of the server. An image whose name contains `mariadb` makes a MariaDB cluster."""


class MySQLCluster(
    Resource,
    group="cr.mysqloperator.grtl.github.com",
    version="v1",
    plural="mysqlclusters",
    scale=Scale(spec="spec.replicas", status="status.size", selector="status.selector"),
    columns=(
        Column("Replicas", "spec.replicas"),
        Column("Phase", "status.phase"),
        Column("Primary", "status.primary"),
        Column("Age", ".metadata.creationTimestamp", type="date"),
    ),
):
    """A replicated MySQL or MariaDB database."""

    spec: MySQLClusterSpec = MySQLClusterSpec()
    status: MySQLClusterStatus = MySQLClusterStatus()
