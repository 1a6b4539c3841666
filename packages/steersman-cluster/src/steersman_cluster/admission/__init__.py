"""What stands between a client's object and the store: the built-in plug-ins, and webhooks.

`Admission` is the chain; a `Write` goes through it. Decisions are made by what is stored at that moment. Only
webhooks are awaited, and only by writes that one of them wants.
"""

from steersman_cluster.admission.chain import Admission
from steersman_cluster.admission.matching import Equivalent, Equivalents
from steersman_cluster.admission.write import CONNECT, CREATE, DELETE, UPDATE, Write

__all__ = ["CONNECT", "CREATE", "DELETE", "UPDATE", "Admission", "Equivalent", "Equivalents", "Write"]
