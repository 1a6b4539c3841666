"""Nodes whose containers are local processes, with their environment, volumes, probes and logs.

It is for development. Without namespaces, processes share the network of the machine and see its files, read-only in a
sandbox. A process node does not protect the machine from a hostile workload.
"""
