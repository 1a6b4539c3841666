"""What stands between a client's object and the store: the built-in plug-ins, and webhooks.

`Admission` is the chain; a `Write` goes through it. Decisions are made by what is stored at that moment. Only
webhooks are awaited, and only by writes that one of them wants.
"""

from steersman.devcluster.admission.chain import Admission
from steersman.devcluster.admission.matching import Equivalent, Equivalents
from steersman.devcluster.admission.write import CONNECT, CREATE, DELETE, UPDATE, Write

__all__ = ["CONNECT", "CREATE", "DELETE", "UPDATE", "Admission", "Equivalent", "Equivalents", "Write"]
