"""The Pod network of process nodes: a network namespace for each Pod, Services, DNS, and network faults.

`router` is a separate program that moves IP packets between the namespaces, and `control` starts and controls it.
`services` and `names` resolve Services and DNS names. `cluster_network` combines them for a cluster.
"""
