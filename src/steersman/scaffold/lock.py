"""The lock file of a new project: what is installed here, pinned, without asking any network.

It holds what `steersman` itself needs at run time, as the environment has it that makes the project. `make lock`, in
the project, makes a new one with hashes whenever its owner wants newer versions.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution

from steersman.extras import require

__all__ = ["lock"]

_HEADER = """\
# What the image is built from: the versions that were installed when the project was made. `make lock` makes it anew,
# with the hash of every file; it is yours, and `steersman update` leaves it alone.
"""


def lock(root: str = "steersman") -> str:
    """The text of `requirements.lock`."""
    require("the lock file", "dev", "packaging")  # a dependency of copier
    from packaging.requirements import Requirement

    found: dict[str, str] = {}
    wanted = [root]
    while wanted:
        name = re.sub(r"[-_.]+", "-", wanted.pop()).lower()
        if name in found:
            continue
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue  # for another platform
        found[name] = installed.version
        for text in installed.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                wanted.append(requirement.name)
    return _HEADER + "".join(f"{name}=={version}\n" for name, version in sorted(found.items()))
