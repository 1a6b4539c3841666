"""A router of IPv4 packets between network namespaces, in user space: one TUN device in each namespace.

The cluster starts this package as a program (`loop.serve`), with the standard library only. Because all packets pass
through it, Services, NetworkPolicies, delays, losses and partitions need no kernel modules, no tools and no rights
beyond those over its own namespaces. When it ends, the kernel removes the devices; nothing else remains.
"""
