"""`steersman dev`: a cluster and an operator in one command, with a live view of both."""
