"""Admission: the built-in plug-ins, admission policies and webhooks between authorization and storage.

`Admission` is the chain that a `Write` passes. Decisions use the objects that are stored at that moment. Only webhooks
are awaited, and only by writes that match one.
"""

from steersman_cluster.admission.chain import Admission
from steersman_cluster.admission.matching import Equivalent, Equivalents
from steersman_cluster.admission.write import CONNECT, CREATE, DELETE, UPDATE, Write

__all__ = ["CONNECT", "CREATE", "DELETE", "UPDATE", "Admission", "Equivalent", "Equivalents", "Write"]
