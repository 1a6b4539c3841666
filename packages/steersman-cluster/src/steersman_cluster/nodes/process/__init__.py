"""Nodes whose containers are local processes, with their environment, volumes, probes and logs.

It is for development: processes share the machine's network and see its files (read-only where a sandbox is to be
had). It isolates nothing from a hostile workload.
"""
