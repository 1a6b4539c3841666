"""A router of IPv4 packets between network namespaces, in user space: one TUN device in each namespace.

The cluster starts this package as a program (`loop.serve`), with the standard library only. All packets pass through
it, so Services, NetworkPolicies, delays, losses and partitions need no kernel modules, no tools, and no privileges
outside its own namespaces. When it ends, the kernel removes the devices.
"""
