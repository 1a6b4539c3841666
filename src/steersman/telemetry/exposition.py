"""The text format of `/metrics`.

Source: Prometheus documentation, "Exposition formats", text format 0.0.4.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Final

from steersman.telemetry.families import Family, Sample
from steersman.telemetry.metrics import collect

__all__ = ["CONTENT_TYPE", "exposition", "render"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_VALUE_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})
_REGISTRY: Final = "steersman.telemetry.registry"
_LARGEST_PLAIN_NUMBER_DIGITS: Final = 6


def exposition(accept: str) -> tuple[bytes, str]:
    """Return all metrics and their content type.

    Args:
        accept: The header `Accept` of the scraper. OpenMetrics is served to scrapers that accept nothing else, and by
            operators with metrics of their own.
    """
    if _REGISTRY not in sys.modules and _accepts_text(accept):
        return render(collect()), CONTENT_TYPE
    from prometheus_client.exposition import choose_encoder

    from steersman.telemetry.registry import REGISTRY

    encode, content_type = choose_encoder(accept)
    return encode(REGISTRY), content_type


def _accepts_text(accept: str) -> bool:
    accepted = {each.partition(";")[0].strip() for each in accept.split(",")}
    return bool(accepted & {"", "*/*", "text/*", "text/plain"})


def render(families: Iterable[Family]) -> bytes:
    """Return metric families in the text format."""
    lines: list[str] = []
    for family in families:
        name = f"{family.name}_total" if family.kind == "counter" else family.name
        lines.append(f"# HELP {name} {family.documentation.translate(_HELP_ESCAPES)}\n")
        lines.append(f"# TYPE {name} {family.kind}\n")
        lines.extend(map(_line, family.samples))
    return "".join(lines).encode()


def _line(sample: Sample) -> str:
    labels = ",".join(f'{name}="{value.translate(_VALUE_ESCAPES)}"' for name, value in sorted(sample.labels.items()))
    return (
        f"{sample.name}{{{labels}}} {_number(sample.value)}\n" if labels else f"{sample.name} {_number(sample.value)}\n"
    )


def _number(value: float) -> str:
    """Return a number as Go writes it, which changes to exponents at a million."""
    value = float(value)
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    text = repr(value)
    point = text.find(".")
    if value > 0 and point > _LARGEST_PLAIN_NUMBER_DIGITS:
        mantissa = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
        return f"{mantissa}e+{point - 1:02d}"
    return text
