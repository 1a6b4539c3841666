"""Requests that connect to Pods and nodes: exec, attach, port-forward, logs, proxies, and the API of the kubelet."""
