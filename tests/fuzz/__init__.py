"""Fuzzing of everything that parses bytes from outside: `make fuzz MINUTES=30 TARGET=yaml`.

A target gives bytes to one parser and fails where that answers otherwise than with its own error. Each input has bounds
on time and memory, and runs in a process of its own, which is killed when it hangs. A failing input is kept in a file,
and `python -m tests.fuzz --replay FILE` runs it again.
"""
