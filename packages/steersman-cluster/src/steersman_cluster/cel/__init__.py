"""The Common Expression Language as the API server speaks it: rules of custom resources, match conditions.

Google's parser reads the text; types, functions and texts of errors are Kubernetes'. Never runs unchecked code: every
expression is compiled against the types of its variables first. Costs are estimated before it runs (`Program.cost`) and
counted while it does (`Meter`).
"""

from steersman_cluster.cel.meter import MATCH_CONDITIONS_BUDGET, OBJECT_BUDGET, PER_CALL_LIMIT, Budget, Meter
from steersman_cluster.cel.patches import JSON_PATCH, OBJECT, Message, json_of, name_errors
from steersman_cluster.cel.program import CompileError, Program, compile, evaluate  # noqa: A004
from steersman_cluster.cel.types import (
    ANY,
    BOOL,
    DOUBLE,
    INT,
    STRING,
    Type,
    from_schema,
    list_of,
    map_of,
    object_of,
    opaque,
    optional_of,
)
from steersman_cluster.cel.values import CelError, CostLimitError

__all__ = [
    "ANY",
    "BOOL",
    "DOUBLE",
    "INT",
    "JSON_PATCH",
    "MATCH_CONDITIONS_BUDGET",
    "OBJECT",
    "OBJECT_BUDGET",
    "PER_CALL_LIMIT",
    "STRING",
    "Budget",
    "CelError",
    "CompileError",
    "CostLimitError",
    "Message",
    "Meter",
    "Program",
    "Type",
    "compile",
    "evaluate",
    "from_schema",
    "json_of",
    "list_of",
    "map_of",
    "name_errors",
    "object_of",
    "opaque",
    "optional_of",
]  # fmt: skip
