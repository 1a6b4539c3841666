"""`python -m steersman_cluster` is the command `steersman-cluster`."""

from steersman_cluster.cli import main

main()
