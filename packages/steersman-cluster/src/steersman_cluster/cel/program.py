"""Compiling and running expressions: `compile("object.spec.replicas > 1", {"object": ANY}).evaluate(…)`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from steersman_cluster.cel.checker import check
from steersman_cluster.cel.cost import estimate
from steersman_cluster.cel.evaluator import evaluator
from steersman_cluster.cel.meter import METER, EvaluationCancelledError, Meter, measure
from steersman_cluster.cel.sizes import Decl
from steersman_cluster.cel.syntax import CelSyntaxError, parse
from steersman_cluster.cel.types import ANY, Type
from steersman_cluster.cel.values import CelError, CostLimitError

__all__ = ["CompileError", "Program", "compile", "evaluate"]


class CompileError(ValueError):
    """The expression is no good; the text names each place, as the API server shows it."""


class Program:
    """A compiled expression. Immutable and free of state, hence to be shared.

    `result` is its type, `uses` the variables it reads.
    """

    def __init__(
        self, expression: str, variables: Mapping[str, Type], raw: frozenset[str], *, patches: bool = False
    ) -> None:
        self.expression = expression
        try:
            parsed = parse(expression)
        except CelSyntaxError as error:
            raise CompileError(str(error)) from None
        checked = check(parsed, variables, patches=patches)
        if checked.errors:
            raise CompileError(checked.report)
        self.result = checked.result
        self.uses = frozenset(checked.used)
        self._checked = checked
        self._run = evaluator(checked, raw)

    def cost(self, sizes: Decl) -> int:
        """Return the greatest cost, in the API server's units, for variables of the given sizes."""
        return estimate(self._checked, sizes)

    def evaluate(self, bindings: Mapping[str, Any], meter: Meter | None = None) -> Any:
        """Return the value. Variables hold decoded JSON or CEL values.

        Args:
            bindings: The values of the variables.
            meter: Counts what the evaluation costs, also where it fails; without one, the limit of one call holds.

        Raises:
            CelError: The evaluation failed; the text is CEL's.
            CostLimitError: It was stopped, as it cost more than the meter's limit.
        """
        meter = meter or Meter()
        before = measure(meter)
        try:
            value = self._run({**bindings, METER: meter})
            meter.charge(0)
            return value
        except EvaluationCancelledError:
            raise CostLimitError from None
        except CelError:
            if meter.spent > meter.limit:
                raise CostLimitError from None
            raise
        except RecursionError:
            raise CelError("expression is nested too deeply") from None
        except (TypeError, AttributeError, ValueError, ArithmeticError, KeyError, IndexError):
            # A function got values that no overload takes, where types were dynamic.
            raise CelError("no such overload") from None
        finally:
            measure(before)


def compile(  # noqa: A001
    expression: str, variables: Mapping[str, Type] | None = None, *, patches: bool = False
) -> Program:
    """Compile an expression that may use these variables; raises CompileError. Programs are cached.

    `patches` adds the types and functions of patch expressions (`Object`, `JSONPatch`).

    Variables of object types hold JSON, and their parts are converted to CEL values by type when they are read.
    """
    wanted = variables or {}
    return _cached(expression, tuple(sorted(wanted.items(), key=lambda item: item[0])), patches)


@lru_cache(maxsize=2048)
def _cached(expression: str, variables: tuple[tuple[str, Type], ...], patches: bool) -> Program:  # noqa: FBT001 - cheaper keys
    raw = frozenset(name for name, kind in variables if kind is not ANY and kind.kind not in ("opaque", "optional"))
    return Program(expression, dict(variables), raw, patches=patches)


def evaluate(
    expression: str, variables: Mapping[str, Any], meter: Meter | None = None, *, patches: bool = False
) -> Any:
    """Compile (once) and run an expression over dynamic variables; raises ValueError with the evaluator's words."""
    return compile(expression, dict.fromkeys(variables, ANY), patches=patches).evaluate(variables, meter)
