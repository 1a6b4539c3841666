"""The error of the scaffolding commands: its message is for users, and nothing was changed."""

from __future__ import annotations

__all__ = ["ScaffoldError"]


class ScaffoldError(Exception):
    """The project was not changed. `code` is the exit status: 2 for invalid arguments, 1 for other errors."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code
