"""The demo application: answers with MSG of its configuration file, read once, when it starts."""

from __future__ import annotations

import os
import sys
from typing import Any

from flask import Flask


def create_app(path: str = "/config/config.cfg") -> Flask:
    """The application, configured by a file of Python assignments such as `MSG="Welcome!"`."""
    app = Flask(__name__)
    app.config.from_pyfile(path)
    settings: Any = app.config

    @app.get("/")
    def message() -> str:  # pyright: ignore[reportUnusedFunction] - Flask calls it
        return str(settings["MSG"])

    return app


if __name__ == "__main__":
    # Pods that are processes of one machine share its network: each listens on its own address there.
    create_app(*sys.argv[1:2]).run(host=os.environ.get("POD_IP", "0.0.0.0"), port=int(os.environ.get("PORT", "5000")))
