"""What is wrong with a wish, or with the project it was made in: a message for people, and nothing was changed."""

from __future__ import annotations

__all__ = ["ScaffoldError"]


class ScaffoldError(Exception):
    """The project was left as it was. `code` is for the shell: 2 asked for wrongly, 1 not possible here and now."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code
