"""The lock file of a new project: the installed versions of Steersman's dependencies, without network access.

It has the packages that `steersman` needs at run time, as installed in the environment that creates the project.
`make lock` in the project creates a new one with hashes.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution

from steersman.extras import require

__all__ = ["lock_text"]

_HEADER = """\
# The packages of the image: the versions that were installed when the project was created. `make lock` updates this
# file and adds the hash of every file; `steersman update` does not change it.
"""


def lock_text(root: str = "steersman") -> str:
    """Return the text of `requirements.lock`."""
    require("the lock file", "dev", "packaging")
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
            continue  # a package for another platform
        found[name] = installed.version
        for text in installed.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                wanted.append(requirement.name)
    return _HEADER + "".join(f"{name}=={version}\n" for name, version in sorted(found.items()))
