"""The scheduler: the choice of a node for each pending Pod."""
