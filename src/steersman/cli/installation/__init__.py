"""`steersman install`, `deploy` and their inverses: the changes that they make in a cluster."""
