"""Bugs that were reported in public issues of real operators, re-created from the issues as minimal operators.

Each module has one bug, and the correct operator beside it. The operators share no code with the real ones.
"""
