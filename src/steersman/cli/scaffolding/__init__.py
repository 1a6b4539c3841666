"""`steersman init`, `create`, `edit`, `delete` and `update`: projects and their parts, made from templates."""
