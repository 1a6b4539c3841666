"""The kinds with a Pod template: Deployments, StatefulSets, DaemonSets, Jobs and the other controllers of Pods."""
