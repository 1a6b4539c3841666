"""`steersman doctor`: the checks that find problems of an operator, and their findings."""
