"""`steersman run`: one replica of an operator in this process, its options, and `--reload`."""
