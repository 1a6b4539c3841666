"""Leader election: only one replica of an operator writes.

`state` is the election as a pure state machine, `elector` takes part in it for this process and checks each write,
`lease` reads and writes the Lease, and `pod_lock` proves that earlier processes of the Pod have ended.
"""
