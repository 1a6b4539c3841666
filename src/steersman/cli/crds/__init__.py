"""`steersman models`, `diff` and `migrate-storage`: the commands that work with CustomResourceDefinitions."""
