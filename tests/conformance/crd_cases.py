"""The schemas, values and definitions of the CRD room's unit tests, for both servers."""

import importlib.util
from pathlib import Path

_PATH = Path(__file__).parent.parent / "cluster" / "crd" / "cases.py"
_SPEC = importlib.util.spec_from_file_location("crd_cases_of_units", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
_CASES = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_CASES)

DEFINITIONS = _CASES.DEFINITIONS
VALUES = _CASES.VALUES
definition = _CASES.definition
obj = _CASES.obj
