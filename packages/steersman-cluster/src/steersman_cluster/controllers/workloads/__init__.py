"""The controllers of Pods: ReplicaSets, Deployments, StatefulSets, DaemonSets, Jobs and CronJobs."""
