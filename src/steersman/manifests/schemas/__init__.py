"""Structural schemas of Python types: fields, constraints, defaults, CEL rules, unions."""
