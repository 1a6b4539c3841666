"""`steersman manifests`, `bundle` and `build`: what an operator is delivered as."""
