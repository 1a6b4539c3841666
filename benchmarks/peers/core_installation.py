"""Import this first: the process has only the packages of `pip install steersman`.

msgspec imports `typing_extensions` if another package has installed it, as those of other peers do.
"""

import sys

sys.modules.setdefault("typing_extensions", None)  # type: ignore[arg-type] - the import fails, as without the package
