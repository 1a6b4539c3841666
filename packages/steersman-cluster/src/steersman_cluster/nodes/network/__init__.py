"""The Pod network of process nodes: a network namespace per Pod, Services, DNS, and faults between Pods.

`router` is a program of its own that moves IP packets between the namespaces; `control` starts it and talks to it;
`services` and `names` say what Services and DNS names mean; `pods` brings it together for a cluster.
"""
